"""Keys and times that a bare CSV export does not declare are found again, and none that are not
there."""

import gzip
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import gelgt
from gelgt.schema.names import names_own_table, points_to, words


@pytest.mark.parametrize("name", ["rel-f1", "rel-stack-beer"])
def test_bare_csv_of_real_databases(
    name: str, relbench_data: Callable[[str], Path], tmp_path: Path
) -> None:
    declared = gelgt.open(relbench_data(name))
    for table in declared.table_names:
        pd.read_parquet(declared.paths(table)[0]).to_csv(tmp_path / f"{table}.csv", index=False)
    inferred = gelgt.open(tmp_path)
    keys, correct, false = 0, 0, []
    for table in declared.table_names:
        there, here = declared.table(table), inferred.table(table)
        assert here.time_col == there.time_col, f"time column of {table}"
        expected = {(fk.column, fk.table) for fk in there.foreign_keys} | (
            {(there.pkey, "")} if there.pkey else set()
        )
        got = {(fk.column, fk.table) for fk in here.foreign_keys} | (
            {(here.pkey, "")} if here.pkey else set()
        )
        keys, correct = keys + len(expected), correct + len(expected & got)
        false += [(table, *key) for key in got - expected]
    assert false == []
    assert correct >= 0.95 * keys


def infer(**tables: pd.DataFrame) -> gelgt.Database:
    return gelgt.open(dict(tables))


def test_a_date_of_birth_is_no_time_column() -> None:
    people = pd.DataFrame(
        {
            "person_id": [1, 2, 3],
            "birth_date": pd.date_range("1980-01-01", periods=3),
            "dob": pd.date_range("1980-01-01", periods=3),
        }
    )
    assert infer(people=people).table("people").time_col is None


def test_the_moment_of_creation_wins() -> None:
    days = pd.date_range("2024-01-01", periods=3)
    orders = pd.DataFrame(
        {
            "id": [1, 2, 3],
            "updated_at": days,
            "due_date": days,
            "created_at": days,
            "shipped_on": days,
        }
    )
    assert infer(orders=orders).table("orders").time_col == "created_at"


def test_events_are_timed_by_their_own_name() -> None:
    """Returns come with `returned_at`, not with the order; what only some deliveries have was not
    there when they were recorded."""
    days = pd.Series(pd.date_range("2024-01-01", periods=40))
    orders = pd.DataFrame({"id": range(40), "placed_at": days})
    returns = pd.DataFrame(
        {"id": range(40), "order_id": range(40), "returned_at": days + pd.Timedelta(days=9)}
    )
    deliveries = pd.DataFrame(
        {"id": range(40), "order_id": range(40), "delivered_at": days.mask(days.dt.day % 3 == 0)}
    )
    schedules = pd.DataFrame(
        {"id": range(40), "order_id": range(40), "scheduled_for": days + pd.Timedelta(days=9)}
    )
    db = gelgt.open(
        {"orders": orders, "returns": returns, "deliveries": deliveries, "schedules": schedules}
    )
    assert {name: db.table(name).time_col for name in db.table_names} == {
        "orders": "placed_at",
        "returns": "returned_at",
        "deliveries": None,
        "schedules": None,
    }


def test_roles_self_references_and_one_to_one_keys() -> None:
    users = pd.DataFrame({"id": range(1, 6), "manager_id": [None, 1, 1, 2, 2]})
    details = pd.DataFrame({"user_id": range(1, 6), "shoe": [1.5, 2.5, 3.5, 1.5, 2.5]})
    posts = pd.DataFrame(
        {
            "id": range(10, 16),
            "OwnerUserId": [1, 2, 3, 4, 5, 1],
            "PostTypeId": [1, 2, 1, 2, 1, 2],
            "user_count": [1, 2, 3, 4, 5, 1],
        }
    )
    db = infer(users=users, user_details=details, posts=posts)
    assert [(fk.column, fk.table) for fk in db.table("users").foreign_keys] == [
        ("manager_id", "users")
    ]
    assert [(fk.columns, fk.table) for fk in db.table("user_details").foreign_keys] == [
        (("user_id",), "users")
    ]
    assert [(fk.column, fk.table) for fk in db.table("posts").foreign_keys] == [
        ("OwnerUserId", "users")
    ]


