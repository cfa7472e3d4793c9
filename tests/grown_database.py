"""Random databases at two sizes: an import, and a newer one that grew out of it.

places (always visible), users (themselves, a place, and a pointer to their last order), orders,
lines (dated by orders and users), notes (dated by lines) and visits (timed). Rows without a time,
dangling keys, equal times and fractions of seconds are frequent.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.schema.model import (
    ColumnKind,
    DatabaseSchema,
    Dating,
    ForeignKey,
    PrimaryKey,
    TableSchema,
    TimeColumn,
)
from gelgt.sources.database import Database
from gelgt.sources.growth import Growth

TIMED = TimeColumn("at")
DANGLING = 10_000.0
KINDS = {
    "size": ColumnKind("numerical"),
    "code": ColumnKind("numerical"),
    "color": ColumnKind("categorical"),
    "due": ColumnKind("timestamp"),
    "tags": ColumnKind("multicategorical", separator="|"),
    "marks": ColumnKind("multicategorical"),
    "text": ColumnKind("text"),
}


def _table(
    name: str,
    keys: Mapping[str, str],
    time_column: TimeColumn | None = None,
    dating: Dating | None = None,
    features: tuple[str, ...] = (),
) -> TableSchema:
    return TableSchema(
        name,
        dict.fromkeys(("id", *keys, *(("at",) if time_column else ()), *features), ""),
        PrimaryKey(("id",)),
        time_column,
        tuple(ForeignKey((column,), table) for column, table in keys.items()),
        {column: KINDS[column] for column in features},
        dating,
    )


SCHEMA = DatabaseSchema(
    "growing",
    {
        table.name: table
        for table in (
            _table("notes", {"line": "lines"}, dating=Dating(("line",)), features=("text", "tags")),
            _table("places", {}, features=("color", "size")),
            _table(
                "users",
                {"boss": "users", "place": "places", "last": "orders"},
                TIMED,
                Dating((), ("last",)),
                ("color", "code"),
            ),
            _table("orders", {"user": "users", "place": "places"}, TIMED, features=("due", "size")),
            _table(
                "lines",
                {"order": "orders", "user": "users", "next": "lines"},
                dating=Dating(("order", "user")),
                features=tuple(KINDS),
            ),
            _table("visits", {"user": "users", "other": "users"}, TIMED),
        )
    },
)


@dataclass(frozen=True)
class Grown:
    """An import, and a newer one that grew out of it."""

    base: Database
    db: Database


def grown_databases(
    rng: np.random.Generator, folder: Path, most_rows: int = 14, still: Collection[str] = ()
) -> Grown:
    """Write both imports beside each other; tables that stand still get no new rows."""
    is_new = {name: _new_rows(rng, most_rows) for name in SCHEMA.tables}
    is_new |= {name: np.zeros_like(is_new[name]) for name in still}
    tables = {name: _rows(rng, table, is_new) for name, table in SCHEMA.tables.items()}
    base = {name: _without_new(SCHEMA.tables[name], tables[name], is_new) for name in tables}
    group = int(rng.integers(1, 6))
    _write(folder / "base", base, group)
    _write(folder / "grown", tables, group)
    rows = {name: np.flatnonzero(new) for name, new in is_new.items() if new.any()}
    Growth(folder / "base", rows).save(folder / "grown")
    opened = (Database(folder / name, SCHEMA, "growing") for name in ("base", "grown"))
    return Grown(*opened)


def _new_rows(rng: np.random.Generator, most_rows: int) -> NDArray[np.bool_]:
    """(rows,) which rows are new: often the last ones, or none, or some anywhere, or all."""
    rows = int(rng.integers(0, most_rows))
    kind = rng.choice(["last", "last", "none", "anywhere", "anywhere", "all"])
    if kind == "last":
        return np.arange(rows) >= rng.integers(0, rows + 1)
    return rng.random(rows) < {"none": 0.0, "anywhere": 0.3, "all": 1.0}[str(kind)]


def _rows(
    rng: np.random.Generator, table: TableSchema, is_new: Mapping[str, NDArray[np.bool_]]
) -> pa.Table:
    new = is_new[table.name]
    n = len(new)
    columns: dict[str, Any] = {"id": np.arange(n)}
    for fk in table.foreign_keys:
        columns[fk.column] = [_key(rng, is_new[fk.table], may_be_new=row) for row in new]
    if table.time_col:
        halves = rng.integers(-4, 12, n)  # half seconds around 1970
        halves = np.sort(halves) if rng.random() < 0.5 else halves
        moments = [None if rng.random() < 0.15 else int(t) * 500_000 for t in halves]
        columns["at"] = pa.array(moments, pa.timestamp("us"))
    columns |= {column: _feature(rng, column, n) for column in table.kinds}
    return pa.table(columns)


def _key(rng: np.random.Generator, parents: NDArray[np.bool_], may_be_new: bool) -> float | None:
    """A row of the parent, none, or a number that no row has; old rows never name new ones."""
    rows = np.arange(len(parents)) if may_be_new else np.flatnonzero(~parents)
    kind = rng.random()
    if kind < 0.1 or not len(rows):
        return None
    return DANGLING if kind < 0.2 else float(rng.choice(rows))


def _feature(rng: np.random.Generator, column: str, n: int) -> pa.Array:
    choices: dict[str, tuple[list[Any], pa.DataType]] = {
        "size": ([1.5, -2.0, np.inf, 1e300, None], pa.float64()),
        "code": (["1", "2.5", "x", "1_0", None], pa.string()),
        "color": (["red", "green", "blue", "grey", None], pa.string()),
        "due": ([0, 1_500_000, -700_000, None], pa.timestamp("us")),
        "tags": (["a|b", "b", "", "c|zz| a", None], pa.string()),
        "marks": ([["x"], ["y", "x"], [], ["zz"], None], pa.list_(pa.string())),
        "text": (["a red bicycle", "Äpfel und Birnen", "", None], pa.string()),
    }
    values, arrow = choices[column]
    return pa.array([values[i] for i in rng.integers(0, len(values), n)], arrow)


def _without_new(
    table: TableSchema, rows: pa.Table, is_new: Mapping[str, NDArray[np.bool_]]
) -> pa.Table:
    """The old rows, numbered without the new ones."""
    rows = rows.filter(pa.array(~is_new[table.name]))
    rows = rows.set_column(0, "id", pa.array(np.arange(len(rows))))
    for fk in table.foreign_keys:
        numbers = np.cumsum(~is_new[fk.table]) - 1
        keys = [
            key if key in (None, DANGLING) else float(numbers[int(key)])
            for key in rows[fk.column].to_pylist()
        ]
        place = rows.column_names.index(fk.column)
        rows = rows.set_column(place, fk.column, pa.array(keys, pa.float64()))
    return rows


def _write(folder: Path, tables: Mapping[str, pa.Table], row_group_size: int) -> None:
    (folder / "db").mkdir(parents=True)
    for name, rows in tables.items():
        for fk in SCHEMA.tables[name].foreign_keys:
            place = rows.column_names.index(fk.column)
            keys = rows[fk.column].cast(pa.float64())
            rows = rows.set_column(place, fk.column, keys)
        pq.write_table(rows, folder / "db" / f"{name}.parquet", row_group_size=row_group_size)
