"""Samples training rows by a hash of (entity key, seed time).

Neither the order nor the number of rows enters the hash, so the same rows are sampled on every
machine and after every import, and a smaller sample is part of a larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gelgt.hashing import splitmix64

if TYPE_CHECKING:
    from gelgt.sources.database import Database

Hashes = np.ndarray[Any, np.dtype[np.uint64]]


def key_codes(db: Database, table: str) -> Hashes:
    """One number for each row of a table, from the user's key."""
    keys = db.keys(table)
    if keys is None:
        return np.arange(db.num_rows(table), dtype=np.uint64)
    if keys.num_columns == 1 and pa.types.is_integer(keys.column(0).type):
        values: Hashes = keys.column(0).to_numpy().astype(np.int64).view(np.uint64)
        return values
    rows = zip(*(column.to_pylist() for column in keys.columns))
    digests = (hashlib.blake2b(repr(row).encode(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def seed_hash(codes: Hashes, entity: np.ndarray[Any, Any], time: np.ndarray[Any, Any]) -> Hashes:
    """A hash of (entity key, seed time) for each row."""
    moments = time.astype("datetime64[us]").astype(np.int64).view(np.uint64)
    return splitmix64(splitmix64(codes[entity]) ^ moments)


def sample(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, codes: Hashes, total: int, keep: int
) -> pa.Table:
    """The `keep` rows of smallest hash out of `total`, in a single pass that never holds many more
    than `keep`.

    The first two columns are the time and the entity.
    """
    # A few standard deviations above the expected count, so that the cut below always finds enough
    # rows.
    bound = min(1.0, (keep + 8 * np.sqrt(keep) + 64) / total)
    limit = np.uint64(min(int(bound * 2.0**64), 2**64 - 1))
    table = pa.Table.from_batches(_below(batches, codes, limit), schema=schema)
    if table.num_rows <= keep:
        return table
    hashes = _hashes(table, codes)
    chosen = np.sort(np.argsort(hashes, kind="stable")[:keep])
    return table.take(pa.array(chosen))


def _below(
    batches: Iterable[pa.RecordBatch], codes: Hashes, limit: np.uint64
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.filter(pa.array(_hashes(batch, codes) <= limit))


def _hashes(rows: pa.RecordBatch | pa.Table, codes: Hashes) -> Hashes:
    return seed_hash(
        codes,
        rows.column(1).to_numpy(zero_copy_only=False),
        rows.column(0).to_numpy(zero_copy_only=False),
    )
