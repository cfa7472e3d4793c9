"""A database whose truth is known: when every row came, and since when every value was so.

    ALWAYS      the row or value was there from the beginning
    NEVER       it never comes (an entity that does not leave)

`write` turns it into a source as a stranger would meet it: files or a database, keys declared or
not, times in several forms, rows and columns in any order. A number in every table, its tag, has no
two equal values, so that rows are found again whatever a source or an import does to their order.
"""

import csv
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

Times = NDArray[np.int64]  # seconds since 1970
Random = np.random.Generator
ALWAYS, NEVER = -(1 << 50), 1 << 50
DAY = 86_400
DANGLING = -2  # a key that names a row which is not there; -1 is an empty one
SOURCES = ("sqlite", "sqlite", "csv", "csv", "parquet", "frames", "arrow", "duckdb")
# Forms of times that are cut to days; `us` may be read in two ways, `digits` is a number.
DAYS = ("day", "dotted", "slashed", "us", "digits")
EPOCHS = {"epoch s": 1, "epoch ms": 10**3, "epoch us": 10**6, "epoch f": 1.0}
NUMBERS = (*EPOCHS, "digits")
TEXTS = {
    "day": "%Y-%m-%d",
    "dotted": "%d.%m.%Y",
    "slashed": "%Y/%m/%d",
    "us": "%m/%d/%Y",
    "t": "%Y-%m-%dT%H:%M:%S",
    "z": "%Y-%m-%dT%H:%M:%SZ",
    "zone": "%Y-%m-%d %H:%M:%S+02:00",
}


def cut(times: Times, form: str) -> Times:
    """Times as precise as their form."""
    return times // DAY * DAY if form in DAYS else times


@dataclass
class Column:
    """One column.

    Attributes:
        kind: ``number``, ``category``, ``flag``, ``time`` or ``key``.
        values: (rows,) None for empty; times in seconds, keys as row numbers of the parent.
        parent: The table that a key names.
        form: How times are written.
        known: (rows,) since when each value is so; None: since the row came.
        before: (rows,) the values until then; None: empty.
    """

    kind: str
    values: list[Any]
    parent: str = ""
    form: str = "iso"
    known: Times | None = None
    before: list[Any] | None = None


@dataclass
class Table:
    """One table: a primary key, columns, and when each row came."""

    name: str
    key: str
    tag: str
    born: Times
    columns: dict[str, Column]
    ids: list[Any] = field(default_factory=list)  # the values of the primary key

    @property
    def rows(self) -> int:
        return len(self.born)


@dataclass(frozen=True)
class Question:
    """A PREDICT sentence, and what it means in rows.

    Attributes:
        table: The table that is aggregated.
        owner: Keys from its rows to the entity.
        moment: Keys from its rows to the row that has their time; empty: their own.
        time: The column of that time.
        value: The column that is summed; empty: rows are counted.
        form: ``exists``, ``none``, ``count`` or ``sum``.
    """

    sentence: str
    entity: str
    table: str
    owner: tuple[str, ...]
    moment: tuple[str, ...]
    time: str
    value: str
    form: str
    window: int  # days


@dataclass
class World:
    """A database and what an honest answer is.

    Attributes:
        doubtful: Tables that may be left out.
        harmless: Tables that would be a loss.
        named: Words of which a refusal names one, besides the doubtful tables.
        unclear: Tables of whose rows no column says beyond doubt when they came.
        shown: (entities,) since when the entity's own column says that it is there; None: it has
            no such column.
        first_named: (entities,) when an event first names each.
        is_fair: Whether nothing that is known at a seed time tells its label.
        stratum: For a seed time, the group of each entity (entities,) within which labels are
            fair; -1 for none.
    """

    tables: dict[str, Table] = field(default_factory=dict)
    question: Question | None = None
    shapes: tuple[str, ...] = ()
    doubtful: set[str] = field(default_factory=set)
    harmless: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    facts: dict[str, Any] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    shown: Times | None = None
    first_named: Times | None = None
    is_fair: bool = True
    stratum: Callable[[int], NDArray[np.int64]] | None = None
    source: str = "csv"
    is_declared: bool = False
    splits: dict[str, str] = field(default_factory=dict)


