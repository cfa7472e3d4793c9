"""Readers who may not see everything, and keys of every kind between tables of a server."""

from typing import Any

import numpy as np

import gelgt
from campaigns.server_world import SPACE, Session

Random = np.random.Generator
READER = "reader"
RIGHTS = ("all", "none", "columns", "some rows")
TABLES = ("aa", "bb", "cc")


def make_reader(session: Session) -> None:
    """A user without any rights."""
    if session.kind == "postgres":
        if session.run(f"SELECT 1 FROM pg_roles WHERE rolname = '{READER}'"):
            session.run(f"DROP OWNED BY {READER}")
        else:
            session.run(f"CREATE ROLE {READER} LOGIN PASSWORD '{READER}'")
    else:
        session.run(f"DROP USER IF EXISTS {READER}@'127.0.0.1'")
        session.run(f"CREATE USER {READER}@'127.0.0.1' IDENTIFIED BY '{READER}'")


def grant(session: Session, random: Random) -> dict[str, str]:
    """Tables, and what the reader may do with each."""
    rights = {}
    for place, name in enumerate(TABLES):
        session.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, w VARCHAR(9))")
        session.run(f"INSERT INTO {name} VALUES (1, {place}, 'x'), (2, NULL, 'y'), (3, 3, NULL)")
        right = RIGHTS[random.integers(len(RIGHTS))]
        if right == "some rows" and session.kind == "mariadb":
            right = "all"
        rights[name] = right
        _grant(session, name, right)
    if session.kind == "postgres" and random.random() < 0.85:
        session.run(f"GRANT USAGE ON SCHEMA {SPACE} TO {READER}")
    elif session.kind == "postgres":
        return dict.fromkeys(TABLES, "none")
    return rights


def _grant(session: Session, table: str, right: str) -> None:
    to = READER if session.kind == "postgres" else f"{READER}@'127.0.0.1'"
    if right == "none":
        return
    columns = " (id, v)" if right == "columns" else ""
    session.run(f"GRANT SELECT{columns} ON {SPACE}.{table} TO {to}")
    if right == "some rows":
        session.run(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        session.run(f"CREATE POLICY odd ON {table} USING (id % 2 = 1)")


def visible(table: str, right: str) -> list[dict[str, Any]]:
    """The rows that the reader may see."""
    place = TABLES.index(table)
    rows = [(1, place, "x"), (2, None, "y"), (3, 3, None)]
    listed = [dict(zip(("id", "v", "w"), row)) for row in rows]
    return [row for row in listed if right != "some rows" or row["id"] % 2]


def create_keys(session: Session, random: Random) -> dict[str, list[tuple[int, Any]]]:
    """Tables with foreign keys; what each row of `child` refers to, by the name of the key."""
    is_postgres = session.kind == "postgres"
    late = " DEFERRABLE INITIALLY DEFERRED" if is_postgres and random.random() < 0.5 else ""
    session.run("CREATE TABLE parent (id BIGINT PRIMARY KEY, code VARCHAR(9) UNIQUE)")
    session.run("CREATE TABLE pair (a INT, b VARCHAR(9), PRIMARY KEY (a, b))")
    session.run(
        "CREATE TABLE child (id INT PRIMARY KEY, boss INT, parent_id BIGINT, pair_a INT, "
        "pair_b VARCHAR(9), code VARCHAR(9))"
    )
    parents = [int(p) for p in random.choice(10**12, 4, False)]
    for place, parent in enumerate(parents):
        session.run(f"INSERT INTO parent VALUES ({parent}, 'c{place}')")
        session.run(f"INSERT INTO pair VALUES ({place}, 'b{place % 2}')")
    due: dict[str, list[tuple[int, Any]]] = {"boss": [], "parent_id": [], "pair": [], "code": []}
    for row in range(1, int(random.integers(2, 12))):
        place = int(random.integers(4))
        boss = None if random.random() < 0.3 else int(random.integers(1, row + 1))
        due["boss"].append((row, boss))
        due["parent_id"].append((row, parents[place]))
        due["pair"].append((row, (place, f"b{place % 2}")))
        due["code"].append((row, parents[place]))
        values = f"{row}, {boss or 'NULL'}, {parents[place]}, {place}, 'b{place % 2}', 'c{place}'"
        session.run(f"INSERT INTO child VALUES ({values})")
    keys = {
        "(boss)": "child (id)",
        "(parent_id)": "parent (id)",
        "(pair_a, pair_b)": "pair (a, b)",
        "(code)": "parent (code)",
    }
    if is_postgres and random.random() < 0.4:  # a row that the key does not hold for
        session.run(f"INSERT INTO child VALUES (99, 99, {parents[0] + 1}, 77, 'b0', 'c9')")
        due["boss"].append((99, 99))
        due |= {name: [*rows, (99, None)] for name, rows in due.items() if name != "boss"}
        late = " NOT VALID"
    for columns, target in keys.items():
        session.run(f"ALTER TABLE child ADD FOREIGN KEY {columns} REFERENCES {target}{late}")
    return due


def resolved(db: gelgt.Database) -> dict[str, list[tuple[int, Any]]]:
    """What each row of `child` refers to in an import."""
    content, own = db.read("child"), _keys(db, "child")
    answer: dict[str, list[tuple[int, Any]]] = {}
    for key in db.table("child").foreign_keys:
        parents, numbers = _keys(db, key.table), content.column(key.column).to_pylist()
        name = "pair" if len(key.columns) == 2 else key.columns[0]
        answer[name] = sorted(
            (own[row], None if number is None else parents[number])
            for row, number in enumerate(numbers)
        )
    return answer


def _keys(db: gelgt.Database, table: str) -> list[Any]:
    keys = db.keys(table)
    if keys is None:
        return list(range(db.num_rows(table)))
    rows = [tuple(row.values()) for row in keys.to_pylist()]
    return [row[0] if len(row) == 1 else row for row in rows]
