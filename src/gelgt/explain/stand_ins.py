"""Stand-ins: rows that are shown with other values in some of their columns. The values are those
of a row of the same table that was known before the seed's time, drawn at random: what the column
might as well have said, never a zero that no row has."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_frame import TensorFrame
from torch_frame.data import MultiEmbeddingTensor, MultiNestedTensor

from gelgt.features import Features
from gelgt.features.encode import columns_of
from gelgt.graph import Graph
from gelgt.history.events import row_times
from gelgt.nn.rows import row_frame
from gelgt.scoring.stand_in import StandIn, unpacked
from gelgt.sources.database import Database

ABSENT, ITSELF, STAND_IN = 0, 1, 2  # states of a unit; from STAND_IN on, places of stand-ins


def _no_columns(kind: type) -> NDArray[Any]:
    """Of a table without columns of a kind; as those of files, so that loops are compiled once."""
    array: NDArray[Any] = np.zeros((0, 0), kind)
    array.flags.writeable = False
    return array


KINDS = ("numerical", "categorical", "timestamp")  # that history columns are made of
_NONE = {
    "numerical": _no_columns(np.float32),
    "categorical": _no_columns(np.int32),
    "timestamp": _no_columns(np.int64),
}


def cells_of(features: Features, table: str, kind: str) -> NDArray[Any]:
    """(rows, columns) the features of a kind."""
    return features.arrays(table).get(kind, _NONE[kind])


class _OfTable:
    """The stand-ins of one table, as they come.

    Args:
        features: Of the rows.
        table: The table.

    Attributes:
        cells: (rows, columns) the features of each of `KINDS`.
        columns: The places of their columns among all of the table.
    """

    def __init__(self, features: Features, table: str) -> None:
        statistics = features.statistics.tables[table]
        self.places = {name: place for place, name in enumerate(statistics)}
        self.size = features.size(table)
        self.cells = [cells_of(features, table, kind) for kind in KINDS]
        self.columns = [[self.places[n] for n in columns_of(statistics, kind)] for kind in KINDS]
        self.numbers: list[int] = []  # of each among all stand-ins
        self.rows: list[int] = []
        self.donors: list[int] = []
        self.masks: list[int] = []

    def is_given(self, names: Collection[str]) -> NDArray[np.bool_]:
        """(n, columns) which columns of the stand-ins are the donors'."""
        bits = unpacked(self.masks, len(self.places) + 1)  # the last bit is never set
        return bits[:, [self.places.get(name, len(self.places)) for name in names]]


