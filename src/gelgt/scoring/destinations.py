"""`Destinations`: the recommended table as a recommender reads it, and the candidates of seeds."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.candidates.columns import PairReader
from gelgt.candidates.find import CandidateFinder
from gelgt.graph import TIMELESS
from gelgt.nn.encoders import TableColumns
from gelgt.nn.recommender import PairInput
from gelgt.sampling import Seeds
from gelgt.sampling.seeds import entity_keys
from gelgt.scoring.seed_data import SeedData


@dataclass(frozen=True)
class Destinations:
    """The rows of the recommended table.

    Attributes:
        data: Where they lie.
        reader: Of candidates and their columns.
    """

    data: SeedData
    reader: PairReader

    @classmethod
    def of(cls, data: SeedData, names: tuple[str, ...] | None = None) -> "Destinations":
        """Those of a recommendation's database.

        Args:
            names: The history columns of destinations that a model reads.
        """
        finder = CandidateFinder(data.graph, data.task, data.sampling)
        return cls(data, PairReader(data.db, data.features, finder, names))

    @property
    def finder(self) -> CandidateFinder:
        return self.reader.finder

    @property
    def size(self) -> int:
        return self.finder.size

    @property
    def table(self) -> str:
        return self.finder.destination

    @property
    def pair_columns(self) -> int:
        """Columns of a candidate."""
        return len(self.reader.tie_names) + len(self.reader.item_names)

    @property
    def _hidden(self) -> tuple[str, ...]:
        """Columns that are not read; one row stands for all seeds, so that those that some seeds
        may not know yet are left out."""
        dates = self.data.features.statistics.event_dates.get(self.table, ())
        dated = (column for date in dates for column in date.masked)
        return (*self.data.hide.get(self.table, ()), *dated)

    @cached_property
    def columns(self) -> TableColumns:
        """What a row encoder has to know of the table."""
        features = self.data.features
        frame = features.frame(self.table, [], self._hidden)
        return TableColumns(features.col_stats(self.table, self._hidden), frame.col_names_dict)

    def frame(self, rows: NDArray[np.int64]) -> Any:
        """The columns of some rows, as a TensorFrame."""
        return self.data.features.frame(self.table, rows, self._hidden)

    @cached_property
    def times(self) -> Tensor:
        """(D,) from when on each row exists; the smallest number for always."""
        return torch.from_numpy(np.array(self.finder.times))

    @cached_property
    def keys(self) -> Tensor:
        """(D,) identities of the rows by their keys."""
        rows = np.arange(self.size)
        return torch.from_numpy(entity_keys(self.data.db, self.table, rows).view(np.int64))

    def with_names(self, names: tuple[str, ...]) -> "Destinations":
        """The same, reading some history columns of destinations."""
        return replace(self, reader=replace(self.reader, names=names))

    def exists(self, rows: NDArray[np.int64], limits: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether rows (S, Y) exist before limits (S,)."""
        times = self.finder.times[np.maximum(rows, 0)]
        there: NDArray[np.bool_] = (times < limits[:, None]) | (times == TIMELESS)
        return (rows >= 0) & there

    def pairs(self, seeds: Seeds) -> PairInput:
        """The candidates of seeds with their columns."""
        candidates = self.finder.find(seeds)
        columns = self.reader.read(seeds, candidates).whole()
        return PairInput(torch.from_numpy(candidates.row), torch.from_numpy(columns))
