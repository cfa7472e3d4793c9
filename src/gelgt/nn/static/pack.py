"""A sampled batch as one buffer of 32-bit words, laid out by its `Shape`: one copy brings it to the
device.

Compiled, and without the interpreter's lock: several threads pack at once while another one trains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.features import Features
from gelgt.nn.laplacian import laplacian_vectors
from gelgt.nn.rows import read_nodes
from gelgt.nn.static.shape import PLAIN, Extras, Shape, Size
from gelgt.sampling.batch import SubgraphBatch


@dataclass(frozen=True)
class StaticBatch:
    """A batch of B' ≤ B seeds in the room of a shape."""

    shape: Shape
    words: Tensor  # (shape.words,) int32
    seeds: int
    index: NDArray[np.int64]  # (B',)


class Packer:
    """Packs batches.

    Args:
        shapes: Smallest first.
        offsets: (tables + 1,) first row of each table, as `row_offsets` has them.
        keep: Rows that refinement keeps; None keeps all.
        by_relation: Whether a row's messages are averaged by relation and direction, or all
            together.
        relations: Number of relations of the graph.
        pin_memory: Whether buffers are page-locked.
        features: Of the rows, to find the versions that seeds see; None where batches name them.

    Attributes:
        every: Which shapes are used: one of so many, from the largest for usual batches on, and the
            last, which is for all other batches.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        offsets: NDArray[np.int64],
        keep: int | None,
        by_relation: bool,
        relations: int,
        pin_memory: bool,
        features: Features | None = None,
    ) -> None:
        self.features = features
        self.shapes, self.offsets, self.keep = list(shapes), np.asarray(offsets, np.int64), keep
        self.groups = 2 * relations if by_relation else 1
        self.extras = self.shapes[0].extras
        self.pin_memory = pin_memory
        self.every = 1

    def __call__(self, batch: SubgraphBatch) -> StaticBatch | None:
        """The batch in the smallest shape in use that has room for it; None if none has."""
        batch = batch.to_packed() if self.features is None else as_read(batch, self.features)
        contents = _Contents(batch, self.offsets, self.keep, self.extras)
        shape = next(
            (s for s in self.in_use if batch.num_seeds <= s.seeds and s.fits(contents.size)), None
        )
        if shape is None:
            return None
        words = torch.zeros(shape.words, dtype=torch.int32, pin_memory=self.pin_memory)
        parts: dict[str, Any] = {name: words.numpy()[part] for name, part in shape.parts.items()}
        self._fill_seeds(parts, shape, batch, contents)
        self._fill_rows(parts, shape, batch, contents)
        self._fill_messages(parts, shape, batch)
        self._fill_extras(parts, shape, batch)
        return StaticBatch(shape, words, batch.num_seeds, batch.index.numpy())

    @property
    def in_use(self) -> list[Shape]:
        """The shapes that batches are packed into, smallest first."""
        *usual, last = self.shapes
        return [*usual[:: -self.every][::-1], last]

    def _fill_seeds(
        self, parts: dict[str, Any], shape: Shape, batch: SubgraphBatch, contents: "_Contents"
    ) -> None:
        seeds = batch.num_seeds
        for name in ("seed_time", "seed_key"):
            parts[name].view(np.int64)[:seeds] = getattr(batch, name).numpy()
        parts["index"][:seeds] = batch.index.numpy()
        offsets = {"offsets": contents.offsets, "refined_offsets": contents.refined_offsets}
        for name, values in offsets.items():
            parts[name][: seeds + 1] = values
            parts[name][seeds + 1 :] = values[-1]
        parts["counts"][: len(contents.size.tables)] = contents.size.tables
        parts["counts"][-2:] = contents.size.rows, seeds

    def _fill_rows(
        self, parts: dict[str, Any], shape: Shape, batch: SubgraphBatch, contents: "_Contents"
    ) -> None:
        from gelgt.nn.static.loops import (  # imports numba
            RowParts,
            SampledRows,
            TableRoom,
            fill_rows,
        )

        rows = contents.size.rows
        for name in ("table", "hop", "has_time"):
            parts[name][:rows] = getattr(batch, name).numpy()
        parts["age"].view(np.float32)[:rows] = batch.age.numpy()
        parts["subgraph"][rows:] = shape.seeds
        stacked = np.full(len(shape.tables), -1, np.int64)
        stacked[list(shape.present)] = np.arange(len(shape.present)) * shape.height
        sampled = SampledRows(
            contents.offsets, batch.node.numpy(), batch.table.numpy(), contents.place
        )
        room = TableRoom(stacked, np.cumsum([0, *shape.tables[:-1]]), self.offsets)
        fill_rows(sampled, room, RowParts(*(parts[name] for name in RowParts._fields)))

    def _fill_messages(self, parts: dict[str, Any], shape: Shape, batch: SubgraphBatch) -> None:
        from gelgt.nn.static.loops import Edges, MessageParts, fill_messages  # imports numba

        child, parent = batch.edge_index.numpy()
        relation, count = batch.edge_relation.numpy(), 2 * len(child)
        scratch = np.empty((3, count), np.int32)
        fill_messages(
            Edges(child, parent, relation),
            self.groups,
            np.zeros(self.groups + 1, np.int64),
            scratch,
            MessageParts(*(parts[name] for name in MessageParts._fields)),
        )
        parts["row"][count:] = parts["other"][count:] = shape.rows - 1
        parts["reverse"][count:] = np.arange(count, shape.messages)
        if shape.extras.has_kinds:
            # message 2e goes to the parent of edge e, 2e + 1 to its child
            parts["kind"][scratch[2]] = (2 * relation[:, None] + np.arange(2)).ravel()

    def _fill_extras(self, parts: dict[str, Any], shape: Shape, batch: SubgraphBatch) -> None:
        extras = shape.extras
        if extras.positions:
            vectors = laplacian_vectors(
                batch.edge_index.numpy(), batch.offsets.numpy(), extras.positions
            )
            parts["positions"].view(np.float32)[: vectors.size] = vectors.ravel()
        if extras.keys is not None:
            self._fill_blocks(parts, shape, extras.keys, batch)

    def _fill_blocks(
        self,
        parts: dict[str, Any],
        shape: Shape,
        keys: Sequence[tuple[int, int]],
        batch: SubgraphBatch,
    ) -> None:
        from gelgt.nn.static.loops import (  # imports numba
            EdgeParts,
            EdgeRoom,
            Edges,
            fill_blocks,
            fill_edges,
        )

        table, starts = batch.table.numpy(), _starts(shape.blocks)
        parts["block_rows"][:] = shape.rows - 1
        fill_blocks(table, starts.copy(), parts["block_rows"], parts["joined"])
        place = parts["joined"][: len(table)] - starts[table]
        tables = np.array(keys, np.int64).reshape(-1, 2)
        child, parent = (_starts([shape.blocks[t] + 1 for t in ends]) for ends in tables.T)
        room = EdgeRoom(
            _starts(shape.relations), child, parent, np.array([*shape.blocks, 0])[tables]
        )
        ends = batch.edge_index.numpy()
        fill_edges(
            Edges(ends[0], ends[1], batch.edge_relation.numpy()),
            place,
            room,
            np.zeros(len(keys), np.int64),
            EdgeParts(*(parts[name] for name in EdgeParts._fields)),
        )


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    """Where each of some blocks begins that lie behind each other."""
    return np.cumsum([0, *counts], dtype=np.int64)[:-1]


class _Contents:
    """What a batch holds: its size, and for each row its place among the distinct rows of its
    table."""

    def __init__(
        self,
        batch: SubgraphBatch,
        offsets: NDArray[np.int64],
        keep: int | None,
        extras: Extras,
    ) -> None:
        from gelgt.nn.static.loops import find_distinct

        self.offsets: NDArray[np.int64] = batch.offsets.numpy()
        self.refined_offsets = self.offsets
        if keep is not None:
            self.refined_offsets = np.concatenate(
                [[0], np.cumsum(np.minimum(np.diff(self.offsets), keep))]
            )
        node = batch.node.numpy()
        self.place = np.empty(len(node), np.int32)
        counts = np.zeros(len(offsets) - 1, np.int64)
        slots = 1 << int(max(2, 2 * len(node)) - 1).bit_length()
        keys, places = np.full(slots, -1, np.int64), np.empty(slots, np.int32)
        find_distinct(node, batch.table.numpy(), self.place, counts, keys, places)
        self.size = Size(
            len(node),
            int(self.refined_offsets[-1]),
            2 * batch.edge_index.shape[1],
            tuple(counts.tolist()),
        )
        if extras.keys is not None:
            rows = np.bincount(batch.table.numpy(), minlength=len(counts))
            edges = np.bincount(batch.edge_relation.numpy(), minlength=len(extras.keys))
            self.size = replace(
                self.size, blocks=tuple(rows.tolist()), relations=tuple(edges.tolist())
            )


def as_read(batch: SubgraphBatch, features: Features) -> SubgraphBatch:
    """A batch whose nodes are what its rows show their seeds."""
    return replace(batch.to_packed(), node=torch.from_numpy(read_nodes(batch, features)))


def measure(
    batch: SubgraphBatch,
    offsets: NDArray[np.int64],
    keep: int | None,
    extras: Extras = PLAIN,
) -> Size:
    """How much room a batch needs."""
    return _Contents(batch.to_packed(), np.asarray(offsets, np.int64), keep, extras).size
