"""`RecordedVariants`: what a model says of many variants of one seed, by replay on CUDA.

A variant is a seed's subgraph without some rows, or with stand-ins: rows that show some columns of
another row. Networks, columns network and trees are one record, so that a batch of some hundred
variants is one copy to the device, one replay, and one copy back. Features of rows lie on the
device; behind those of each table there is room for stand-ins, whose cells are put together there
from the two rows that they are made of.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.static.cells import TableCells
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import Packer
from gelgt.nn.static.shape import Shape
from gelgt.nn.static.weights import LowWeights
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.parts import COLUMNS, NETWORK, TREES
from gelgt.scoring.replay import Context, Replay, low_precision
from gelgt.scoring.seed_data import SeedData

VARIANTS = 512  # of one pass
ROOM = 2_048  # stand-ins of a table
DISTINCT = 512  # stand-ins of a table in one pass
LEVELS = 5  # of shapes; each has half the rows of the next
MESSAGES = 4  # for each row; the largest shape has room for all


@dataclass(frozen=True)
class StandIn:
    """A row of a table with some columns of another row, the donor."""

    table: str
    row: int
    donor: int
    columns: frozenset[str]


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
    """Scores batches of variants.

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
        self.replay = Replay(self._work, device)
        self.rows = np.diff(data.graph.offsets)
        self.offsets = np.concatenate([[0], np.cumsum(self.rows + ROOM)])
        form, relations = self.forms[0], len(data.graph.relations)
        shapes = make_shapes(data, form.keep, len(self.rows))
        is_cuda = device.type == "cuda"
        self.packer = Packer(shapes, self.offsets, form.keep, form.by_relation, relations, is_cuda)
        self._masks = [
            _masks(cells, model.first, name) for cells, name in zip(self.cells, data.graph.tables)
        ]
        self._stand_ins: Sequence[StandIn] = ()
        self._numbers: list[int] = []  # the row of its table that each of them is
        self._counts = np.zeros(len(self.rows), np.int64)

    def __call__(
        self, batch: SubgraphBatch, shown: Shown, history: Tensor | None
    ) -> dict[str, Tensor] | None:
        """Raw outputs (V, outputs) of each part, on the host, for at most `VARIANTS` variants; None
        where they do not fit into any shape.

        Args:
            shown: The rows of the batch that show other values.
            history: (V, F) their history columns.
        """
        if not self._place(shown.stand_ins):
            return None
        table = batch.table.numpy()
        node = batch.node.numpy() - self.data.graph.offsets[table]
        numbers = np.array([*self._numbers, 0], np.int64)
        node = np.where(shown.place >= 0, numbers[np.maximum(shown.place, 0)], node)
        packed = self.packer(replace(batch, node=torch.from_numpy(node + self.offsets[table])))
        if packed is None:
            return None
        here = None if history is None else history.to(self.device)
        out = self.replay(packed, history=here)[: packed.seeds].cpu()
        names = [NETWORK]
        names += [COLUMNS] if self.model.columns is not None else []
        names += [TREES] if self.model.trees is not None else []
        return dict(zip(names, torch.split(out, self.data.target.outputs, 1)))

    @torch.no_grad()
    def _work(self, inputs: StaticInput) -> Tensor:
        outs = []
        for form, weights in zip(self.forms, self.weights):
            with self.precision(), weights.used():
                outs.append(form(inputs).float())
        parts = [torch.stack(outs).mean(0) if len(outs) > 1 else outs[0]]
        if self.model.columns is not None:
            assert inputs.history is not None  # it reads nothing else
            parts.append(self.model.columns(inputs.history.float()).float())
        if self.model.trees is not None:
            assert inputs.history is not None
            parts.append(self.model.trees(inputs.history).float())
        return torch.cat(parts, 1)

    # Stand-ins.
    def _place(self, stand_ins: Sequence[StandIn]) -> bool:
        """Put the cells of new stand-ins behind those of their tables; whether there is room."""
        if stand_ins is not self._stand_ins:
            self._stand_ins, self._numbers = stand_ins, []
            self._counts[:] = 0
        new: dict[int, list[StandIn]] = {}
        tables = self.data.graph.tables
        for stand_in in stand_ins[len(self._numbers) :]:
            table = tables.index(stand_in.table)
            slot = int(self._counts[table])
            if slot == ROOM:
                self._stand_ins = ()
                return False
            self._counts[table] += 1
            self._numbers.append(int(self.rows[table]) + slot)
            new.setdefault(table, []).append(stand_in)
        for table, some in new.items():
            self._write(table, some)
        return True

    @torch.no_grad()
    def _write(self, table: int, some: Sequence[StandIn]) -> None:
        cells, end = self.cells[table], int(self.rows[table] + self._counts[table])
        pairs = torch.tensor([[s.row, s.donor] for s in some]).to(self.device)
        for values, (width, places) in zip((cells.numbers, cells.places), self._masks[table]):
            if not width:
                continue
            chosen = np.zeros((len(some), width), np.bool_)
            for number, stand_in in enumerate(some):
                for name in stand_in.columns:
                    if name in places:
                        chosen[number, places[name]] = True
            mask = torch.from_numpy(chosen).to(self.device)
            made = torch.where(mask, values[pairs[:, 1]], values[pairs[:, 0]])
            values[end - len(some) : end] = made


def _with_room(cells: TableCells) -> TableCells:
    numbers, places = (
        torch.cat([values, values.new_zeros(ROOM, values.shape[1])])
        for values in (cells.numbers, cells.places)
    )
    return replace(cells, numbers=numbers, places=places)


def _masks(
    cells: TableCells, model: RelationalModel, table: str
) -> tuple[tuple[int, dict[str, slice]], ...]:
    """For numbers and for categories: how many there are of a row, and which each column has."""
    numbers: dict[str, slice] = {}
    places: dict[str, slice] = {}
    names: dict[str, Any] = {
        kind.value: columns for kind, columns in model.columns[table].names.items()
    }
    for kind in cells.kinds:
        for place, name in enumerate(names[kind.name]):
            if kind.name == "categorical":
                places[name] = slice(place, place + 1)
            else:
                start = kind.start + place * kind.width
                numbers[name] = slice(start, start + kind.width)
    return (cells.numbers.shape[1], numbers), (cells.places.shape[1], places)


def make_shapes(data: SeedData, keep: int | None, tables: int) -> list[Shape]:
    """Shapes for variants of any seed, smallest first."""
    budget, most = data.sampling.budget, 2 * max(1, int(data.graph.num_keys.max(initial=0)))
    shapes = []
    for level in reversed(range(LEVELS)):
        rows = _up(VARIANTS * budget / 2**level + 1)
        refined = rows if keep is None else min(rows, _up(VARIANTS * keep + 1))
        messages = rows * (most if level == 0 else min(most, MESSAGES))
        shapes.append(Shape(VARIANTS, rows, refined, messages, (_up(budget + DISTINCT),) * tables))
    return shapes


def _up(value: float) -> int:
    return -(-int(value + 0.999) // 64) * 64
