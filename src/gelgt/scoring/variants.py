"""`RecordedVariants`: what a model says of many variants of one seed, by replay on CUDA.

A variant is a seed's subgraph without some rows, or with stand-ins: rows that show some columns of
another row. Networks, columns network and trees are one record, so that a batch of some hundred
variants is one copy to the device, one replay, and one copy back. Features of rows lie on the
device; behind those of each table there is room for stand-ins, whose cells are put together there
from the two rows that they are made of.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.rows import read_nodes, row_offsets
from gelgt.nn.static.cells import TableCells
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import Packer, StaticBatch
from gelgt.nn.static.shape import Shape
from gelgt.nn.static.weights import LowWeights
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.parts import COLUMNS, TREES
from gelgt.scoring.replay import Context, RecordedTensor, Replay, low_precision
from gelgt.scoring.seed_data import SeedData
from gelgt.scoring.stand_in import StandIn, unpacked

VARIANTS = 512  # of one pass
ROOM = 2_048  # stand-ins of a table
AT_ONCE = 256  # stand-ins of a table that are written together
DISTINCT = 512  # stand-ins of a table in one pass
LEVELS = 5  # of shapes; each has half the rows of the next
MESSAGES = 4  # for each row; the largest shape has room for all


@dataclass(frozen=True)
class Shown:
    """The rows of a batch that show stand-ins.

    Attributes:
        place: (T,) the stand-in that each row shows; negative for itself.
        stand_ins: Of one seed, in the order in which they came; later batches of the seed name the
            same list, grown.
    """

    place: NDArray[np.int64]
    stand_ins: Sequence[StandIn]


class RecordedVariants:
    """Scores batches of variants, of one seed at a time: the cells of its stand-ins lie on the
    device, so that two threads must not explain with one scorer at once.

    Args:
        model: Networks of one shape, with columns network and trees where there are some.
        data: What they read.
        precision: Autocast, or nothing.
        device: Where.
    """

    def __init__(
        self, model: Ensemble, data: SeedData, precision: Context, device: torch.device
    ) -> None:
        self.model, self.data, self.precision, self.device = model, data, precision, device
        self.forms = [
            network.static_form(data.graph, data.sampling, data.features, data.hide)
            for network in model.networks
        ]
        self.cells = [_with_room(cells) for cells in self.forms[0].cells]
        for form in self.forms:
            form.cells = self.cells
        low = low_precision(precision, device)
        self.weights = [LowWeights(network, low) for network in model.networks]
        self.replay, self._attention = (
            Replay(self._work, device),
            Replay(self._work_attention, device),
        )
        self._columns = RecordedTensor(self._of_histories, device)
        self._written = RecordedTensor(self._work_cells, device)
        self._worker = ThreadPoolExecutor(1, "gelgt-replay")
        self._first = row_offsets(data.graph, data.features)
        self.rows = np.diff(self._first)
        self.offsets = np.concatenate([[0], np.cumsum(self.rows + ROOM)])
        form, relations = self.forms[0], len(data.graph.relations)
        shapes = make_shapes(data, form.keep, len(self.rows))
        self._is_cuda = device.type == "cuda"
        same = (self.offsets, form.keep, form.by_relation, relations, self._is_cuda)
        self.packer = Packer(shapes, *same)
        self._one = Packer(make_shapes(data, form.keep, len(self.rows), 1)[-1:], *same)
        self._masks = [
            _masks(cells, model.first, name, list(data.features.statistics.tables[name]))
            for cells, name in zip(self.cells, data.graph.tables)
        ]
        self._tables = {name: number for number, name in enumerate(data.graph.tables)}
        self._stand_ins: Sequence[StandIn] = ()
        self._numbers = np.zeros(0, np.int64)  # the row of its table that each of them is
        self._counts = np.zeros(len(self.rows), np.int64)

    def start(
        self, batch: SubgraphBatch, shown: Shown, history: Tensor | None = None
    ) -> Future[Tensor] | None:
        """Start what the networks say of at most `VARIANTS` variants, (V, outputs) on the host: the
        launch of a record takes as long as its work, and neither needs the interpreter. None where
        they do not fit into any shape.

        Args:
            shown: The rows of the batch that show other values.
            history: (V, F) their history columns, where the networks read them.
        """
        packed = self._packed(batch, shown, self.packer)
        if packed is None:
            return None
        if packed.shape in self.replay.programs:
            return self._worker.submit(self._replayed, packed, history)
        made: Future[Tensor] = Future()  # nothing else may happen while a shape is recorded
        made.set_result(self._replayed(packed, history))
        return made

    def histories(self, history: Tensor) -> dict[str, Tensor]:
        """Raw outputs (V, outputs), on the host, of the parts that read history columns (V, F)."""
        names = [COLUMNS] if self.model.columns is not None else []
        names += [TREES] if self.model.trees is not None else []
        if not names:
            return {}
        made = []
        for start in range(0, len(history), VARIANTS):
            part = history[start : start + VARIANTS]
            made.append(self._columns(part, VARIANTS)[: len(part)].cpu())
        return dict(zip(names, torch.split(torch.cat(made), self.data.target.outputs, 1)))

    def attention(self, batch: SubgraphBatch) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The rows (n,) of one subgraph that the first network's attention sees, and their shares
        of the seed's attention."""
        nobody = Shown(np.full(len(batch.node), -1, np.int64), ())
        packed = self._packed(batch, nobody, self._one)
        assert packed is not None  # a subgraph is not longer than the budget
        row, share = self._attention(packed).cpu().numpy()
        is_there = row >= 0
        return row[is_there].astype(np.int64), share[is_there].astype(np.float64)

    def _packed(self, batch: SubgraphBatch, shown: Shown, packer: Packer) -> StaticBatch | None:
        if not self._place(shown.stand_ins):
            return None
        table = batch.table.numpy()
        node = read_nodes(batch, self.data.features) - self._first[table]
        if len(shown.stand_ins):
            node = np.where(shown.place >= 0, self._numbers[np.maximum(shown.place, 0)], node)
        return packer(replace(batch, node=torch.from_numpy(node + self.offsets[table])))

    # What is recorded.
    def _replayed(self, packed: StaticBatch, history: Tensor | None) -> Tensor:
        here = None if history is None else history.to(self.device)
        with torch.cuda.device(self.device) if self._is_cuda else nullcontext():
            return self.replay(packed, history=here)[: packed.seeds].cpu()

    @torch.no_grad()
    def _work(self, inputs: StaticInput) -> Tensor:
        outs = []
        for form, weights in zip(self.forms, self.weights):
            with self.precision(), weights.used():
                outs.append(form(inputs).float())
        return torch.stack(outs).mean(0) if len(outs) > 1 else outs[0]

    @torch.no_grad()
    def _work_attention(self, inputs: StaticInput) -> Tensor:
        """(2, N) rows of the only subgraph, -1 for none, and their shares of attention; in float32,
        as `Scorer.attention` has them."""
        return self.forms[0].seed_attention(inputs)

    @torch.no_grad()
    def _of_histories(self, history: Tensor) -> Tensor:
        parts = []
        if self.model.columns is not None:
            parts.append(self.model.columns(history.float()).float())
        if self.model.trees is not None:
            parts.append(self.model.trees(history).float())
        return torch.cat(parts, 1)

    # Stand-ins.
    def _place(self, stand_ins: Sequence[StandIn]) -> bool:
        """Put the cells of new stand-ins behind those of their tables; whether there is room."""
        if stand_ins is not self._stand_ins:
            self._stand_ins, self._numbers = stand_ins, self._numbers[:0]
            self._counts[:] = 0
        new: dict[int, list[StandIn]] = {}
        numbers = self._numbers.tolist()
        for stand_in in stand_ins[len(numbers) :]:
            table = self._tables[stand_in.table]
            some = new.setdefault(table, [])
            numbers.append(int(self.rows[table] + self._counts[table]) + len(some))
            some.append(stand_in)
        self._numbers = np.array(numbers, np.int64)
        if any(self._counts[table] + len(some) > ROOM for table, some in new.items()):
            self._stand_ins = ()
            return False
        if new:
            self._write(new)
        return True

    def _write(self, new: Mapping[int, Sequence[StandIn]]) -> None:
        """Put the cells of stand-ins behind those of their tables: those of the donor in their
        columns, of the row in the others."""
        for start in range(0, max(map(len, new.values())), AT_ONCE):
            words: list[NDArray[np.int32]] = []
            for table, (numbers, places) in enumerate(self._masks):
                some = new.get(table, ())[start : start + AT_ONCE]
                pairs = np.zeros((3, AT_ONCE), np.int32)
                pairs[2] = self.rows[table] + ROOM  # where nobody looks
                if some:
                    pairs[:2, : len(some)] = np.array([[s.row, s.donor] for s in some]).T
                    first = self.rows[table] + self._counts[table]
                    pairs[2, : len(some)] = first + np.arange(len(some))
                    self._counts[table] += len(some)
                words.append(pairs.ravel())
                words += [_chosen(some, cells_of).ravel() for cells_of in (numbers, places)]
            self._written(torch.from_numpy(np.concatenate(words)), sum(map(len, words)))

    @torch.no_grad()
    def _work_cells(self, words: Tensor) -> Tensor:
        """What `_write` asks for, as one record."""
        at = 0
        for cells in self.cells:
            row, donor, slot = words[at : at + 3 * AT_ONCE].long().view(3, AT_ONCE)
            at += 3 * AT_ONCE
            for values in (cells.numbers, cells.places):
                width = values.shape[1]
                mask = words[at : at + AT_ONCE * width].view(AT_ONCE, width) > 0
                at += AT_ONCE * width
                if width:
                    made = torch.where(mask, values[donor], values[row])
                    values.index_copy_(0, slot, made)
        return words[:1]


