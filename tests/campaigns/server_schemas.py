"""What schemas of real servers have beside plain tables: locks of others, generated columns, keys
into other schemas, and names that differ by case alone."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from campaigns.server_world import SPACE, Session, attempt, rows_of, session_of, source_of
from campaigns.server_writes import content_of, state_of, text_of
from database_servers import DatabaseServer
from gelgt.errors import GelgtError

Random = np.random.Generator
OTHER = "elsewhere"  # a schema that is not read
SOON = 0.4  # seconds after which a lock is given back


def locks(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Somebody holds a table: who reads waits for it, or is told which one it is."""
    is_short = bool(random.random() < 0.4)
    with session_of(server) as session:
        session.clear()
        for name in ("aa", "held", "zz"):
            session.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)")
            session.run(f"INSERT INTO {name} VALUES (1, 7), (2, NULL)")
        state = state_of(session)
        with _patience(session, 20 if is_short else 1), _held(server, is_short):
            answer = attempt(server, source_of(server, is_named=random.random() < 0.6))
    if is_short:
        assert not isinstance(answer, GelgtError), f"it did not wait: {answer}"
        assert content_of(answer) == state, "rows are lost or changed"
        return "waited for"
    assert isinstance(answer, GelgtError), "a table that was locked has been read"
    told = f"{answer} {answer.hint}"
    assert "held" in told, f"the table is not named: {told}"
    assert "lock" in told.lower(), f"the cause is not named: {told}"
    return "an error"


@contextmanager
def _patience(session: Session, seconds: int) -> Iterator[None]:
    """About how long the sessions that begin now wait for a lock."""
    if session.kind == "postgres":
        session.run(f"ALTER ROLE tester SET lock_timeout = '{300 * seconds}ms'")
        undo = "ALTER ROLE tester RESET lock_timeout"
    else:
        before = session.run("SELECT @@GLOBAL.lock_wait_timeout")[0][0]
        session.run(f"SET GLOBAL lock_wait_timeout = {seconds}")
        undo = f"SET GLOBAL lock_wait_timeout = {before}"
    try:
        yield
    finally:
        session.run(undo)


@contextmanager
def _held(server: DatabaseServer, is_short: bool) -> Iterator[None]:
    """The table `held` is locked, for a moment or as long as this."""
    with session_of(server) as holder:
        if server.kind == "postgres":
            holder.run("BEGIN")
            holder.run("LOCK TABLE held IN ACCESS EXCLUSIVE MODE")
        else:
            holder.run("LOCK TABLES held WRITE")
        give_back = "ROLLBACK" if server.kind == "postgres" else "UNLOCK TABLES"
        timer = threading.Timer(SOON, holder.run, (give_back,))
        if is_short:
            timer.start()
        try:
            yield
        finally:
            if is_short:
                timer.join()
            else:
                holder.run(give_back)


EXPRESSIONS = ("a * 2 + b", "a - b", "COALESCE(b, -1)", "CASE WHEN a > 3 THEN a END")


