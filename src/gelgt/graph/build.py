"""Builds the graph of a database, table by table, into memory-mapped arrays.

1. Stream each table once: its times become `node_time`, its foreign keys a block of `parents`. Rows
   of tables without a time column get the time of the newest row that they name
   (`sources/row_times.py`); keys that a model does not follow (`Dating.pointers`) are left empty.
2. Count the neighbours of every node; the running sum is `indptr`.
3. Write each row's parents, then visit all rows from the newest to the oldest and append each to
   the lists of its parents. Rows of an imported table are in the order of their times, so that
   merging the tables orders every list; other tables are sorted first.

Linear in rows and keys. All arrays of nodes and keys are pages of the files being written; what is
held besides are the times of tables that date others, and the order of tables whose rows are not in
the order of their times (8 bytes a row each).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.graph.arrays import ArrayWriter, create_array, load_array
from gelgt.graph.grow import grow_graph
from gelgt.graph.layout import (
    FORMAT,
    Counts,
    Layout,
    describe_graph,
    table_findings,
    time_range,
    whole_seconds,
)
from gelgt.graph.store import Graph
from gelgt.memory import available_memory
from gelgt.meter import Work
from gelgt.schema.model import Finding, TableSchema
from gelgt.sources.cache import build_folder
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, TIMELESS, RowTimes, parent_rows

CHUNK = 1 << 22
WINDOW_SHARE = 0.25  # of the memory, for the lists that are filled at a time


def open_graph(db: Database) -> Graph:
    """The graph of a database: built on first use, then memory-mapped. Where the database grew out
    of an older one, that one's graph is extended.

    Raises:
        SchemaError: a time column holds no times, or a foreign key no row numbers.
    """

    def build(folder: Path) -> None:
        if not grow_graph(db, folder):
            build_graph(db, folder)

    return Graph(build_folder(db.cache_dir / f"graph-v{FORMAT}", build, is_sealed=True))


def build_graph(db: Database, folder: Path) -> None:
    """Write the graph of a database into an existing, empty folder."""
    layout = Layout.of(db)
    node_time = create_array(folder / "node_time.npy", (layout.num_nodes,), np.int64)
    parents = create_array(folder / "parents.npy", (int(layout.starts[-1]),), layout.node_type)
    row_times = RowTimes(db)
    findings: list[Finding] = []
    first_fraction = NEVER
    for number, table in enumerate(db.schema.tables.values()):
        times, block = layout.times(node_time, number), layout.block(parents, number)
        noticed, fraction = _read_table(db, row_times, table, times, block, layout.first_node)
        findings, first_fraction = findings + noticed, min(first_fraction, fraction)
    _finish(folder, layout, findings, first_fraction)


def finish_graph(
    folder: Path, rows: Mapping[str, int], relations: Sequence[tuple[str, str, str]]
) -> None:
    """Complete a folder that holds `node_time.npy` and `parents.npy`: lists of neighbours, counts,
    description.

    Args:
        rows: Rows of each table, in node order.
        relations: (child, column, parent) of each foreign key, in the order of the blocks of
            `parents`.
    """
    sizes = np.array(list(rows.values()), np.int64)
    _finish(folder, Layout(list(rows), sizes, list(relations)), [], NEVER)


def _finish(folder: Path, layout: Layout, findings: Sequence[Finding], first_fraction: int) -> None:
    node_time, parents = load_array(folder / "node_time.npy"), load_array(folder / "parents.npy")
    counts = _connect(folder, layout, node_time, parents)
    describe_graph(folder, layout, counts, findings, first_fraction)


def _connect(
    folder: Path, layout: Layout, node_time: NDArray[np.int64], parents: NDArray[Any]
) -> Counts:
    """Write `indptr`, `indices` and `list_time`, and count."""
    from gelgt.graph import kernels

    offsets, numbers = layout.offsets, range(len(layout.tables))
    blocks = [layout.block(parents, number) for number in numbers]
    indptr = create_array(folder / "indptr.npy", (layout.num_nodes + 1,), np.int64)
    degree, edges = indptr[1:], [np.zeros(count, np.int64) for count in layout.keys]
    for block, first_node, filled in zip(blocks, offsets, edges):
        kernels.count_neighbours(block, first_node, degree, filled)
    hub = int(np.argmax(degree)) if len(degree) else None
    counts = Counts(
        relations=[int(count) for filled in edges for count in filled],
        hub=hub,
        max_degree=0 if hub is None else int(degree[hub]),
        isolated=len(degree) - int(np.count_nonzero(degree)),
        times=[time_range(layout.times(node_time, number)) for number in numbers],
    )
    kernels.add_up(indptr)
    indices = create_array(folder / "indices.npy", (int(indptr[-1]),), parents.dtype)
    # Each start moves to the end of its list as the list is filled, which is the next one's start.
    cursor = indptr[:-1]
    for block, first_node in zip(blocks, offsets):
        kernels.place_parents(block, first_node, cursor, indices)
    rows, first = _sorted_rows(offsets, node_time)
    tables = kernels.Tables(offsets, layout.starts, layout.keys, rows, first)
    for low, high in _windows(indptr, indices.itemsize):
        kernels.place_children(tables, node_time, parents, cursor, indices, low, high)
    kernels.shift(indptr)
    work = Work("times of neighbours", len(indices), "neighbours")
    with ArrayWriter(folder / "list_time.npy", np.int64) as list_time:
        for start in range(0, len(indices), CHUNK):
            list_time.append(node_time[indices[start : start + CHUNK]])
            work(CHUNK)
    return counts


def _windows(cursor: NDArray[np.int64], itemsize: int) -> Iterator[tuple[int, int]]:
    """Ranges of nodes whose lists fit in a part of the memory together.

    Children come in the order of time, so that they go to lists all over the file: where the lists
    are larger than memory, each one would be a page that is read and written. It is cheaper to go
    over all children several times, for some of the lists each time.

    Args:
        cursor: (nodes + 1,) where lists begin, or how far they are filled.
    """
    available = available_memory()
    nodes, low = len(cursor) - 1, 0
    most = np.inf if available is None else available * WINDOW_SHARE
    while low < nodes:
        high = nodes
        while high - low > 1 and _size(cursor, low, high, itemsize) > most:
            high = low + (high - low) // 2
        yield low, high
        low = high


def _size(cursor: NDArray[np.int64], low: int, high: int, itemsize: int) -> int:
    """Bytes of the lists of some nodes and of where they begin."""
    return int(cursor[high] - cursor[low]) * itemsize + (high - low) * cursor.itemsize


def _sorted_rows(
    offsets: NDArray[np.int64], node_time: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows by time of tables that are not in that order, one after the other, and where those
    of each table begin (-1 where they are)."""
    from gelgt.graph.kernels import is_ascending

    orders, first, total = [np.zeros(0, np.int64)], [], 0
    for start, stop in pairwise(offsets):
        times = node_time[start:stop]
        first.append(-1 if is_ascending(times) else total)
        if first[-1] >= 0:
            orders.append(np.argsort(times, kind="stable"))
            total += len(times)
    return np.concatenate(orders), np.array(first, np.int64)


