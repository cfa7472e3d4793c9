"""Units, paths and columns in the user's own terms: keys, times, values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.explanation import Effect
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.owen import Part
from gelgt.features.encode import columns_of
from gelgt.features.statistics import CategoricalStatistics
from gelgt.features.values import MISSING_TIME
from gelgt.graph import NEVER, TIMELESS
from gelgt.scoring.seed_data import SeedData
from gelgt.scoring.table import key_table


class Names:
    """The names of one neighbourhood.

    Args:
        data: The database.
        hood: The rows.
        parts: Names of the model's parts, in the order of `Part.values` behind the first.
    """

    def __init__(self, data: SeedData, hood: Neighbourhood, parts: list[str]) -> None:
        self.data, self.hood, self.parts = data, hood, parts
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

    def effect(self, part: Part) -> Effect:
        """A part of the prediction as an effect."""
        player, hood = part.player, self.hood
        units = player.units
        ages = self._ages(units)
        kind, unit = self._kind(part), int(units[0])
        is_one = kind in ("row", "column")
        return Effect(
            kind=kind,
            table=player.path.table,
            path=player.path.tables,
            keys=player.path.keys,
            effect=part.effect,
            error=part.error,
            strength=sum(abs(leaf.effect) for leaf in part.leaves),
            key=self.key(unit) if is_one else None,
            column=part.column,
            value=None if part.column is None else self.value(unit, part.column),
            age_days=_days(np.nanmin(ages)) if len(ages) and unit else None,
            oldest_days=_days(np.nanmax(ages)) if len(ages) and not is_one else None,
            via_days=self._via(unit) if is_one and unit and not len(ages) else None,
            time=self.time(unit) if is_one and unit else None,
            rows=int(hood.sizes[units].sum()),
            parts=dict(zip(self.parts, map(float, part.values[1:]))),
        )

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
            found = key_table(self.data.db, table, self.hood.row_numbers[units])
            columns = [column.to_pylist() for column in found.columns]
            for place, unit in enumerate(units):
                parts = [column[place] for column in columns]
                keys[int(unit)] = parts[0] if len(parts) == 1 else parts
        return keys


def _days(value: float) -> float:
    return round(float(value), 3)
