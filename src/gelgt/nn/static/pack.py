"""A sampled batch as one buffer of 32-bit words, laid out by its `Shape`: one copy brings it to the
device.

Compiled, and without the interpreter's lock: several threads pack at once while another one trains.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.nn.static.shape import Shape, Size
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
        offsets: (tables + 1,) first node of each table.
        keep: Rows that refinement keeps; None keeps all.
        by_relation: Whether a row's messages are averaged by relation and direction, or all
            together.
        relations: Number of relations of the graph.
        pin_memory: Whether buffers are page-locked.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        offsets: NDArray[np.int64],
        keep: int | None,
        by_relation: bool,
        relations: int,
        pin_memory: bool,
    ) -> None:
        self.shapes, self.offsets, self.keep = list(shapes), np.asarray(offsets, np.int64), keep
        self.groups = 2 * relations if by_relation else 1
        self.pin_memory = pin_memory

    def __call__(self, batch: SubgraphBatch) -> StaticBatch | None:
        """The batch in the smallest shape that has room for it; None if none has."""
        batch = batch.to_packed()
        found = _Found(batch, self.offsets, self.keep)
        shape = next(
            (s for s in self.shapes if batch.num_seeds <= s.seeds and s.fits(found.size)), None
        )
        if shape is None:
            return None
        words = torch.zeros(shape.words, dtype=torch.int32, pin_memory=self.pin_memory)
        parts: dict[str, Any] = {name: words.numpy()[part] for name, part in shape.parts.items()}
        self._fill(parts, shape, batch, found)
        return StaticBatch(shape, words, batch.num_seeds, batch.index.numpy())

    def _fill(
        self, parts: dict[str, Any], shape: Shape, batch: SubgraphBatch, found: "_Found"
    ) -> None:
        from gelgt.nn.static.loops import fill_messages, fill_rows  # imports numba

        seeds, rows = batch.num_seeds, found.size.rows
        for name in ("seed_time", "seed_key"):
            parts[name].view(np.int64)[:seeds] = getattr(batch, name).numpy()
        parts["index"][:seeds] = batch.index.numpy()
        for name, offsets in (("offsets", found.offsets), ("kept_offsets", found.kept_offsets)):
            parts[name][: seeds + 1] = offsets
            parts[name][seeds + 1 :] = offsets[-1]
        parts["counts"][: len(found.size.tables)] = found.size.tables
        parts["counts"][-2:] = rows, seeds
        for name in ("table", "hop", "has_time"):
            parts[name][:rows] = getattr(batch, name).numpy()
        parts["age"].view(np.float32)[:rows] = batch.age.numpy()
        parts["subgraph"][rows:] = shape.seeds
        stacked = np.full(len(shape.tables), -1, np.int64)
        stacked[list(shape.present)] = np.arange(len(shape.present)) * shape.height
        bases = np.cumsum([0, *shape.tables[:-1]])
        fill_rows(
            found.offsets, batch.node.numpy(), batch.table.numpy(), found.place, stacked, bases, self.offsets,
            parts["subgraph"], parts["source"], parts["used"], parts["used_starts"], parts["cells"],
        )  # fmt: skip
        edges, relation = batch.edge_index.numpy(), batch.edge_relation.numpy()
        count = 2 * edges.shape[1]
        scratch = np.empty((3, count), np.int32)
        fill_messages(
            edges[0], edges[1], relation, rows, self.groups, np.zeros(self.groups + 1, np.int64), scratch,
            parts["starts"], parts["row"], parts["other"], parts["run_start"], parts["run_end"], parts["reverse"],
        )  # fmt: skip
        parts["row"][count:] = parts["other"][count:] = shape.rows - 1
        parts["reverse"][count:] = np.arange(count, shape.messages)


class _Found:
    """What is known of a batch before its shape: its size, and for each row its place among the
    distinct rows of its table."""

    def __init__(self, batch: SubgraphBatch, offsets: NDArray[np.int64], keep: int | None) -> None:
        from gelgt.nn.static.loops import find_distinct

        self.offsets: NDArray[np.int64] = batch.offsets.numpy()
        self.kept_offsets = self.offsets
        if keep is not None:
            self.kept_offsets = np.concatenate(
                [[0], np.cumsum(np.minimum(np.diff(self.offsets), keep))]
            )
        node = batch.node.numpy()
        self.place = np.empty(len(node), np.int32)
        counts = np.zeros(len(offsets) - 1, np.int64)
        slots = 1 << int(max(2, 2 * len(node)) - 1).bit_length()
        find_distinct(
            node,
            batch.table.numpy(),
            self.place,
            counts,
            np.full(slots, -1, np.int64),
            np.empty(slots, np.int32),
        )
        self.size = Size(
            len(node),
            int(self.kept_offsets[-1]),
            2 * batch.edge_index.shape[1],
            tuple(counts.tolist()),
        )


def measure(batch: SubgraphBatch, offsets: NDArray[np.int64], keep: int | None) -> Size:
    """How much room a batch needs."""
    return _Found(batch.to_packed(), np.asarray(offsets, np.int64), keep).size
