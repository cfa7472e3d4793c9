"""Units, paths and columns in the user's own terms: keys, times, values."""

from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.explain.explanation import Effect
from gelgt.explain.levels import Part
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.sentences import sentence
from gelgt.features import Features
from gelgt.features.encode import columns_of
from gelgt.features.statistics import CategoricalStatistics
from gelgt.features.values import MISSING_TIME
from gelgt.graph import NEVER, TIMELESS
from gelgt.scoring.seed_data import SeedData
from gelgt.scoring.table import key_table
from gelgt.sources.database import Database

KEPT = 1 << 20  # rows of a table up to which all of its keys are kept


class Keys:
    """The user's keys of rows; those of smaller tables are read once.

    Args:
        db: The database.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self._kept: dict[str, list[NDArray[Any] | pa.Array]] = {}

    def of(self, table: str, rows: NDArray[np.int64]) -> list[Any]:
        """(n,) keys; a list where a key has several columns."""
        if self.db.num_rows(table) > KEPT:
            columns = [column.to_pylist() for column in key_table(self.db, table, rows).columns]
        else:
            columns = [_taken(column, rows) for column in self._all(table)]
        return columns[0] if len(columns) == 1 else [list(parts) for parts in zip(*columns)]

    def _all(self, table: str) -> list[NDArray[Any] | pa.Array]:
        """The columns of all keys of a table; integers as NumPy has them, which is quicker."""
        if table not in self._kept:
            keys = key_table(self.db, table, np.arange(self.db.num_rows(table)))
            columns = [column.combine_chunks() for column in keys.columns]
            self._kept[table] = [
                column.to_numpy()
                if pa.types.is_integer(column.type) and not column.null_count
                else column
                for column in columns
            ]
        return self._kept[table]


def _taken(column: NDArray[Any] | pa.Array, rows: NDArray[np.int64]) -> list[Any]:
    if isinstance(column, np.ndarray):
        taken: list[Any] = column[rows].tolist()
        return taken
    return column.take(pa.array(rows)).to_pylist()  # type: ignore[no-any-return]


class Cells:
    """The values of columns, as a model reads them.

    Args:
        features: Of the rows.
    """

    def __init__(self, features: Features) -> None:
        self.features = features
        self._found: dict[tuple[str, str], tuple[str, NDArray[Any] | None, Any]] = {}

    def value(self, table: str, row: int, column: str) -> Any:
        """The value of a column of a row, or of a version of it; None where it is missing or a
        text."""
        if (table, column) not in self._found:
            self._found[table, column] = self._find(table, column)
        kind, values, about = self._found[table, column]
        if values is None:
            return None
        raw = values[row]
        if kind == "numerical":
            return None if np.isnan(raw) else float(f"{float(raw):.6g}")
        if kind == "timestamp":
            return None if raw == MISSING_TIME else str(np.datetime64(int(raw), "s"))
        assert isinstance(about, CategoricalStatistics)
        return None if raw < 0 else about.categories[int(raw)]

    def _find(self, table: str, column: str) -> tuple[str, NDArray[Any] | None, Any]:
        """The kind of a column, its values by row where they can be shown, and its statistics."""
        statistics = self.features.statistics.tables[table]
        kind, arrays = statistics[column].kind, self.features.arrays(table)
        if kind not in arrays or kind == "text":
            return kind, None, None
        place = columns_of(statistics, kind).index(column)
        return kind, arrays[kind][:, place], statistics[column]


class Names:
    """The names of one neighbourhood.

    Args:
        data: The database.
        hood: The rows.
        parts: Names of the model's parts, in the order of `Part.values` behind the first.
        keys: Those that were read before, where there are some.
        cells: Likewise for the values of columns.
    """

    def __init__(
        self,
        data: SeedData,
        hood: Neighbourhood,
        parts: list[str],
        keys: Keys | None = None,
        cells: Cells | None = None,
    ) -> None:
        self.data, self.hood, self.parts = data, hood, parts
        self.keys, self.cells = keys or Keys(data.db), cells or Cells(data.features)
        self._keys = self._all_keys()
        self._newest, self._oldest = hood.ages.tolist(), hood.oldest.tolist()
        self._sizes: list[int] = hood.sizes.tolist()
        self._times = _instants(hood.graph.node_time[hood.sample.node])

    def key(self, unit: int) -> Any:
        """The user's key of a sampled row."""
        return self._keys[unit]

    def time(self, unit: int) -> str | None:
        """When a sampled row happened."""
        return self._times[unit]

    def effect(self, part: Part, what: str) -> Effect:
        """A part of the prediction as an effect, in a sentence on what is explained."""
        player = part.player
        units: list[int] = player.units.tolist()
        newest, oldest = self._span(units)
        kind, unit = self._kind(part, newest), units[0]
        is_one, is_dated = kind in ("row", "column"), newest is not None
        effect = Effect(
            kind=kind,
            table=player.path.table,
            path=player.path.tables,
            keys=player.path.keys,
            effect=part.effect,
            error=part.error,
            strength=part.strength,
            key=self.key(unit) if is_one else None,
            column=part.column,
            value=None if part.column is None else self._value(unit, part.column),
            age_days=newest if unit else None,
            oldest_days=None if is_one else oldest,
            via_days=self._via(unit) if is_one and unit and not is_dated else None,
            time=self.time(unit) if is_one and unit else None,
            rows=sum(self._sizes[unit] for unit in units),
            parts=dict(zip(self.parts, part.values[1:].tolist())),
        )
        # nobody has seen it yet; a copy of so many fields takes longer than all the rest
        object.__setattr__(effect, "text", sentence(effect, what))
        return effect

    def _value(self, unit: int, column: str) -> Any:
        table, row = self.hood.table(unit), self.hood.row_numbers[unit : unit + 1]
        limit = self.data.sampler.limits(self.hood.seed.time)
        return self.cells.value(
            table, int(self.data.features.rows_at(table, row, limit)[0]), column
        )

    def _kind(self, part: Part, newest: float | None) -> str:
        if part.column is not None:
            return "column"
        if part.player.kind in ("own", "row"):
            return "row"
        return "age" if part.player.kind == "age" and newest is not None else "path"

    def _span(self, units: list[int]) -> tuple[float | None, float | None]:
        """The ages in days of the newest and of the oldest row of some units; None where none has
        a time."""
        dated = [unit for unit in units if not isnan(self._newest[unit])]
        if not dated:
            return None, None
        newest = min(self._newest[unit] for unit in dated)
        return _days(newest), _days(max(self._oldest[unit] for unit in dated))

    def _via(self, unit: int) -> float | None:
        age = self.hood.via_ages[unit]
        return None if isnan(age) else _days(age)

    def _all_keys(self) -> list[Any]:
        keys: list[Any] = [None] * self.hood.num_rows
        tables = self.hood.sample.table
        for number in set(tables.tolist()):
            units = np.flatnonzero(tables == number)
            found = self.keys.of(self.hood.graph.tables[number], self.hood.row_numbers[units])
            for unit, key in zip(units.tolist(), found):
                keys[unit] = key
        return keys


def _instants(seconds: NDArray[np.int64]) -> list[str | None]:
    """Times in ISO 8601, None for rows without one."""
    is_dated = (seconds != NEVER) & (seconds != TIMELESS)
    texts = np.datetime_as_string(np.where(is_dated, seconds, 0).astype("datetime64[s]")).tolist()
    return [text if dated else None for text, dated in zip(texts, is_dated.tolist())]


def _days(value: float) -> float:
    return round(float(value), 3)