def test_values_outside_the_parent_are_no_key() -> None:
    users = pd.DataFrame({"id": [1, 2, 3]})
    visits = pd.DataFrame({"id": [1, 2, 3], "user_id": [100, 200, 3]})
    assert infer(users=users, visits=visits).table("visits").foreign_keys == ()


def test_text_keys_are_found_by_value() -> None:
    airports = pd.DataFrame(
        {"faa": [f"A{i:02}" for i in range(30)], "lat": [i + 0.5 for i in range(30)]}
    )
    flights = pd.DataFrame(
        {"dest": [f"A{i % 20:02}" for i in range(60)], "gate": [f"G{i % 7}" for i in range(60)]}
    )
    db = infer(airports=airports, flights=flights)
    assert [(fk.column, fk.table) for fk in db.table("flights").foreign_keys] == [
        ("dest", "airports")
    ]
    assert db.table("flights").pkey is None


def test_a_second_name_of_the_row_is_no_key() -> None:
    """Two catalogues of players, which mostly agree: nobody is meant but the row itself."""
    names = [f"p{i:02}" for i in range(30)]
    partner = [names[i ^ 1] for i in range(30)]
    players = pd.DataFrame({"player": names, "elsewhere": [*names[:29], names[0]]})
    pairs = pd.DataFrame({"player": names, "partner": partner})
    assert infer(players=players).table("players").foreign_keys == ()
    assert [fk.column for fk in infer(pairs=pairs).table("pairs").foreign_keys] == ["partner"]


def test_a_key_that_other_tables_share_is_found_by_its_name_and_values() -> None:
    teams = pd.DataFrame(
        {
            "year": [2000 + i // 10 for i in range(30)],
            "season": [f"T{i % 10}-{i // 10}" for i in range(30)],
            "name": [f"Team {i}" for i in range(30)],  # unique too, and nobody repeats it
        }
    )
    batting = pd.DataFrame({"season": [f"T{i % 10}-{i // 30}" for i in range(90)]})
    db = infer(teams=teams, batting=batting)
    key = db.table("teams").primary_key
    assert key is not None
    assert key.columns == ("season",)
    assert (
        key.evidence
        == "unique in 30 rows, and 30 of 30 distinct values of 'batting.season' are among them"
    )
    assert [(fk.column, fk.table) for fk in db.table("batting").foreign_keys] == [
        ("season", "teams")
    ]
    assert db.table("batting").pkey is None


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ([f"T{i % 10}-{i // 10}" for i in range(30)], "each once: no row is named twice"),
        ([f"U{i % 10}-{i // 30}" for i in range(90)], "values that are not there"),
        (["T0-0", "T1-0"] * 20, "two values prove nothing"),
        ([i % 30 for i in range(90)], "other types"),
    ],
)
def test_a_shared_name_alone_makes_no_key(values: list[object], why: str) -> None:
    teams = pd.DataFrame(
        {"year": [2000] * 30, "season": [f"T{i % 10}-{i // 10}" for i in range(30)]}
    )
    batting = pd.DataFrame({"hits": [1.5] * len(values), "season": values})
    db = infer(teams=teams, batting=batting)
    assert db.table("teams").pkey is None, why
    assert db.table("batting").foreign_keys == (), why


def test_numbers_are_keys_by_value_where_most_others_are_none() -> None:
    players = pd.DataFrame({"player_id": [100_000 + 7 * i for i in range(60)]})
    matches = pd.DataFrame(
        {
            "winner_id": [100_000 + 7 * (i % 50) for i in range(90)],
            "loser_id": [100_000 + 7 * ((i + 3) % 50) for i in range(90)],
            "minutes": [100_000 + 7 * (i % 40) for i in range(90)],  # not named like a key
            "umpire_id": [100_001 + 7 * (i % 50) for i in range(90)],  # no players
        }
    )
    db = infer(players=players, matches=matches)
    foreign = db.table("matches").foreign_keys
    assert [(fk.column, fk.table) for fk in foreign] == [
        ("winner_id", "players"),
        ("loser_id", "players"),
    ]
    assert foreign[0].evidence == (
        "by value: 50 of 50 distinct values are keys there, and 15% of all numbers between them"
    )