class StandIns:
    """The stand-ins of one seed, numbered as they come. In its table a stand-in has a row number
    behind the table's own and their versions.

    Args:
        features: Of the rows.
        limit: The first second that the seed may not see; rows and donors are shown as they were
            before it.
    """

    def __init__(self, features: Features, limit: int) -> None:
        self.features, self.limit = features, limit
        self._all: list[StandIn] = []
        self._places: dict[StandIn, int] = {}
        self._numbers: list[tuple[int, int]] = []
        self._of_table: dict[str, _OfTable] = {}
        self._shown: dict[str, tuple[NDArray[Any], ...]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def state(self, table: str, row: int, donor: int, columns: Collection[str]) -> int:
        """The state of a unit that shows a row with columns of a donor."""
        return self.masked_state(table, row, donor, sum(self.bits(table, set(columns))))

    def bits(self, table: str, columns: Iterable[str]) -> list[int]:
        """The bits that stand for columns of a table in a mask of them."""
        places = self.of_table(table).places
        return [1 << places[name] for name in columns]

    def masked_state(self, table: str, row: int, donor: int, mask: int) -> int:
        """The same as `state`, of the columns whose bits are set."""
        if not mask:
            return ITSELF
        versions = self.features.versions(table)
        if versions is not None:
            row, donor = versions.at(np.array([row, donor]), self.limit).tolist()
        stand_in = StandIn(table, row, donor, mask)
        place = self._places.get(stand_in)
        if place is None:
            place = self._places[stand_in] = len(self._all)
            self._all.append(stand_in)
            of_table = self.of_table(table)
            place_there = len(of_table.rows)
            self._numbers.append((of_table.size + place_there, place_there))
            of_table.numbers.append(place)
            of_table.rows.append(row)
            of_table.donors.append(donor)
            of_table.masks.append(mask)
        return STAND_IN + place

    @property
    def all(self) -> list[StandIn]:
        """All of them, in the order in which they came."""
        return self._all

    def numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The row that each stand-in is in its table, and its place among those of its table."""
        numbers = np.array(self._numbers, np.int64).reshape(-1, 2)
        return np.ascontiguousarray(numbers[:, 0]), np.ascontiguousarray(numbers[:, 1])

    def of_table(self, table: str) -> _OfTable:
        """The stand-ins of a table."""
        found = self._of_table.get(table)
        if found is None:
            found = self._of_table[table] = _OfTable(self.features, table)
        return found

    def shown(self, table: str) -> tuple[NDArray[Any], ...]:
        """(n, columns) what the stand-ins of a table show of each of `KINDS`."""
        own, known = self.of_table(table), self._shown.get(table)
        if known is None:
            known = tuple(np.zeros((0, c.shape[1]), c.dtype) for c in own.cells)
        begin = len(known[0])
        if begin < len(own.rows):
            bits = unpacked(own.masks[begin:], len(own.places))
            rows, donors = np.array(own.rows[begin:]), np.array(own.donors[begin:])
            known = tuple(
                np.concatenate(
                    [before, np.where(bits[:, columns], cells[donors], cells[rows])]
                    if len(columns)
                    else [before, np.zeros((len(rows), 0), cells.dtype)]
                )
                for before, cells, columns in zip(known, own.cells, own.columns)
            )
        self._shown[table] = known
        return known

    def frame(self, table: str, rows: NDArray[np.int64], hidden: Collection[str]) -> TensorFrame:
        """The features of some rows, and behind them those of the table's stand-ins."""
        own = self.of_table(table)
        known = self.features.rows_at(table, rows, self.limit)
        every = np.concatenate([known, own.rows]).astype(np.int64)
        frame = row_frame(self.features, table, every, hidden)
        if own.rows:
            donors = np.array(own.donors, np.int64)
            shown = row_frame(self.features, table, donors, hidden)
            for kind, names in frame.col_names_dict.items():
                frame.feat_dict[kind] = _replaced(
                    frame.feat_dict[kind], shown.feat_dict[kind], own.is_given(names)
                )
        return frame


def _replaced(values: Any, donors: Any, chosen: NDArray[np.bool_]) -> Any:
    """Values (N, columns, …) whose last n rows take the chosen cells (n, columns) of donors."""
    first = len(values) - len(donors)
    if isinstance(values, MultiNestedTensor):
        cells = [[values[i, j] for j in range(values.num_cols)] for i in range(len(values))]
        for i, j in zip(*np.nonzero(chosen)):
            cells[first + i][j] = donors[int(i), int(j)]
        return MultiNestedTensor.from_tensor_mat(cells)
    mask = torch.from_numpy(chosen)
    if isinstance(values, MultiEmbeddingTensor):
        wide = torch.repeat_interleave(mask, values.offset.diff(), dim=1)
        inner = _mixed(values.values, donors.values, wide, first)
        return MultiEmbeddingTensor(values.num_rows, values.num_cols, inner, values.offset)
    return _mixed(values, donors, mask, first)


def _mixed(values: Tensor, donors: Tensor, mask: Tensor, first: int) -> Tensor:
    mask = mask.reshape(*mask.shape, *([1] * (values.ndim - 2)))
    return torch.cat([values[:first], torch.where(mask, donors, values[first:])])


def readable_columns(
    db: Database,
    features: Features,
    hide: Mapping[str, Collection[str]],
    hidden: Collection[tuple[str, str]],
) -> dict[str, list[str]]:
    """For each table the columns that some part of a model reads: the row encoder, or the
    history, which reads no texts, no lists of categories, and of a row's own time only its age."""
    readable = {}
    for table, columns in features.statistics.tables.items():
        time_col = db.table(table).time_col
        aggregated = {
            name
            for kind in ("numerical", "categorical", "timestamp")
            for name in columns_of(columns, kind)
            if name != time_col
        }
        readable[table] = [
            name
            for name in columns
            if (table, name) not in hidden
            and (name not in hide.get(table, ()) or name in aggregated)
        ]
    return readable


def draw_rows(
    graph: Graph, table: str, limit: int, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Rows of a table that are known before a time, drawn with replacement; none where there are
    none. Rows that came later change nothing, not even which ones are drawn."""
    times = row_times(graph, table)
    if _is_sorted(graph, table, times):
        known = int(np.searchsorted(times, limit))
        return rng.integers(0, known, count) if known else np.zeros(0, np.int64)
    rows = np.flatnonzero(times < limit)
    return rows[rng.integers(0, len(rows), count)] if len(rows) else rows


_sorted: WeakKeyDictionary[Graph, dict[str, bool]] = WeakKeyDictionary()


def _is_sorted(graph: Graph, table: str, times: NDArray[np.int64]) -> bool:
    """Whether the rows of a table come in the order of their times, as all do but those that other
    rows date; looked at once."""
    known = _sorted.setdefault(graph, {})
    if table not in known:
        known[table] = bool((times[:-1] <= times[1:]).all())
    return known[table]
