"""Columns of every type of PostgreSQL and MariaDB, and what the server itself says of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from campaigns.server_world import Session

Random = np.random.Generator


@dataclass(frozen=True)
class Type:
    """A type and literals of it.

    Attributes:
        kind: How gelgt reads it: int, float, bool, text, time, list, seconds or, where it is left
            out, none.
        refused: Literals that gelgt has no place for.
    """

    name: str
    kind: str
    values: tuple[str, ...]
    refused: tuple[str, ...] = ()


_INTS = ("0", "1", "-1", "32767", "-32768")
_TEXTS = (
    "'a'",
    "''",
    "'B'",
    "' b '",
    "'é'",
    "'7'",
    "'日本🙂'",
    "'it''s'",
    "'x,y'",
    "'{}'",
    "'NULL'",
)
POSTGRES = (
    Type("smallint", "int", _INTS),
    Type("bigint", "int", (*_INTS, "9223372036854775807", "-9223372036854775808")),
    Type("numeric(18,0)", "int", (*_INTS, "999999999999999999"), ("'NaN'",)),
    Type("numeric", "float", ("0.1", "1e30", "'NaN'", "'Infinity'", "-7")),
    Type("numeric(30,5)", "float", ("0.10001", "1234567890123456789.5", "-7")),
    Type("numeric(5,-2)", "float", ("12300", "51")),
    Type("real", "float", ("0.1", "1e38", "'-Infinity'", "-7.5")),
    Type("float8", "float", ("0.1", "1e308", "5e-324", "'NaN'", "'-0'")),
    Type("boolean", "bool", ("true", "false")),
    Type("text", "text", _TEXTS),
    Type("varchar(40)", "text", _TEXTS),
    Type("char(5)", "text", ("'a'", "'abcde'", "''")),
    Type("citext", "text", ("'Ab'", "'aB'")),
    Type("uuid", "text", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",)),
    Type("json", "text", ("'{\"a\": 1}'", "'null'", "'[ 1,2]'")),
    Type("jsonb", "text", ("'{\"b\": 1, \"a\": null}'", "'\"x\"'")),
    Type("mood", "text", ("'low'", "'very high'")),
    Type("pair", "text", ("ROW(1, 'x')", "ROW(NULL, 'a \"b')")),
    Type("int4range", "text", ("'[1,5)'", "'empty'", "'(,3]'")),
    Type("money", "text", ("1234.5", "-3")),
    Type("inet", "text", ("'10.0.0.1'", "'::1/64'")),
    Type("time", "text", ("'09:00'", "'24:00'", "'23:59:59.5'")),
    Type("bit(3)", "text", ("B'101'", "B'000'")),
    Type("xml", "text", ("'<a>x</a>'",)),
    Type("point", "text", ("'(1,2)'",)),
    Type("hstore", "text", ("'a=>1, b=>NULL'",)),
    Type("interval", "seconds", ("'1 mon 2 days 03:04:05.5'", "'-1 year'", "'0'")),
    Type("timestamp", "time", ("'2024-02-29 12:00:00.123456'", "'0001-01-01'", "'infinity'",
         "'9999-12-31 23:59:59.999999'"), ("'0044-03-15 BC'", "'20000-01-01'")),
    Type("timestamptz", "time", ("'2024-03-31 02:30 Europe/Berlin'", "'2024-10-27 02:30+01'",
         "'2024-10-27 02:30+02'", "'-infinity'", "'1883-11-18 12:00 America/New_York'"),
         ("'0100-01-01 BC'",)),
    Type("date", "time", ("'2024-02-29'", "'1582-10-10'", "'infinity'"), ("'300000-01-01'",)),
    Type("int[]", "list", ("'{1,NULL,3}'", "'{}'", "'{{1,2},{3,4}}'", "'[0:1]={7,8}'")),
    Type("text[]", "list", ("'{a,\"b c\",\"\"}'", "'{}'", "'{NULL}'")),
    Type("mood[]", "list", ("'{low}'", "'{low,\"very high\"}'")),
    Type("bytea", "none", ("'\\x00ff'",)),
)  # fmt: skip
MARIADB = (
    Type("tinyint(1)", "bool", ("0", "1")),
    Type("tinyint(1)", "int", ("0", "7", "-1", "2")),
    Type("smallint", "int", _INTS),
    Type("bigint", "int", (*_INTS, "9223372036854775807", "-9223372036854775808")),
    Type("bigint unsigned", "int", ("0", "9223372036854775807"), ("18446744073709551615",)),
    Type("int(9) zerofill", "int", ("42", "0")),
    Type("year", "int", ("2024", "0", "1901")),
    Type("decimal(18,0)", "int", (*_INTS, "999999999999999999")),
    Type("decimal(65,30)", "float", ("0.1", "12345678901234567890123456789012345.5", "-7")),
    Type("double", "float", ("0.1", "1e308", "5e-324", "-7")),
    Type("bit(1)", "bit", ("b'0'", "b'1'")),
    Type("bit(8)", "none", ("b'101'",)),
    Type("varchar(40)", "text", _TEXTS),
    Type("varchar(40) character set latin1", "text", ("'é€'", "'a'", "''")),
    Type("varchar(40) character set utf8mb3", "text", ("'日本'", "'a'", "''")),
    Type("varchar(40) character set ucs2", "text", ("'日本'", "'a'", "''")),
    Type("varchar(40) collate utf8mb4_bin", "text", _TEXTS),
    Type("char(5)", "text", ("'a'", "'abcde'", "''")),
    Type("longtext", "text", _TEXTS),
    Type("enum('x','y,z','')", "text", ("'x'", "'y,z'", "''", "'unknown'")),
    Type("set('a','b','c d')", "set", ("'a'", "'a,b'", "''", "'c d,a'")),
    Type("json", "text", ("'{\"a\": 1}'", "'[1,2]'")),
    Type("uuid", "text", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",)),
    Type("binary(4)", "hex", ("'ab'", "x'00ff00ff'")),
    Type("time(6)", "clock", ("'09:00'", "'-838:59:59'", "'26:03:04.5'", "'00:00:00'")),
    Type("date", "time", ("'2024-02-29'", "'1000-01-01'", "'0000-00-00'", "'2024-00-15'")),
    Type("datetime(6)", "time", ("'2024-02-29 12:00:00.123456'", "'0001-01-01'",
         "'0000-00-00 00:00:00'", "'9999-12-31 23:59:59.999999'")),
    Type("timestamp(6) NULL", "time", ("'2024-03-31 01:30:00.5'", "'1970-01-01 00:00:01'",
         "'2037-12-31 23:59:59'")),
    Type("blob", "none", ("'a'",)),
    Type("varbinary(9)", "hex", ("'a'", "''", "x'ff'")),
    Type("point", "none", ("POINT(1, 2)",)),
    Type("inet6", "none", ("'::1'",)),
)  # fmt: skip
TYPES = {"postgres": POSTGRES, "mariadb": MARIADB}
SETUP = (
    "CREATE EXTENSION IF NOT EXISTS citext SCHEMA public",
    "CREATE EXTENSION IF NOT EXISTS hstore SCHEMA public",
    "CREATE TYPE mood AS ENUM ('low', 'very high')",
    "CREATE TYPE pair AS (a int, b text)",
)

# What the server says of a value, for each kind.
_SAID = {
    "postgres": {
        "float": "{}::float8", "seconds": "extract(epoch FROM {})::float8", "bool": "{}",
        "int": "{}::bigint", "list": "{}::text[]::text[]",
        "time": "CASE WHEN isfinite({0}) THEN to_char(({0})::timestamptz AT TIME ZONE 'UTC', "
                "'YYYY-MM-DD\"T\"HH24:MI:SS.US') END",
    },
    "mariadb": {
        "int": "CAST({} AS CHAR)", "float": "CAST({} AS CHAR)", "bool": "{}", "bit": "{} + 0",
        "hex": "LOWER(HEX({}))",
        "time": "CASE WHEN DAYOFMONTH({0}) > 0 AND MONTH({0}) > 0 THEN "
                "DATE_FORMAT({0}, '%Y-%m-%dT%H:%i:%s.%f') END",
    },
}  # fmt: skip


def said(session: Session, kind: str, column: str) -> str:
    """The query of what the server says of a column."""
    default = "{}::text" if session.kind == "postgres" else "CAST({} AS CHAR)"
    return _SAID[session.kind].get(kind, default).format(column)


def expected(kind: str, value: Any) -> Any:
    """What gelgt should hold for what the server says."""
    if value is None:
        return None
    if kind == "int":
        return int(value)
    if kind in ("float", "seconds"):
        return float(value)
    if kind in ("bool", "bit"):
        return bool(value)
    if kind == "time":
        return datetime.fromisoformat(value)
    if kind == "list":
        return [item for item in _flat(value) if item is not None]
    if kind == "set":
        return [member for member in value.split(",") if member]
    if kind == "clock":
        return value.rstrip("0").rstrip(".") if "." in value else value
    return value


def _flat(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    return [item for part in value for item in _flat(part)]


def is_same(held: Any, due: Any) -> bool:
    if isinstance(held, float) and isinstance(due, float):
        return held == due or (np.isnan(held) and np.isnan(due))
    return bool(held == due)


@dataclass(frozen=True)
class Planned:
    """A table of a case: its columns with their types, and whether a value has no place."""

    columns: dict[str, Type]
    has_refused: bool
    shape: str


SHAPES = {
    "postgres": ("table", "table", "view", "stored view", "partitions", "heirs", "domains"),
    "mariadb": ("table", "table", "view", "partitions", "MyISAM", "Aria", "invisible"),
}
NAMES = ("v", "Value", "order", "a b", 'qu"ote', "ümläut", "日本", "x.y", "100%", "%s", "a:b",
         ":v", "tick`s", "it's", "$1", "select", "a;b", "🙂", "back\\slash")  # fmt: skip


def create(session: Session, random: Random) -> Planned:
    """A table `t` of random types and values, as one of several shapes."""
    if session.kind == "postgres":
        for statement in SETUP:
            session.run(statement)
    types, shapes = TYPES[session.kind], SHAPES[session.kind]
    shape = shapes[random.integers(len(shapes))]
    chosen = [types[i] for i in random.choice(len(types), int(random.integers(1, 7)), False)]
    names = [NAMES[i] for i in random.permutation(len(NAMES))]
    if session.kind == "mariadb":  # it has no names beyond the first plane of Unicode
        names.remove("🙂")
    if shape in ("Aria", "partitions"):  # which hold no geometry
        chosen = [kind for kind in chosen if kind.name != "point"] or [MARIADB[0]]
    columns = dict(zip(names, chosen))
    is_bad = random.random() < 0.15
    rows = int(random.choice([0, 1, 4, 9], p=[0.05, 0.2, 0.45, 0.3]))
    _create_table(session, columns, shape)
    has_refused = False
    for number in range(rows):
        values = []
        for kind in columns.values():
            refused = is_bad and kind.refused and random.random() < 0.5
            literals = kind.refused if refused else (*kind.values, "NULL")
            values.append(literals[random.integers(len(literals))])
            has_refused = has_refused or bool(refused)
        listed = ", ".join(session.quoted(name) for name in columns)
        row = ", ".join([str(number * 3 + 1), *values])
        session.run(f"INSERT INTO {_target(shape, number)} (id, {listed}) VALUES ({row})")
    if shape == "stored view":
        session.run("CREATE MATERIALIZED VIEW t AS SELECT * FROM base")
    elif shape == "view":
        session.run("CREATE VIEW t AS SELECT * FROM base")
    return Planned(columns, has_refused, shape)


def _target(shape: str, number: int) -> str:
    if "view" in shape:
        return "base"
    return "heir" if shape == "heirs" and number % 2 else "t"


def _create_table(session: Session, columns: dict[str, Type], shape: str) -> None:
    kinds = {name: kind.name for name, kind in columns.items()}
    if shape == "domains":
        for place, (name, kind) in enumerate(kinds.items()):
            session.run(f"CREATE DOMAIN d{place} AS {kind}")
            kinds[name] = f"d{place}"
    hidden = " INVISIBLE" if shape == "invisible" else ""
    listed = ", ".join(f"{session.quoted(name)} {kind}{hidden}" for name, kind in kinds.items())
    name = "base" if "view" in shape else "t"
    ending = f" ENGINE = {shape}" if shape in ("MyISAM", "Aria") else ""
    if shape == "partitions":
        way = "RANGE (id)" if session.kind == "postgres" else "HASH (id) PARTITIONS 3"
        ending = f" PARTITION BY {way}"
    session.run(f"CREATE TABLE {name} (id int PRIMARY KEY, {listed}){ending}")
    if shape == "partitions" and session.kind == "postgres":
        session.run("CREATE TABLE t_a PARTITION OF t FOR VALUES FROM (0) TO (9)")
        session.run("CREATE TABLE t_b PARTITION OF t DEFAULT")
    if shape == "heirs":
        session.run("CREATE TABLE heir () INHERITS (t)")


def rows_said(session: Session, planned: Planned) -> list[dict[str, Any]]:
    """The rows of `t` in the order of `id`, in what gelgt should hold."""
    kinds = {name: kind.kind for name, kind in planned.columns.items() if kind.kind != "none"}
    queries = [said(session, kind, session.quoted(name)) for name, kind in kinds.items()]
    rows = session.run(f"SELECT {', '.join(['id', *queries])} FROM t ORDER BY id")
    return [
        {"id": row[0]} | {n: expected(k, v) for (n, k), v in zip(kinds.items(), row[1:])}
        for row in rows
    ]
