"""Encodes the rows of one table with given statistics, batch by batch, into arrays on disk.

    numerical.npy       (rows, columns)        float32, NaN for missing
    categorical.npy     (rows, columns)        int32, -1 for missing or unseen
    timestamp.npy       (rows, columns)        int64 seconds, `MISSING_TIME` for missing
    text.npy            (rows, columns · dim)  float16, zeros for missing
    multicategorical-J-offsets.npy (rows + 1,) int64: where the parts of each row begin
    multicategorical-J-places.npy  (parts,)    int32: positions in the category list, [-1] for a
                                               missing row

One array for each kind, so that slicing rows is one gather; the columns of a kind keep their order.
"""

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.features.categories import CategoryIndex
from gelgt.features.statistics import (
    CategoricalStatistics,
    ColumnStatistics,
    MulticategoricalStatistics,
)
from gelgt.features.text import TextEmbedder
from gelgt.features.values import Column, as_numbers, as_parts, as_seconds, as_text
from gelgt.graph.arrays import ArrayWriter, RowWriter, create_array

DTYPES = {
    "numerical": np.float32,
    "categorical": np.int32,
    "timestamp": np.int64,
    "text": np.float16,
}
KINDS = (*DTYPES, "multicategorical")


def columns_of(statistics: Mapping[str, ColumnStatistics], kind: str) -> list[str]:
    """The columns of one kind, in order."""
    return [name for name, column in statistics.items() if column.kind == kind]


@dataclass
class Encoded:
    """What one batch leaves to be appended in order: parts, of which each row has any number, and
    counts for the findings."""

    # (lengths, places) of each multicategorical column
    parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # (code, column)


class TableEncoder:
    """Writes the features of one table into a folder.

    `encode` may run in several threads, one batch each, since every batch writes its own rows;
    `append` takes the results in the order of the batches.
    """

    def __init__(
        self,
        folder: Path,
        table: str,
        rows: int,
        statistics: Mapping[str, ColumnStatistics],
        embedder: TextEmbedder,
    ) -> None:
        self.table, self.embedder = table, embedder
        self.columns = {kind: columns_of(statistics, kind) for kind in KINDS}
        self.counts: Counter[tuple[str, str]] = Counter()
        self._indexes = {
            name: CategoryIndex(s.categories, Column(table, name))
            for name, s in statistics.items()
            if isinstance(s, CategoricalStatistics | MulticategoricalStatistics)
        }
        self._separators = {
            name: s.separator
            for name, s in statistics.items()
            if isinstance(s, MulticategoricalStatistics)
        }
        self._stack = ExitStack()
        self._writers = self._open_writers(folder, rows)
        names = [f"multicategorical-{j}" for j in range(len(self._separators))]
        self._places = [
            self._stack.enter_context(ArrayWriter(folder / f"{name}-places.npy", np.int32))
            for name in names
        ]
        self._offsets = [
            create_array(folder / f"{name}-offsets.npy", (rows + 1,), np.int64) for name in names
        ]
        self._appended = 0

    def _open_writers(self, folder: Path, rows: int) -> dict[str, RowWriter]:
        writers = {}
        for kind, dtype in DTYPES.items():
            if self.columns[kind]:
                width = len(self.columns[kind]) * (self.embedder.dim if kind == "text" else 1)
                writer = RowWriter(folder / f"{kind}.npy", rows, width, dtype)
                writers[kind] = self._stack.enter_context(writer)
        return writers

    def __enter__(self) -> "TableEncoder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def encode(self, start: int, batch: pa.RecordBatch) -> Encoded:
        """Write the rows `start…` of a batch; thread-safe."""
        done = Encoded()
        blocks = {
            kind: np.empty((batch.num_rows, writer.width), writer.dtype)
            for kind, writer in self._writers.items()
        }
        for j, name in enumerate(self.columns["numerical"]):
            numbers = as_numbers(batch.column(name), Column(self.table, name))
            blocks["numerical"][:, j] = numbers.values
            done.counts["non_finite", name] += numbers.non_finite
            done.counts["unparsable_number", name] += numbers.unparsable
        for j, name in enumerate(self.columns["categorical"]):
            blocks["categorical"][:, j], unseen = self._indexes[name].lookup(batch.column(name))
            done.counts["unseen_category", name] += unseen
        for j, name in enumerate(self.columns["timestamp"]):
            blocks["timestamp"][:, j] = as_seconds(batch.column(name), Column(self.table, name))
        for j, name in enumerate(self.columns["text"]):
            dim = self.embedder.dim
            texts = as_text(batch.column(name), Column(self.table, name))
            blocks["text"][:, j * dim : (j + 1) * dim] = self.embedder.embed(texts)
        for name in self.columns["multicategorical"]:
            lengths, places, unseen = self._split(batch.column(name), name)
            done.parts.append((lengths, places))
            done.counts["unseen_category", name] += unseen
        for kind, block in blocks.items():
            self._writers[kind].write(start, block)
        return done

    def append(self, encoded: Encoded) -> None:
        """Append the parts of the next batch and add up its counts."""
        self.counts.update(encoded.counts)
        for writer, offsets, (lengths, places) in zip(self._places, self._offsets, encoded.parts):
            ends = writer.length + np.cumsum(lengths)
            offsets[self._appended + 1 : self._appended + 1 + len(lengths)] = ends
            writer.append(places)
        if encoded.parts:
            self._appended += len(encoded.parts[0][0])

    def _split(
        self, array: pa.Array, name: str
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], int]:
        """Lengths (rows,), places (parts,) and the number of unseen parts; each category once in a
        row, rising; [-1] for a missing row."""
        parts, rows = as_parts(array, self._separators[name], Column(self.table, name))
        places, unseen = self._indexes[name].lookup(parts)
        missing = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
        rows = np.concatenate([rows[places >= 0], missing])
        places = np.concatenate([places[places >= 0], np.full(len(missing), -1, np.int32)])
        width = int(places.max(initial=0)) + 2
        pairs = np.unique(rows * width + places + 1)
        lengths = np.bincount(pairs // width, minlength=len(array))
        return lengths, (pairs % width - 1).astype(np.int32), unseen