def _read_table(
    db: Database,
    row_times: RowTimes,
    table: TableSchema,
    times: NDArray[np.int64],
    block: NDArray[Any],
    first_node: dict[str, int],
) -> tuple[list[Finding], int]:
    """Fill one table's times and parents from its rows; returns findings and the first second in
    which a time had a fraction."""
    keys = table.foreign_keys
    dangling = [0] * len(keys)
    first_fraction = _fill_times(row_times, table, times)
    columns = list(dict.fromkeys(fk.column for fk in keys))
    start, work = 0, Work(f"keys of {table.name}", len(times))
    for batch in db.batches(table.name, columns) if columns else ():
        stop = start + batch.num_rows
        for j, fk in enumerate(keys):
            rows, count = parent_rows(batch.column(fk.column), db.num_rows(fk.table), table, fk)
            is_followed = fk.column not in table.pointers
            block[start:stop, j] = np.where(
                (rows >= 0) & is_followed, rows + first_node[fk.table], -1
            )
            dangling[j] += count
        start = stop
        work(batch.num_rows)
    null_times = int(np.count_nonzero(times == NEVER))
    return table_findings(table, null_times, dangling), first_fraction


def _fill_times(row_times: RowTimes, table: TableSchema, times: NDArray[np.int64]) -> int:
    """Fill in whole seconds; returns the first second in which a time had a fraction."""
    if not table.has_time:
        times.fill(TIMELESS)
        return NEVER
    start, first_fraction = 0, NEVER
    for part in row_times.blocks(table.name):
        times[start : start + len(part)], fraction = whole_seconds(part)
        first_fraction = min(first_fraction, fraction)
        start += len(part)
    return first_fraction
