"""Units, paths and columns in the user's own terms: keys, times, values."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.explain.explanation import Effect
from gelgt.explain.levels import Part
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.sentences import sentence
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
        self._kept: dict[str, pa.Table] = {}

    def of(self, table: str, rows: NDArray[np.int64]) -> list[Any]:
        """(n,) keys; a list where a key has several columns."""
        if self.db.num_rows(table) > KEPT:
            found = key_table(self.db, table, rows)
        else:
            if table not in self._kept:
                self._kept[table] = key_table(self.db, table, np.arange(self.db.num_rows(table)))
            found = self._kept[table].take(rows)
        columns = [column.to_pylist() for column in found.columns]
        return columns[0] if len(columns) == 1 else [list(parts) for parts in zip(*columns)]


class Names:
    """The names of one neighbourhood.

    Args:
        data: The database.
        hood: The rows.
        parts: Names of the model's parts, in the order of `Part.values` behind the first.
        keys: Those that were read before, where there are some.
    """

    def __init__(
        self, data: SeedData, hood: Neighbourhood, parts: list[str], keys: Keys | None = None
    ) -> None:
        self.data, self.hood, self.parts = data, hood, parts
        self.keys = keys or Keys(data.db)
        self._keys = self._all_keys()

    def key(self, unit: int) -> Any:
        """The user's key of a sampled row."""
        return self._keys[unit]

    def time(self, unit: int) -> str | None:
        """When a sampled row happened."""
        seconds = int(self.hood.graph.node_time[self.hood.sample.node[unit]])
        return None if seconds in (NEVER, TIMELESS) else str(np.datetime64(seconds, "s"))

    def value(self, unit: int, column: str) -> Any:
        """The value of a column, as the model reads it; None where it is missing or a text."""
        table, row = self.hood.table(unit), int(self.hood.row_numbers[unit])
        statistics = self.data.features.statistics.tables[table]
        kind, arrays = statistics[column].kind, self.data.features.arrays(table)
        if kind not in arrays or kind == "text":
            return None
        raw = arrays[kind][row, columns_of(statistics, kind).index(column)]
        if kind == "numerical":
            return None if np.isnan(raw) else float(f"{float(raw):.6g}")
        if kind == "timestamp":
            return None if raw == MISSING_TIME else str(np.datetime64(int(raw), "s"))
        about = statistics[column]
        assert isinstance(about, CategoricalStatistics)
        return None if raw < 0 else about.categories[int(raw)]

    def effect(self, part: Part, what: str) -> Effect:
        """A part of the prediction as an effect, in a sentence on what is explained."""
        player, hood = part.player, self.hood
        units = player.units
        ages = self._ages(units)
        kind, unit = self._kind(part), int(units[0])
        is_one = kind in ("row", "column")
        made: dict[str, Any] = {
            "kind": kind,
            "table": player.path.table,
            "path": player.path.tables,
            "keys": player.path.keys,
            "effect": part.effect,
            "error": part.error,
            "strength": sum(abs(leaf.effect) for leaf in part.leaves),
            "key": self.key(unit) if is_one else None,
            "column": part.column,
            "value": None if part.column is None else self.value(unit, part.column),
            "age_days": _days(np.nanmin(ages)) if len(ages) and unit else None,
            "oldest_days": _days(np.nanmax(ages)) if len(ages) and not is_one else None,
            "via_days": self._via(unit) if is_one and unit and not len(ages) else None,
            "time": self.time(unit) if is_one and unit else None,
            "rows": int(hood.sizes[units].sum()),
            "parts": dict(zip(self.parts, part.values[1:].tolist())),
        }
        return Effect(**made, text=sentence(Effect(**made), what))

    def _kind(self, part: Part) -> str:
        if part.column is not None:
            return "column"
        if part.player.kind in ("own", "row"):
            return "row"
        if part.player.kind == "age" and len(self._ages(part.player.units)):
            return "age"
        return "path"

    def _ages(self, units: NDArray[np.int64]) -> NDArray[np.float64]:
        """The ages of all rows of some units that have one."""
        rests = self.hood.rests
        every = [
            self.hood.ages[unit : unit + 1]
            if unit < self.hood.num_rows
            else rests[unit - self.hood.num_rows].ages
            for unit in units
        ]
        ages: NDArray[np.float64] = np.concatenate(every)
        return ages[~np.isnan(ages)]

    def _via(self, unit: int) -> float | None:
        age = self.hood.via_age(unit)
        return None if np.isnan(age) else _days(age)

    def _all_keys(self) -> list[Any]:
        keys: list[Any] = [None] * self.hood.num_rows
        for number in np.unique(self.hood.sample.table):
            units = np.flatnonzero(self.hood.sample.table == number)
            table = self.hood.graph.tables[int(number)]
            found = self.keys.of(table, self.hood.row_numbers[units])
            for place, unit in enumerate(units):
                keys[int(unit)] = found[place]
        return keys


def _days(value: float) -> float:
    return round(float(value), 3)
