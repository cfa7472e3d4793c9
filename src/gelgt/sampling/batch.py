"""`SubgraphBatch`: the sampled subgraphs of B seeds as tensors, the one format that every model
reads.

Two layouts, convertible into each other:

    padded   (B, N), N = longest of the batch, a multiple of 16; `mask` is true for rows
    packed   (T,), subgraph b in `offsets[b]:offsets[b + 1]`; no mask

The seed is the first row of its subgraph. Edges point from the row that holds a foreign key to the
row it refers to, and index the rows flattened (in the padded layout: b · N + place).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.graph import Graph
from gelgt.sampling.sample import Sample

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

MULTIPLE = 16


@dataclass(frozen=True)
class SubgraphBatch:
    """Subgraphs of B seeds; T rows in all, E edges.

    Attributes:
        layout: ``padded`` or ``packed``.
        node: Node numbers of the graph; -1 is padding.
        hop: Distance from the seed; 0 on padding.
        table: Table numbers; 0 on padding.
        age: float32 days before the reference time; 0 where there is none.
        has_time: Whether the age means something; false on padding.
        offsets: (B + 1,) first row of each subgraph in the packed layout.
        edge_index: (2, E) child and parent of every foreign key inside a subgraph.
        edge_relation: (E,) relation ids.
        seed_time: (B,) seconds since 1970.
        seed_key: (B,) identities of the seeds, for reproducible noise.
        limit: (B,) the first second that each seed may not see.
        index: (B,) places of the seeds in the list that was sampled, to find their labels.
        mask: (B, N) true for rows; None in the packed layout.
        graph: Where the numbers come from.
    """

    layout: Literal["padded", "packed"]
    node: Tensor
    hop: Tensor
    table: Tensor
    age: Tensor
    has_time: Tensor
    offsets: Tensor
    edge_index: Tensor
    edge_relation: Tensor
    seed_time: Tensor
    seed_key: Tensor
    limit: Tensor
    index: Tensor
    mask: Tensor | None
    graph: Graph

    @property
    def num_seeds(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Tensor:
        """(B,) rows of each subgraph."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def seed_position(self) -> Tensor:
        """(B,) where the seeds stand among the flattened rows."""
        if self.layout == "packed":
            return self.offsets[:-1]
        return torch.arange(self.num_seeds, device=self.node.device) * self.node.shape[1]

    @property
    def batch(self) -> Tensor:
        """(T,) the subgraph of each row, in the packed order."""
        return torch.repeat_interleave(
            torch.arange(self.num_seeds, device=self.node.device), self.lengths
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "SubgraphBatch":
        """The batch on another device."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "SubgraphBatch":
        """The batch in page-locked memory, from where a copy to a GPU runs beside other work."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "SubgraphBatch":
        tensors: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        changed: dict[str, Any] = {
            name: change(value) for name, value in tensors.items() if isinstance(value, Tensor)
        }
        return replace(self, **changed)

    def to_packed(self) -> "SubgraphBatch":
        """The same subgraphs without padding."""
        if self.layout == "packed" or self.mask is None:
            return self
        mask, width = self.mask, self.node.shape[1]
        rows: dict[str, Any] = {name: getattr(self, name)[mask] for name in ROWS}
        shift = self.offsets[:-1] - self.seed_position  # padded place → packed place
        edges = self.edge_index + shift[self.edge_index // width]
        return replace(self, layout="packed", mask=None, edge_index=edges, **rows)

    def to_padded(self, multiple: int = MULTIPLE) -> "SubgraphBatch":
        """The same subgraphs as a rectangle: padded to the longest, rounded up to a multiple."""
        if self.layout == "padded":
            return self
        lengths = self.lengths
        longest = int(lengths.max()) if self.num_seeds else 0
        width = max(multiple, -(-longest // multiple) * multiple)
        mask = torch.arange(width, device=self.node.device)[None, :] < lengths[:, None]  # (B, N)
        rows: dict[str, Any] = {
            name: spread(getattr(self, name), mask, -1 if name == "node" else 0) for name in ROWS
        }
        shift = torch.arange(self.num_seeds, device=self.node.device) * width - self.offsets[:-1]
        edges = self.edge_index + shift[self.batch[self.edge_index]]
        return replace(self, layout="padded", mask=mask, edge_index=edges, **rows)

    def to_hetero(self) -> "HeteroData":
        """A PyG mini-batch of the B subgraphs side by side, for other models; see
        `sampling/hetero.py`."""
        from gelgt.sampling.hetero import to_hetero

        return to_hetero(self)


ROWS = ("node", "hop", "table", "age", "has_time")


def spread(values: Tensor, mask: Tensor, filler: int) -> Tensor:
    """Packed values as a rectangle: (T,) → (B, N), with a filler where the mask is false."""
    out = torch.full(mask.shape, filler, dtype=values.dtype, device=values.device)
    out[mask] = values
    return out


def from_sample(
    sample: Sample,
    graph: Graph,
    time: NDArray[np.int64],
    key: NDArray[np.uint64],
    index: NDArray[np.int64],
) -> SubgraphBatch:
    """A packed batch from the sampler's arrays."""

    def tensor(array: NDArray[Any], dtype: type = np.int64) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array, dtype))

    return SubgraphBatch(
        layout="packed",
        node=tensor(sample.node),
        hop=tensor(sample.hop),
        table=tensor(sample.table),
        age=tensor(sample.age, np.float32),
        has_time=tensor(sample.has_time, np.bool_),
        offsets=tensor(sample.offsets),
        edge_index=tensor(np.stack([sample.edge_source, sample.edge_target])),
        edge_relation=tensor(sample.edge_relation),
        seed_time=tensor(time),
        seed_key=tensor(np.asarray(key, np.uint64).view(np.int64)),
        limit=tensor(sample.limit),
        index=tensor(index),
        mask=None,
        graph=graph,
    )
