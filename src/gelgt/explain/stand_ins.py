"""Stand-ins: rows that are shown with other values in some of their columns. The values are those
of a row of the same table that was known before the seed's time, drawn at random: what the column
might as well have said, never a zero that no row has."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
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
from gelgt.history.columns import TaskData, Values
from gelgt.history.events import row_times
from gelgt.history.patched import Patched
from gelgt.nn.rows import row_frame
from gelgt.scoring.variants import StandIn
from gelgt.sources.database import Database

if TYPE_CHECKING:
    from gelgt.explain.column_kernels import Table

ABSENT, ITSELF, STAND_IN = 0, 1, 2  # states of a unit; from STAND_IN on, places of stand-ins


def _no_columns(kind: type) -> NDArray[Any]:
    """Of a table without columns of a kind; as those of files, so that loops are compiled once."""
    array: NDArray[Any] = np.zeros((0, 0), kind)
    array.flags.writeable = False
    return array


_NONE = {
    "numerical": _no_columns(np.float32),
    "categorical": _no_columns(np.int32),
    "timestamp": _no_columns(np.int64),
}


class StandIns:
    """The stand-ins of one seed, numbered as they come. In its table a stand-in has a row number
    behind the table's own."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self._all: list[StandIn] = []
        self._places: dict[StandIn, int] = {}
        self._numbers: list[int] = []
        self._of_table: dict[str, list[tuple[int, StandIn]]] = {}
        self._shown: dict[tuple[str, str], NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def state(self, table: str, row: int, donor: int, columns: Collection[str]) -> int:
        """The state of a unit that shows a row with columns of a donor."""
        if not columns:
            return ITSELF
        stand_in = StandIn(table, row, donor, frozenset(columns))
        if stand_in not in self._places:
            self._places[stand_in] = len(self._all)
            self._all.append(stand_in)
            of_table = self._of_table.setdefault(table, [])
            self._numbers.append(self.features.rows[table] + len(of_table))
            of_table.append((len(self._all) - 1, stand_in))
        return STAND_IN + self._places[stand_in]

    def numbers(self, states: NDArray[np.int64], rows: NDArray[Any]) -> NDArray[np.int64]:
        """The rows whose columns are read, for some rows in some states."""
        if not self._all:
            return rows.astype(np.int64)
        places = np.maximum(states - STAND_IN, 0)
        return np.where(states >= STAND_IN, np.array(self._numbers, np.int64)[places], rows)

    @property
    def all(self) -> list[StandIn]:
        """All of them, in the order in which they came."""
        return self._all

    @property
    def row_numbers(self) -> NDArray[np.int64]:
        """The row that each stand-in is in its table."""
        return np.array(self._numbers, np.int64)

    def of_table(self, table: str) -> list[tuple[int, StandIn]]:
        """The stand-ins of a table with their places."""
        return self._of_table.get(table, [])

    def shown(self, table: str, kind: str) -> NDArray[Any]:
        """(n, columns) what the stand-ins of a table show of a kind."""
        own, known = self.of_table(table), self._shown.get((table, kind))
        if known is not None and len(known) == len(own):
            return known
        array = self.features.arrays(table).get(kind, _NONE[kind])
        if known is None:
            known = np.zeros((0, array.shape[1]), array.dtype)
        if len(known) < len(own) and array.shape[1]:
            new = [s for _, s in own[len(known) :]]
            names = columns_of(self.features.statistics.tables[table], kind)
            is_given = np.array([[name in s.columns for name in names] for s in new])
            given, shown = (array[[getattr(s, one) for s in new]] for one in ("donor", "row"))
            known = np.concatenate([known, np.where(is_given, given, shown)])
        self._shown[table, kind] = known
        return known

    def frame(self, table: str, rows: NDArray[np.int64], hidden: Collection[str]) -> TensorFrame:
        """The features of some rows, and behind them those of the table's stand-ins."""
        own = [s for _, s in self.of_table(table)]
        every = np.concatenate([rows, [s.row for s in own]]).astype(np.int64)
        frame = row_frame(self.features, table, every, hidden)
        if own:
            donors = np.array([s.donor for s in own], np.int64)
            shown = row_frame(self.features, table, donors, hidden)
            for kind, names in frame.col_names_dict.items():
                chosen = np.array([[name in s.columns for name in names] for s in own])
                frame.feat_dict[kind] = _replaced(
                    frame.feat_dict[kind], shown.feat_dict[kind], chosen
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


@dataclass(frozen=True)
class StandInData(TaskData):
    """A task's database in which stand-ins are rows too."""

    stand_ins: StandIns

    def columns(self, table: str, kind: str) -> Iterator[tuple[str, Values]]:
        own = [s for _, s in self.stand_ins.of_table(table)]
        for name, values in super().columns(table, kind):
            if not own or isinstance(values, Patched):
                yield name, values
                continue
            read = [s.donor if name in s.columns else s.row for s in own]
            yield name, Patched(values, values[np.array(read, np.int64)])

    def table(
        self, table: str, kind: str, columns: NDArray[np.int64], places: NDArray[np.int64]
    ) -> "Table":
        """Some columns of a kind as compiled loops read them."""
        from gelgt.explain.column_kernels import Table

        array = self.features.arrays(table).get(kind, _NONE[kind])
        return Table(array, self.stand_ins.shown(table, kind), columns, places)


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