def cleaned(world: World) -> World:
    """The same without what is doubtful: a control. Nothing is wrong with what is left."""
    question = world.question
    assert question is not None
    path = {question.table, question.entity}
    tables = {}
    for name, table in world.tables.items():
        between = any(c.parent == name for t in path for c in world.tables[t].columns.values())
        if name in world.doubtful and name not in path and not between:
            continue
        columns = {c: column for c, column in table.columns.items() if column.known is None}
        if name in world.unclear | world.doubtful:
            moments = [c for c, column in columns.items() if column.kind == "time"]
            columns = {c: column for c, column in columns.items() if column.kind != "time"}
            if (table.born > ALWAYS).all():
                moment_ = (moments or ["created_at"])[0]
                # a minute later in doubtful tables: no copy of the time of what their rows name
                wait = 60 if name in world.doubtful - world.unclear else 0
                columns[moment_] = Column("time", (table.born + wait).tolist())
                if name == question.table and question.moment:
                    question = replace(question, moment=(), time=moment_)
        for column in columns.values():
            column.form = "iso" if column.form in NUMBERS else column.form
        tables[name] = replace(table, columns=columns)
    for table in tables.values():
        gone = [c for c, column in table.columns.items() if column.parent not in {"", *tables}]
        for column_ in gone:
            del table.columns[column_]
    unclear = {name for name in world.unclear if len(np.unique(tables[name].born)) == 1}
    return replace(world, tables=tables, question=question, unclear=unclear, doubtful=set())


def write(world: World, folder: Path, random: Random) -> Any:
    """The source: what `gelgt.open` takes."""
    _number(world, random)
    orders = {name: _order(table, random) for name, table in world.tables.items()}
    names = list(world.tables)
    random.shuffle(names)
    if world.source == "sqlite":
        return _sqlite(world, names, orders, folder / "data.db")
    if world.source == "csv":
        return _csv(world, names, orders, folder / "files", random)
    tables = {name: _arrow(world, world.tables[name], orders[name], random) for name in names}
    if world.source == "arrow":
        return tables
    if world.source == "duckdb":
        return _duckdb(tables, folder / "data.duckdb")
    if world.source == "frames":
        return {name: table.to_pandas() for name, table in tables.items()}
    place = folder / "files"
    place.mkdir()
    for name, table in tables.items():
        pq.write_table(table, place / f"{name}.parquet")
    return place


def _duckdb(tables: dict[str, pa.Table], path: Path) -> Path:
    import duckdb

    with duckdb.connect(str(path), config={"threads": 1}) as connection:
        for name, table in tables.items():
            connection.register("rows_to_write", table)
            connection.execute(f'CREATE TABLE "{name}" AS FROM rows_to_write')
            connection.unregister("rows_to_write")
    return path


def _number(world: World, random: Random) -> None:
    """Give every row the value of its primary key: a number, in the order of time or not, or a
    text."""
    for table in world.tables.values():
        if table.ids:
            continue
        order = np.argsort(table.born, kind="stable")
        numbers = np.empty(table.rows, np.int64)
        numbers[order] = np.arange(table.rows)
        if random.random() < 0.25:
            numbers = random.permutation(table.rows)
        form = random.choice(["plain", "plain", "plain", "high", "text"])
        if form == "text":
            table.ids = [f"{table.name[:2].upper()}{7 * n + 10_007:06d}" for n in numbers.tolist()]
        else:
            first = 1 if form == "plain" else int(random.integers(10**3, 10**6))
            table.ids = (numbers + first).tolist()


def _order(table: Table, random: Random) -> NDArray[np.int64]:
    """The order in which rows are written."""
    if random.random() < 0.4:
        return random.permutation(table.rows)
    return np.argsort(table.born, kind="stable")