def generated(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Columns that the server computes, stored or when they are read; also as keys."""
    is_postgres = server.kind == "postgres"
    with session_of(server) as session:
        session.clear()
        version = int(session.run("SHOW server_version_num")[0][0]) if is_postgres else 0
        kinds = ["STORED", "VIRTUAL"] if not is_postgres or version >= 180_000 else ["STORED"]
        made = [
            f"g{place} INT GENERATED ALWAYS AS ({expression}) {random.choice(kinds)}"
            for place, expression in enumerate(EXPRESSIONS)
            if random.random() < 0.7
        ]
        number = "INT GENERATED ALWAYS AS IDENTITY" if is_postgres else "INT AUTO_INCREMENT"
        session.run("CREATE TABLE parent (id INT PRIMARY KEY, v INT)")
        session.run("INSERT INTO parent VALUES (0, 5), (1, NULL), (2, 8)")
        key = "parent_id INT GENERATED ALWAYS AS (a % 3) STORED"
        words = ", ".join([f"id {number} PRIMARY KEY", "a INT", "b INT", *made, key])
        session.run(f"CREATE TABLE child ({words})")
        session.run("ALTER TABLE child ADD FOREIGN KEY (parent_id) REFERENCES parent (id)")
        for _ in range(int(random.integers(0, 9))):
            b = "NULL" if random.random() < 0.3 else int(random.integers(9))
            session.run(f"INSERT INTO child (a, b) VALUES ({int(random.integers(9))}, {b})")
        state = state_of(session)
    answer = attempt(server, source_of(server))
    assert not isinstance(answer, GelgtError), str(answer)
    linked = [key.table for key in answer.table("child").foreign_keys]
    assert linked == ["parent"], f"the key is {linked}"
    assert content_of(answer) == state, f"other values: {made}"
    return "the same values"


def across(server: DatabaseServer, folder: Path, random: Random) -> str:
    """A key into another schema leads to no row of this one, though a table there has its name."""
    parent = str(random.choice(["parent", "child", "far"]))
    with session_of(server) as session:
        _other_schema(session)
        try:
            session.run(f"CREATE TABLE {OTHER}.{parent} (id INT PRIMARY KEY, v INT)")
            session.run(f"INSERT INTO {OTHER}.{parent} VALUES (1, 0), (2, 0), (3, 0), (70, 0)")
            session.run("CREATE TABLE parent (id INT PRIMARY KEY, v INT)")
            session.run("INSERT INTO parent VALUES (1, 5), (2, NULL), (3, 8)")
            session.run("CREATE TABLE child (id INT PRIMARY KEY, near INT, reached INT)")
            place = "parent" if session.kind == "postgres" else f"{SPACE}.parent"
            session.run(f"ALTER TABLE child ADD FOREIGN KEY (near) REFERENCES {place} (id)")
            target = f"{OTHER}.{parent}"
            session.run(f"ALTER TABLE child ADD FOREIGN KEY (reached) REFERENCES {target} (id)")
            for row in range(1, int(random.integers(2, 9))):
                reached = int(random.choice([1, 2, 3, 70]))
                session.run(f"INSERT INTO child VALUES ({row}, {row % 3 + 1}, {reached})")
            state = state_of(session)
            answer = attempt(server, source_of(server, is_named=random.random() < 0.6))
        finally:
            session.run("DROP TABLE IF EXISTS child")
            session.run(f"DROP {_schema(session)} {OTHER}{_cascade(session)}")
    assert not isinstance(answer, GelgtError), str(answer)
    linked = {key.column: key.table for key in answer.table("child").foreign_keys}
    assert linked == {"near": "parent"}, f"keys of child: {linked}"
    assert content_of(answer) == state, "other values"
    told = [f for f in answer.import_findings if f.table == "child" and "reached" in str(f)]
    assert told, f"nothing is said of the key: {answer.import_findings}"
    return "left alone"


def _schema(session: Session) -> str:
    return "SCHEMA" if session.kind == "postgres" else "DATABASE"


def _cascade(session: Session) -> str:
    return " CASCADE" if session.kind == "postgres" else ""


def _other_schema(session: Session) -> None:
    session.clear()
    session.run(f"DROP {_schema(session)} IF EXISTS {OTHER}{_cascade(session)}")
    session.run(f"CREATE {_schema(session)} {OTHER}")


SPELLINGS = ("users", "Users", "USERS", "uSers")


def spellings(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Tables whose names, and in PostgreSQL columns whose names, differ by case alone: an error
    that names them, or each with its own rows; and any of them by itself."""
    if server.kind == "mariadb" and random.random() < 0.3:
        return _lower(server, random)
    names = [str(n) for n in random.permutation(SPELLINGS)[: random.integers(1, 5)]]
    is_twice = server.kind == "postgres" and random.random() < 0.3
    with session_of(server) as session:
        session.clear()
        due = {
            name: _spelled(session, name, place, ["v", "V"] if is_twice else ["v"])
            for place, name in enumerate(names)
        }
    chosen = [str(random.choice(names))] if random.random() < 0.5 else None
    source = source_of(server, is_named=random.random() < 0.6)
    answer = attempt(server, source, tables=chosen)
    is_clear = not is_twice and len(chosen or names) == 1
    if isinstance(answer, GelgtError):
        assert not is_clear, f"{names}, of which {chosen}: {answer}"
        told = f"{answer} {answer.hint}"
        shown = [n for n in (*names, "v", "V") if f"'{n}'" in told or f".{n}'" in told]
        assert len(shown) >= 2, f"the names are not told: {told}"
        return "an error"
    due = {name: rows for name, rows in due.items() if name in (chosen or names)}
    assert _rows(answer) == text_of(due), f"{names}, of which {chosen}"
    return "its own rows"


def _rows(db: Any) -> str:
    return text_of({name: rows_of(db, name) for name in db.table_names})


def _spelled(session: Session, name: str, place: int, columns: list[str]) -> list[dict[str, Any]]:
    """A table with a column that no other one has; its rows."""
    columns = ["id", *columns, f"own{place}"]
    typed = ", ".join(f"{session.quoted(c)} INT" for c in columns)
    session.run(f"CREATE TABLE {session.quoted(name)} ({typed}, PRIMARY KEY (id))")
    rows = []
    for row in range(1, 4):
        values = [row * 10 + place, *(100 * place + 7 * row + i for i in range(len(columns) - 1))]
        listed = ", ".join(map(str, values))
        session.run(f"INSERT INTO {session.quoted(name)} VALUES ({listed})")
        rows.append(dict(zip(columns, values)))
    return rows


def _lower(server: DatabaseServer, random: Random) -> str:
    """A server that takes names in any case and keeps them in lower case."""
    with session_of(server) as session:
        session.clear()
    server.options = ["--lower-case-table-names=1"]
    try:
        server.restart()
        with session_of(server) as session:
            session.clear()
            due = {"users": _spelled(session, "Users", 0, ["v"])}
            session.run("CREATE TABLE Orders (id INT PRIMARY KEY, buyer INT)")
            session.run("ALTER TABLE oRders ADD FOREIGN KEY (buyer) REFERENCES uSERS (id)")
            session.run("INSERT INTO ORDERS VALUES (1, 20), (2, NULL), (3, 10)")
        due["orders"] = [{"id": i + 1, "buyer": b} for i, b in enumerate((20, None, 10))]
        chosen = ["USERS"] if random.random() < 0.4 else None
        answer = attempt(server, source_of(server), tables=chosen)
    finally:
        server.options = []
        server.restart()
    if isinstance(answer, GelgtError):
        assert chosen is not None, str(answer)
        assert "'users'" in f"{answer} {answer.hint}", f"the right name is not told: {answer}"
        return "in lower case: an error"
    assert chosen is None, f"read as {answer.table_names}"
    assert _rows(answer) == text_of(due)
    assert [key.table for key in answer.table("orders").foreign_keys] == ["users"]
    return "in lower case: the same rows"