@pytest.mark.parametrize("first", [1, 100_000])
def test_numbers_are_no_keys_by_value_where_most_others_are_keys_too(first: int) -> None:
    players = pd.DataFrame({"player_id": [first + i + i // 50 * 900 for i in range(60)]})
    matches = pd.DataFrame({"winner_id": [first + i % 40 for i in range(90)]})
    assert infer(players=players, matches=matches).table("matches").foreign_keys == ()


def test_whole_numbers_of_one_name_are_no_key() -> None:
    ranks = pd.DataFrame({"score": [0.5] * 30, "position": range(1, 31)})
    results = pd.DataFrame({"points": [0.5] * 90, "position": [1 + i % 20 for i in range(90)]})
    assert infer(ranks=ranks, results=results).table("ranks").pkey is None


def test_every_guess_carries_its_evidence() -> None:
    db = infer(
        users=pd.DataFrame({"id": [1, 2]}),
        visits=pd.DataFrame(
            {"id": [1, 2], "user_id": [1, 2], "at": pd.date_range("2024", periods=2)}
        ),
    )
    visits = db.table("visits")
    assert visits.primary_key is not None
    assert visits.primary_key.origin == "inferred"
    assert "unique in 2 rows" in visits.primary_key.evidence
    assert (
        visits.foreign_keys[0].evidence
        == "the name points to 'users', 2 of 2 distinct values are keys there"
    )
    assert visits.time_column is not None
    assert "2 of 2 filled" in visits.time_column.evidence


def test_words() -> None:
    assert words("OrderItems") == words("order_items") == ("order", "item")
    assert words("HTTPServer2Id") == ("http", "server", "2", "id")
    assert points_to("constructorStandingsId", "constructor_standings", None) > points_to(
        "constructorStandingsId", "standings", None
    )
    assert names_own_table("qualifyId", "qualifying")
    assert not names_own_table("raceId", "results")


def test_a_column_that_counts_the_rows_of_a_table_is_no_key_to_it() -> None:
    orders = pd.DataFrame({"id": range(1, 61), "customer": [1 + i % 20 for i in range(60)]})
    customers = pd.DataFrame({"id": range(1, 21), "orders": [3] * 20, "orders_id": range(1, 21)})
    db = infer(orders=orders, customers=customers)
    assert [(fk.column, fk.table) for fk in db.table("orders").foreign_keys] == [
        ("customer", "customers")
    ]
    assert [(fk.column, fk.table) for fk in db.table("customers").foreign_keys] == [
        ("orders_id", "orders")
    ]


def people() -> dict[str, pd.DataFrame]:
    """Tables that share one primary key, as in AdventureWorks: each person and store is a business
    entity, some persons are employees."""
    entity, person, staff = list(range(1, 101)), list(range(1, 97)), list(range(1, 96, 3))
    return {
        "businessentity": pd.DataFrame({"businessentityid": entity, "kind": [0.5] * 100}),
        "person": pd.DataFrame({"businessentityid": person, "height": [1.5] * 96}),
        "password": pd.DataFrame({"businessentityid": person, "salt": [2.5] * 96}),
        "employee": pd.DataFrame({"businessentityid": staff, "hours": [7.5] * 32}),
        "personphone": pd.DataFrame({"businessentityid": person * 2, "phone": [0.5] * 192}),
        "reviews": pd.DataFrame({"reviewid": range(200), "businessentityid": entity * 2}),
    }


def links(db: gelgt.Database) -> set[tuple[str, str, str]]:
    return {
        (name, "+".join(fk.columns), fk.table)
        for name, table in db.schema.tables.items()
        for fk in table.foreign_keys
    }


def test_tables_that_share_a_key_refer_to_the_one_that_it_is_named_after() -> None:
    db = infer(**people())
    children = ("person", "password", "employee", "personphone", "reviews")
    assert links(db) == {(child, "businessentityid", "businessentity") for child in children}


def test_tables_that_share_a_key_refer_to_the_one_with_the_most_rows() -> None:
    """The table that the key is named after is not there: nobody knows who of equals is first."""
    tables = people()
    del tables["businessentity"]
    db = infer(**tables)
    key = "businessentityid"
    assert {link for link in links(db) if link[0] in ("person", "password")} == set()
    parents = {child: parent for child, _, parent in links(db)}
    assert parents.keys() == {"employee", "personphone", "reviews"}
    assert set(parents.values()) <= {"person", "password"}
    assert {column for _, column, _ in links(db)} == {key}


def test_a_key_is_of_the_table_in_its_name_before_a_namesake() -> None:
    """Nearly every user has a profile, whose key is that of the user."""
    users = pd.DataFrame({"id": range(1, 101), "age": [0.5] * 100})
    profiles = pd.DataFrame({"user_id": range(1, 91), "size": [1.5] * 90})
    orders = pd.DataFrame({"id": range(300), "user_id": [1 + i % 100 for i in range(300)]})
    assert links(infer(users=users, profiles=profiles, orders=orders)) == {
        ("profiles", "user_id", "users"),
        ("orders", "user_id", "users"),
    }


def declared(folder: Path, statements: str) -> gelgt.Database:
    with sqlite3.connect(folder / "some.db") as connection:
        for name, frame in people().items():
            frame.to_sql(name, connection, index=False)
        connection.executescript(statements)
    return gelgt.open(folder / "some.db")


def test_where_keys_are_declared_others_need_the_name_of_a_table(tmp_path: Path) -> None:
    db = declared(
        tmp_path,
        """
        DROP TABLE businessentity;
        CREATE TABLE businessentity (businessentityid INTEGER PRIMARY KEY, kind REAL);
        INSERT INTO businessentity SELECT businessentityid, 0.5 FROM person;
        INSERT INTO businessentity VALUES (97, 1), (98, 1), (99, 1), (100, 1);
        CREATE TABLE login (businessentityid INTEGER PRIMARY KEY
                            REFERENCES businessentity (businessentityid), salt REAL);
        INSERT INTO login SELECT businessentityid, salt FROM password;
        CREATE TABLE airports (code TEXT PRIMARY KEY, lat REAL);
        INSERT INTO airports SELECT 'A' || businessentityid, 0.5 FROM person;
        CREATE TABLE flights (id INTEGER PRIMARY KEY, dest TEXT, airport_code TEXT);
        INSERT INTO flights SELECT businessentityid, 'A' || businessentityid,
                                   'A' || businessentityid FROM person;
        DROP TABLE password; DROP TABLE person; DROP TABLE employee
        """,
    )
    assert links(db) == {
        ("login", "businessentityid", "businessentity"),
        ("personphone", "businessentityid", "businessentity"),
        ("reviews", "businessentityid", "businessentity"),
        ("flights", "airport_code", "airports"),
    }


def test_chinook_and_northwind_have_the_keys_that_they_declare(tmp_path: Path) -> None:
    data = Path(os.environ.get("GELGT_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (data / "classics" / "chinook.db.gz").is_file():
        pytest.skip("needs the sample databases in a folder that GELGT_DATA names")
    (tmp_path / "chinook.db").write_bytes(
        gzip.decompress((data / "classics" / "chinook.db.gz").read_bytes())
    )
    with sqlite3.connect(tmp_path / "northwind.db") as connection:
        script = gzip.decompress((data / "classics" / "northwind.sql.gz").read_bytes())
        connection.executescript(script.decode())
    for name, count in (("chinook", 11), ("northwind", 13)):
        tables = gelgt.open(tmp_path / f"{name}.db").schema.tables.values()
        origins = [fk.origin for table in tables for fk in table.foreign_keys]
        assert origins == ["declared"] * count