def _values(world: World, column: Column, rows: NDArray[np.int64]) -> list[Any]:
    """A column's values in some order, keys as the parent's values."""
    values = [column.values[r] for r in rows.tolist()]
    if column.kind == "key":
        ids = world.tables[column.parent].ids
        lost: Any = "ZZ999999" if ids and isinstance(ids[0], str) else 987_654_321
        return [None if v == -1 else lost if v == DANGLING else ids[v] for v in values]
    if column.kind == "time" and column.form in EPOCHS:
        return [None if v is None else v * EPOCHS[column.form] for v in values]
    if column.form == "digits":
        return [None if v is None else int(moment(v).strftime("%Y%m%d")) for v in values]
    return values


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def _text(seconds: int, form: str) -> str:
    time = moment(seconds + 7200 * (form == "zone"))
    return time.strftime(TEXTS.get(form, "%Y-%m-%d %H:%M:%S")).rjust(10, "0")


def _cells(world: World, table: Table, order: NDArray[np.int64]) -> dict[str, list[Any]]:
    cells: dict[str, list[Any]] = {}
    for name, column in table.columns.items():
        if name == table.key:
            cells[name] = [table.ids[r] for r in order.tolist()]
        else:
            cells[name] = _values(world, column, order)
    return cells


def _csv(
    world: World, names: list[str], orders: dict[str, Any], place: Path, random: Random
) -> Path:
    place.mkdir()
    flags = [("true", "false"), ("1", "0"), ("True", "False")][random.integers(3)]
    for name in names:
        table = world.tables[name]
        cells = _cells(world, table, orders[name])
        for column, values in cells.items():
            described = table.columns[column]
            if described.kind == "time" and described.form not in NUMBERS:
                cells[column] = [None if v is None else _text(v, described.form) for v in values]
            elif described.kind == "flag":
                cells[column] = [None if v is None else flags[0 if v else 1] for v in values]
        with (place / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(cells)
            writer.writerows(zip(*cells.values()))
    return place


def _arrow(world: World, table: Table, order: NDArray[np.int64], random: Random) -> pa.Table:
    arrays = {}
    for name, values in _cells(world, table, order).items():
        column = table.columns[name]
        if column.kind == "time" and column.form not in NUMBERS:
            if column.form in TEXTS and column.form != "day":
                arrays[name] = pa.array(
                    [None if v is None else _text(v, column.form) for v in values]
                )
                continue
            is_far = max((v for v in values if v is not None), default=0) > 9_000_000_000
            unit = pa.timestamp("us" if is_far else str(random.choice(["s", "ms", "us", "ns"])))
            if column.form == "day" and random.random() < 0.5:
                unit = pa.date32()
            arrays[name] = pa.array(
                [None if v is None else moment(v) for v in values], pa.timestamp("us")
            ).cast(unit)
        elif column.kind == "number":
            arrays[name] = pa.array(values, pa.float64())
        elif column.kind == "flag" and random.random() < 0.5:
            arrays[name] = pa.array([None if v is None else int(v) for v in values], pa.int64())
        else:
            arrays[name] = pa.array(values)
    return pa.table(arrays)


_TYPES = {"number": "REAL", "category": "TEXT", "flag": "BOOLEAN"}


def _sqlite(world: World, names: list[str], orders: dict[str, Any], path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in names:
            table = world.tables[name]
            cells, parts = _cells(world, table, orders[name]), []
            for column, values in cells.items():
                described = table.columns[column]
                type_ = _TYPES.get(described.kind, "INTEGER")
                if described.kind == "key":
                    ids = world.tables[described.parent].ids if described.parent else table.ids
                    type_ = "TEXT" if ids and isinstance(ids[0], str) else "INTEGER"
                elif described.kind == "time" and described.form not in NUMBERS:
                    type_ = {"day": "DATE", "iso": "TIMESTAMP"}.get(described.form, "TEXT")
                    cells[column] = [
                        None if v is None else _text(v, described.form) for v in values
                    ]
                is_key = world.is_declared and column == table.key
                parts.append(f'"{column}" {type_}{" PRIMARY KEY" * is_key}')
            for column, described in table.columns.items():
                if world.is_declared and described.kind == "key" and described.parent:
                    key = world.tables[described.parent].key
                    parts.append(
                        f'FOREIGN KEY ("{column}") REFERENCES "{described.parent}" ("{key}")'
                    )
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(parts)})')
            marks = ", ".join("?" * len(cells))
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', zip(*cells.values()))
    return f"sqlite:///{path}"