def _chosen(some: Sequence[StandIn], cells: NDArray[np.int32]) -> NDArray[np.int32]:
    """(AT_ONCE, width) 1 for the cells of stand-ins that are those of their donors; the cells
    (columns, width) of each column are given."""
    chosen = np.zeros((AT_ONCE, cells.shape[1]), np.int32)
    if some and chosen.size:
        chosen[: len(some)] = unpacked([s.columns for s in some], len(cells)) @ cells
    return chosen


def _with_room(cells: TableCells) -> TableCells:
    numbers, places = (
        torch.cat([values, values.new_zeros(ROOM + 1, values.shape[1])])
        for values in (cells.numbers, cells.places)
    )
    return replace(cells, numbers=numbers, places=places)


def _masks(
    cells: TableCells, model: RelationalModel, table: str, columns: Sequence[str]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """For numbers and for categories: (columns, width) the cells of a row that each column of a
    table has."""
    numbers, places = (
        np.zeros((len(columns), values.shape[1]), np.int32)
        for values in (cells.numbers, cells.places)
    )
    of_column = {name: place for place, name in enumerate(columns)}
    names: dict[str, Any] = {
        kind.value: columns for kind, columns in model.columns[table].names.items()
    }
    for kind in cells.kinds:
        for place, name in enumerate(names[kind.name]):
            if name not in of_column:
                continue  # the constant of a table without columns
            if kind.name == "categorical":
                places[of_column[name], place] = 1
            else:
                start = kind.start + place * kind.width
                numbers[of_column[name], start : start + kind.width] = 1
    return numbers, places


def make_shapes(
    data: SeedData, keep: int | None, tables: int, variants: int = VARIANTS
) -> list[Shape]:
    """Shapes for so many variants of any seed, smallest first."""
    budget, most = data.sampling.budget, 2 * max(1, int(data.graph.num_keys.max(initial=0)))
    shapes = []
    for level in reversed(range(LEVELS)):
        rows = _up(variants * budget / 2**level + 1)
        refined = rows if keep is None else min(rows, _up(variants * keep + 1))
        messages = rows * (most if level == 0 else min(most, MESSAGES))
        shapes.append(Shape(variants, rows, refined, messages, (_up(budget + DISTINCT),) * tables))
    return shapes


def _up(value: float) -> int:
    return -(-int(value + 0.999) // 64) * 64
