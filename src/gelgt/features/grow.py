"""Extends the features of an older import by the rows that are new in a newer one.

Old rows keep their values and are encoded with the same statistics, so their features are copied;
only new rows are read and encoded. Fitted statistics stay what they were if every new row becomes
visible after the training period.
"""

import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.features.encode import TableEncoder
from gelgt.features.statistics import FeatureStatistics
from gelgt.features.store import Features, find_features
from gelgt.features.text import TextEmbedder
from gelgt.features.versions import write_versions
from gelgt.features.write import THREADS, FindingCounts, batch_rows, describe_features, encode_rows
from gelgt.graph import open_graph
from gelgt.graph.arrays import ArrayWriter, RowWriter, create_array, load_array, release
from gelgt.graph.base import base_entry, has_grown, new_batches, new_rows
from gelgt.graph.layout import MICROSECONDS
from gelgt.meter import Work
from gelgt.sources.database import Database

BLOCK = 1 << 16  # rows that are copied at a time


def grow_features(
    db: Database,
    folder: Path,
    name: str,
    given: FeatureStatistics | None,
    until: int | None,
    embedder: TextEmbedder,
) -> bool:
    """Write the features of a database into an existing, empty folder; False, with nothing written,
    where there are none of an older import that can be extended.

    Args:
        db: The database.
        folder: Where the features go.
        name: The name of the features in the cache.
        given: Statistics to encode with; None where they are fitted.
        until: The end of the training period in microseconds; None: all rows that have a time.
        embedder: How text becomes vectors.
    """
    older = _older_features(db, name, given)
    if older is None or (given is None and not _come_after(db, until)):
        return False
    statistics = older.statistics if given is None else given
    rows = {table: db.num_rows(table) for table in statistics.tables}
    counts = _counts(older)
    with ThreadPoolExecutor(THREADS) as pool:
        for number, table in enumerate(statistics.tables):
            target, added = folder / "tables" / str(number), folder / "added"
            target.mkdir(parents=True)
            added.mkdir()
            counts[table] += _encode_new(pool, db, added, table, statistics, embedder)
            _join(older, table, added, new_rows(db, table), target)
            shutil.rmtree(added)
            columns, dates = statistics.tables[table], statistics.event_dates.get(table, ())
            write_versions(target, db, table, columns, dates, embedder)
    describe_features(folder, statistics, rows, counts)
    return True


def _older_features(db: Database, name: str, given: FeatureStatistics | None) -> Features | None:
    """The same features of the older import, if their rows and the new ones make up this
    database."""
    entry = base_entry(db, "." if given else name)
    if entry is not None and given is not None:
        entry = find_features(entry, given)
    if entry is None:
        return None
    try:
        older = Features(entry)
        is_same = list(older.statistics.tables) == older.tables
        for table in older.tables:
            older.arrays(table)
    except OSError:  # removed in this moment
        return None
    return older if is_same and has_grown(db, older.rows) else None


