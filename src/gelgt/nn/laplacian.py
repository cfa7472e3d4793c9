"""Laplacian positions: the smoothest eigenvectors of a subgraph's normalised Laplacian, all
relations alike.

They follow from the subgraph alone, and take longer than everything else that a step does. So
those of the subgraphs that were seen last are kept, by a digest of their foreign keys: seeds come
again in every epoch. Among eigenvectors of one eigenvalue the solver chooses; the same subgraph
always gets the same ones, since they are always computed on the CPU.
"""

import threading
from collections import OrderedDict
from hashlib import blake2b

import numpy as np
import torch
from numpy.typing import NDArray

ROOM = 1 << 28  # bytes of eigenvectors that are kept


class _Kept:
    """Eigenvectors of the subgraphs that were seen last; several threads may ask at once."""

    def __init__(self) -> None:
        self.vectors: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self.size, self.lock = 0, threading.Lock()

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        with self.lock:
            vectors = self.vectors.get(key)
            if vectors is not None:
                self.vectors.move_to_end(key)
            return vectors

    def put(self, key: bytes, vectors: NDArray[np.float32]) -> None:
        with self.lock:
            if key not in self.vectors:
                self.vectors[key] = vectors
                self.size += vectors.nbytes
            while self.size > ROOM:
                self.size -= self.vectors.popitem(last=False)[1].nbytes


_KEPT = _Kept()


def laplacian_vectors(
    edge_index: NDArray[np.int64], offsets: NDArray[np.int64], width: int
) -> NDArray[np.float32]:
    """The `width` smoothest eigenvectors of each subgraph, zeros where there are fewer.

    Each has the length √rows, so that its entries are about one whatever the size of the subgraph,
    and its largest entry is positive.

    Args:
        edge_index: (2, E) child and parent, those of a subgraph behind each other.
        offsets: (B + 1,) first row of each subgraph.

    Returns:
        (T, width).
    """
    out = np.zeros((int(offsets[-1]), width), np.float32)
    owner = np.searchsorted(offsets, edge_index[0], side="right") - 1
    order = np.argsort(owner, kind="stable")
    borders = np.searchsorted(owner[order], np.arange(len(offsets)))
    for b in range(len(offsets) - 1):
        start, stop = int(offsets[b]), int(offsets[b + 1])
        ends = edge_index[:, order[borders[b] : borders[b + 1]]] - start
        out[start:stop] = _of_subgraph(np.ascontiguousarray(ends), stop - start, width)
    return out


def _of_subgraph(ends: NDArray[np.int64], rows: int, width: int) -> NDArray[np.float32]:
    """(2, E) → (rows, width)."""
    about = np.array([rows, width], np.int64)
    key = blake2b(about.tobytes() + ends.tobytes(), digest_size=16).digest()
    vectors = _KEPT.get(key)
    if vectors is None:
        vectors = _computed(torch.from_numpy(ends), rows, width)
        _KEPT.put(key, vectors)
    return vectors


def _computed(ends: torch.Tensor, rows: int, width: int) -> NDArray[np.float32]:
    adjacency = torch.zeros(rows, rows, dtype=torch.float64)
    adjacency[ends[0], ends[1]] = 1.0
    adjacency[ends[1], ends[0]] = 1.0
    scale = adjacency.sum(1).clamp(min=1.0).rsqrt()
    identity = torch.eye(rows, dtype=torch.float64)
    _, vectors = torch.linalg.eigh(identity - scale[:, None] * adjacency * scale)
    vectors = vectors[:, :width]
    largest = vectors.abs().argmax(0)
    vectors = vectors * vectors[largest, torch.arange(vectors.shape[1])].sign()
    out = np.zeros((rows, width), np.float32)
    out[:, : vectors.shape[1]] = vectors.float().numpy() * np.float32(rows) ** np.float32(0.5)
    return out
