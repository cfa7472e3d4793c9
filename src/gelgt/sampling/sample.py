"""`Sample`: the sampled subgraphs of B seeds as packed arrays, one subgraph after the other."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROW_TYPES = {
    "node": np.int64,
    "hop": np.int8,
    "table": np.int16,
    "age": np.float32,
    "has_time": np.bool_,
}
EDGE_TYPES = {"edge_source": np.int32, "edge_target": np.int32, "edge_relation": np.int16}
ROW_BYTES, EDGE_BYTES = (
    sum(np.dtype(dtype).itemsize for dtype in types.values()) for types in (ROW_TYPES, EDGE_TYPES)
)
ALIGNMENT = 64  # bytes, a cache line


class Sample(NamedTuple):
    """Subgraphs of B seeds: T rows and E edges in all. Seed b is row `offsets[b]`.

    Attributes:
        offsets: (B + 1,) first row of each subgraph.
        node: (T,) node numbers.
        hop: (T,) distance from the seed; `hops + 1` for rows that only time links (`recent`).
        table: (T,) table numbers.
        age: (T,) float32 days before the reference time; 0 where there is no time.
        has_time: (T,) whether the row has an age; always true for a seed.
        edge_offsets: (B + 1,) first edge of each subgraph.
        edge_source: (E,) rows that hold a foreign key, as positions in `node`.
        edge_target: (E,) the rows that the keys refer to, as positions in `node`.
        edge_relation: (E,) relation ids.
        is_cut: (B,) whether the budget left rows out.
        limit: (B,) the first second that each seed may not see.
    """

    offsets: NDArray[np.int64]
    node: NDArray[np.int64]
    hop: NDArray[np.int8]
    table: NDArray[np.int16]
    age: NDArray[np.float32]
    has_time: NDArray[np.bool_]
    edge_offsets: NDArray[np.int64]
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    edge_relation: NDArray[np.int16]
    is_cut: NDArray[np.bool_]
    limit: NDArray[np.int64]


def allocate(seeds: int, rows: int, edges: int) -> Sample:
    """An unwritten sample with room for so many rows and edges.

    Row and edge arrays share one block of memory. Freed as one, it stays with the allocator for the
    next batch, whose pages need not be mapped again.
    """
    sizes = [(name, rows, dtype) for name, dtype in ROW_TYPES.items()]
    sizes += [(name, edges, dtype) for name, dtype in EDGE_TYPES.items()]
    lengths = [-(-n * np.dtype(dtype).itemsize // ALIGNMENT) * ALIGNMENT for _, n, dtype in sizes]
    starts = np.cumsum([0, *lengths]).tolist()
    block = np.empty(starts[-1], np.uint8)
    arrays: dict[str, NDArray[Any]] = {
        name: np.frombuffer(block, dtype, n, start)
        for (name, n, dtype), start in zip(sizes, starts)
    }
    return Sample(
        offsets=np.zeros(seeds + 1, np.int64),
        edge_offsets=np.zeros(seeds + 1, np.int64),
        is_cut=np.empty(seeds, np.bool_),
        limit=np.empty(seeds, np.int64),
        **arrays,
    )


def trim(sample: Sample) -> Sample:
    """The written part of an allocated sample."""
    rows, edges = int(sample.offsets[-1]), int(sample.edge_offsets[-1])
    return sample._replace(
        **{name: getattr(sample, name)[:rows] for name in ROW_TYPES},
        **{name: getattr(sample, name)[:edges] for name in EDGE_TYPES},
    )


def subgraph(sample: Sample, b: int) -> Sample:
    """One subgraph of a sample."""
    rows, edges = slice(*sample.offsets[b : b + 2]), slice(*sample.edge_offsets[b : b + 2])
    first = sample.offsets[b]
    return Sample(
        offsets=sample.offsets[b : b + 2] - first,
        edge_offsets=sample.edge_offsets[b : b + 2] - sample.edge_offsets[b],
        edge_source=sample.edge_source[edges] - first,
        edge_target=sample.edge_target[edges] - first,
        edge_relation=sample.edge_relation[edges],
        is_cut=sample.is_cut[b : b + 1],
        limit=sample.limit[b : b + 1],
        **{name: getattr(sample, name)[rows] for name in ROW_TYPES},
    )


def concatenate(parts: Sequence[Sample]) -> Sample:
    """Samples one after the other."""
    if len(parts) == 1:
        return parts[0]
    counts = np.array(
        [(len(p.is_cut), len(p.node), len(p.edge_source)) for p in parts], np.int64
    ).reshape(-1, 3)
    before = np.cumsum(counts, axis=0) - counts  # seeds, rows and edges of the earlier parts
    whole = allocate(*counts.sum(axis=0).tolist())
    if not parts:
        return whole
    for name in (*ROW_TYPES, *EDGE_TYPES, "is_cut", "limit"):
        np.concatenate([getattr(p, name) for p in parts], out=getattr(whole, name))
    shift = np.repeat(before[:, 1].astype(np.int32), counts[:, 2])
    whole.edge_source[:] += shift
    whole.edge_target[:] += shift
    for name, first in (("offsets", before[:, 1]), ("edge_offsets", before[:, 2])):
        ends = np.concatenate([getattr(p, name)[1:] for p in parts])
        getattr(whole, name)[1:] = ends + np.repeat(first, counts[:, 0])
    return whole