def _come_after(db: Database, until: int | None) -> bool:
    """Whether all new rows become visible after an instant; a row within its second counts as
    before."""
    if until is None:
        return False
    graph = open_graph(db)
    return all(
        bool(
            np.all(graph.node_time[graph.nodes(table, new_rows(db, table))] > until // MICROSECONDS)
        )
        for table in graph.tables
    )


def _counts(older: Features) -> dict[str, FindingCounts]:
    """Values of each table that count as missing among the old rows."""
    counts: dict[str, FindingCounts] = {table: Counter() for table in older.rows}
    for finding in older.findings:
        # The category lists are those of the statistics, and are described with them.
        if finding.code != "many_categories":
            counts[finding.table][finding.code, finding.column or ""] += finding.count or 0
    return counts


def _encode_new(
    pool: ThreadPoolExecutor,
    db: Database,
    folder: Path,
    table: str,
    statistics: FeatureStatistics,
    embedder: TextEmbedder,
) -> FindingCounts:
    """Encode the new rows of a table by themselves into a folder."""
    columns, count = statistics.tables[table], len(new_rows(db, table))
    with TableEncoder(folder, table, count, columns, embedder) as encoder:
        if columns:
            batches = new_batches(db, table, list(columns), batch_rows(encoder))
            encode_rows(pool, encoder, (batch for _, batch in batches), count)
    return encoder.counts


class _Block(NamedTuple):
    """Consecutive rows of a table: where they begin, which of them are new, and the ranges of the
    old and of the new ones among those of their kind."""

    start: int
    is_new: NDArray[np.bool_]
    old: slice
    new: slice


def _blocks(old_rows: int, rows: NDArray[np.int64]) -> Iterator[_Block]:
    total = old_rows + len(rows)
    for start in range(0, total, BLOCK):
        stop = min(start + BLOCK, total)
        first, last = (int(place) for place in np.searchsorted(rows, [start, stop]))
        is_new = np.zeros(stop - start, np.bool_)
        is_new[rows[first:last] - start] = True
        yield _Block(start, is_new, slice(start - first, stop - last), slice(first, last))


def _mixed(is_new: NDArray[np.bool_], old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Old and new items in their places; no copy where all are old."""
    if not len(new):
        return old
    mixed = np.empty((len(is_new), *old.shape[1:]), old.dtype)
    mixed[~is_new], mixed[is_new] = old, new
    return mixed


def _join(older: Features, table: str, added: Path, rows: NDArray[np.int64], target: Path) -> None:
    """Write the arrays of all rows of a table from those of the old and of the new rows."""
    arrays, work = older.arrays(table), Work(f"older rows of {table}", None, "values")
    count = older.rows[table]  # behind them lie versions, which are written again
    for name, old in arrays.items():
        if old.ndim == 2:
            old, new = old[:count], load_array(added / f"{name}.npy")
            shape = len(old) + len(new), old.shape[1]
            with RowWriter(target / f"{name}.npy", *shape, old.dtype) as writer:
                for block in _blocks(len(old), rows):
                    part = _mixed(block.is_new, old[block.old], new[block.new])
                    writer.write(block.start, part)
                    release(old)
                    work(part.size)
        elif name.endswith("-offsets"):
            old, new = old[: count + 1], load_array(added / f"{name}.npy")
            name = name.removesuffix("-offsets")
            places = load_array(added / f"{name}-places.npy")
            _join_parts((old, arrays[f"{name}-places"]), (new, places), rows, target / name)


def _join_parts(
    old: tuple[NDArray[np.int64], NDArray[np.int32]],
    new: tuple[NDArray[np.int64], NDArray[np.int32]],
    rows: NDArray[np.int64],
    path: Path,
) -> None:
    """Join the offsets and places of a multicategorical column."""
    old_rows = len(old[0]) - 1
    offsets = create_array(
        path.with_name(f"{path.name}-offsets.npy"), (old_rows + len(rows) + 1,), np.int64
    )
    with ArrayWriter(path.with_name(f"{path.name}-places.npy"), np.int32) as places:
        for block in _blocks(old_rows, rows):
            (old_lengths, old_places), (new_lengths, new_places) = (
                _parts(*old, block.old),
                _parts(*new, block.new),
            )
            lengths = _mixed(block.is_new, old_lengths, new_lengths)
            ends = places.length + np.cumsum(lengths)
            offsets[block.start + 1 : block.start + 1 + len(lengths)] = ends
            is_new = np.repeat(block.is_new, lengths)
            places.append(_mixed(is_new, old_places, new_places))
            release(*old, offsets)


def _parts(
    offsets: NDArray[np.int64], places: NDArray[np.int32], rows: slice
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Lengths and places of some rows."""
    ends = offsets[rows.start : rows.stop + 1]
    return np.diff(ends), places[ends[0] : ends[-1]]
