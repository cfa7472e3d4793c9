"""Extends the graph of an older import by the rows that are new in a newer one.

1. Copy times and parents of the old rows, with the new numbers of their nodes, and read those of
   the new rows alone. Rows that are dated by their keys get the times of nodes that are there
   already, so tables are read after those that date them.
2. Merge the new rows into the lists of neighbours: one pass over the old lists, which are in order.

The arrays and the description are those of `build_graph`, byte for byte. What is held in memory are
the new rows' keys, and 8 bytes for each old row that has new ones before it in its table.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.graph.arrays import create_array, release
from gelgt.graph.base import base_entry, has_grown, new_batches, new_rows
from gelgt.graph.layout import (
    FORMAT,
    Counts,
    Layout,
    TimeRange,
    describe_graph,
    table_findings,
    time_range,
    whole_seconds,
)
from gelgt.graph.store import Graph
from gelgt.meter import Work
from gelgt.schema.model import DatabaseSchema, TableSchema
from gelgt.sources.database import Database
from gelgt.sources.growth import moved
from gelgt.sources.row_times import NEVER, TIMELESS, parent_rows
from gelgt.sources.times import microseconds

if TYPE_CHECKING:
    from gelgt.graph.grow_kernels import Numbering

# share of new rows above which a graph is built anew, which holds less in memory
MOST_NEW = 0.25
BLOCK = 1 << 20  # nodes whose lists are written before their memory is given back


@dataclass
class _Arrays:
    """The new graph while it is filled."""

    db: Database
    layout: Layout
    node_time: NDArray[np.int64]
    parents: NDArray[Any]


@dataclass
class _Noticed:
    """What the new rows of a table add to the findings."""

    dangling: list[int]
    first_fraction: int = NEVER


def grow_graph(db: Database, folder: Path) -> bool:
    """Write the graph of a database into an existing, empty folder; False, with nothing written,
    where there is no graph of an older import that fits."""
    old, order = _older_graph(db), _dating_order(db.schema)
    if old is None or order is None:
        return False
    layout = Layout.of(db)
    arrays = _Arrays(
        db,
        layout,
        create_array(folder / "node_time.npy", (layout.num_nodes,), np.int64),
        create_array(folder / "parents.npy", (int(layout.starts[-1]),), layout.node_type),
    )
    numbering = _numbering(db, old, layout)
    _copy_rows(arrays, old, numbering)
    noticed = {name: _read_new(arrays, db.table(name)) for name in order}
    counts = _grow_lists(folder, arrays, old, numbering)
    _describe(folder, arrays, old, counts, noticed)
    return True


def _older_graph(db: Database) -> Graph | None:
    """The graph of the older import, if its rows and the new ones make up this database."""
    entry = base_entry(db, f"graph-v{FORMAT}")
    if entry is None:
        return None
    try:
        old = Graph(entry)
        is_whole = (
            len(old.node_time) == len(old.indptr) - 1 == old.num_nodes
            and len(old.parents) == old.parent_start[-1]
            and len(old.indices) == len(old.list_time) == old.indptr[-1]
        )
    except OSError:  # removed in this moment
        return None
    layout = Layout.of(db)
    relations = [(r.child, r.column, r.parent) for r in old.relations]
    is_same = old.tables == layout.tables and relations == layout.relations
    # Findings of two keys in one column could not be told apart.
    is_clear = len(relations) == len({(child, column) for child, column, _ in relations})
    rows = dict(zip(old.tables, np.diff(old.offsets).tolist()))
    if not (is_whole and is_same and is_clear and has_grown(db, rows)):
        return None
    return old if layout.num_nodes - old.num_nodes <= MOST_NEW * layout.num_nodes else None


def _dating_order(schema: DatabaseSchema) -> list[str] | None:
    """The tables, each after those that date it; None where some date each other, and where new
    rows may change since when older ones exist."""
    if any(table.is_named_first for table in schema.tables.values()):
        return None
    order: list[str] = []
    while len(order) < len(schema.tables):
        ready = [
            table.name
            for table in schema.tables.values()
            if table.name not in order and all(fk.table in order for fk in table.dating_keys)
        ]
        if not ready:
            return None
        order += ready
    return order


def _numbering(db: Database, old: Graph, layout: Layout) -> "Numbering":
    from gelgt.graph.grow_kernels import Numbering

    first, start, parts, total = [], [], [np.zeros(0, np.int64)], 0
    for name, size, first_node in zip(layout.tables, np.diff(old.offsets), layout.offsets):
        rows = new_rows(db, name)
        first.append(min(int(rows[0]), int(size)) if len(rows) else int(size))
        start.append(total)
        if first[-1] < size:
            parts.append(moved(int(size), rows)[first[-1] :] + first_node)
            total += len(parts[-1])
    return Numbering(
        old.offsets,
        layout.offsets,
        np.array(first, np.int64),
        np.array(start, np.int64),
        np.concatenate(parts),
    )


def _copy_rows(arrays: _Arrays, old: Graph, numbering: "Numbering") -> None:
    """Times and parents of the old rows."""
    from gelgt.graph.grow_kernels import move_parents

    work = Work("older rows", old.num_nodes)
    for number, name in enumerate(old.tables):
        times = old.node_time[old.offsets[number] : old.offsets[number + 1]]
        first, start = int(numbering.first[number]), int(numbering.start[number])
        arrays.layout.times(arrays.node_time, number)[:first] = times[:first]
        moved_nodes = numbering.moved[start : start + len(times) - first]
        arrays.node_time[moved_nodes] = times[first:]
        block = arrays.layout.block(arrays.parents, number)
        move_parents(numbering, number, old.table_parents(name), block)
        release(old.node_time, old.parents, arrays.node_time, arrays.parents)
        work(len(times))


def _read_new(arrays: _Arrays, table: TableSchema) -> _Noticed:
    """Fill in times and parents of a table's new rows."""
    db, keys = arrays.db, table.foreign_keys
    number = arrays.layout.tables.index(table.name)
    times = arrays.layout.times(arrays.node_time, number)
    block = arrays.layout.block(arrays.parents, number)
    noticed = _Noticed([0] * len(keys))
    if not table.has_time:
        times[new_rows(db, table.name)] = TIMELESS
    columns = {fk.column for fk in keys} | ({table.time_col} if table.time_col else set())
    work = Work(f"new rows of {table.name}", len(new_rows(db, table.name)))
    for rows, batch in new_batches(db, table.name, sorted(columns)) if columns else ():
        newest = np.full(len(rows), TIMELESS, np.int64)
        for j, fk in enumerate(keys):
            named, dangling = parent_rows(batch.column(fk.column), db.num_rows(fk.table), table, fk)
            nodes = np.where(named >= 0, named + arrays.layout.first_node[fk.table], -1)
            block[rows, j] = nodes if fk.column not in table.pointers else -1
            noticed.dangling[j] += dangling
            if fk in table.dating_keys:
                is_named = nodes >= 0
                parent_times = arrays.node_time[nodes[is_named]]
                newest[is_named] = np.maximum(newest[is_named], parent_times)
        if table.dating_keys:
            times[rows] = np.where(newest == TIMELESS, NEVER, newest)
            for group in table.dating.required if table.dating is not None else ():
                places = [j for j, fk in enumerate(keys) if fk.column in group]
                times[rows[(block[rows][:, places] < 0).all(axis=1)]] = NEVER
        elif table.is_left_out:
            times[rows] = NEVER
        elif table.time_col:
            times[rows], fraction = _seconds(batch.column(table.time_col), table)
            noticed.first_fraction = min(noticed.first_fraction, fraction)
        work(len(rows))
    return noticed


def _seconds(column: pa.Array, table: TableSchema) -> tuple[NDArray[np.int64], int]:
    values, is_filled = microseconds(column, table)
    return whole_seconds(np.where(is_filled, values, NEVER))


def _grow_lists(folder: Path, arrays: _Arrays, old: Graph, numbering: "Numbering") -> Counts:
    """Write `indptr`, `indices` and `list_time`, and count."""
    from gelgt.graph import grow_kernels as kernels

    layout, node_time = arrays.layout, arrays.node_time
    rows = [new_rows(arrays.db, name) for name in layout.tables]
    nodes = [first + part for first, part in zip(layout.offsets, rows)]
    keys = [layout.block(arrays.parents, n)[part] for n, part in enumerate(rows)]
    children = [np.repeat(n, np.count_nonzero(k >= 0, axis=1)) for n, k in zip(nodes, keys)]
    child, parent = np.concatenate(children), np.concatenate([k[k >= 0] for k in keys])
    # Times falling by their complement: the negative of TIMELESS is TIMELESS.
    order = np.lexsort((child, ~node_time[child], parent))
    edges = kernels.Edges(parent[order].astype(np.int64), child[order])
    size = len(old.indices) + 2 * len(child)
    grown = kernels.Lists(
        create_array(folder / "indptr.npy", (layout.num_nodes + 1,), np.int64),
        create_array(folder / "indices.npy", (size,), layout.node_type),
        create_array(folder / "list_time.npy", (size,), np.int64),
    )
    new_nodes = np.concatenate(nodes)
    all_rows = kernels.Rows(node_time, arrays.parents, layout.starts, layout.keys, new_nodes)
    lists = kernels.Lists(old.indptr, old.indices, old.list_time)
    done, work = np.array(kernels.START, np.int64), Work("lists of neighbours", layout.num_nodes)
    for table, (begin, end) in enumerate(pairwise(layout.offsets.tolist())):
        for first in range(begin, end, BLOCK):
            last = min(first + BLOCK, end)
            kernels.grow_lists(numbering, all_rows, edges, lists, grown, table, (first, last), done)
            release(*lists, *grown)
            work(last - first)
    hub, largest, isolated = done[-3:].tolist()
    filled = [int(count) for k in keys for count in np.count_nonzero(k >= 0, axis=0)]
    ranges = [time_range(layout.times(node_time, n)[part]) for n, part in enumerate(rows)]
    return Counts(
        relations=[a + b for a, b in zip(old.counts["relations"], filled)],
        hub=hub if hub >= 0 else None,
        max_degree=max(largest, 0),
        isolated=isolated,
        times=[_joined(a, b) for a, b in zip(old.counts["times"], ranges)],
    )


def _joined(old: TimeRange, new: TimeRange) -> TimeRange:
    times = [time for time in old + new if time is not None]
    return [min(times), max(times)] if times else [None, None]


def _describe(
    folder: Path, arrays: _Arrays, old: Graph, counts: Counts, noticed: dict[str, _Noticed]
) -> None:
    """Write `graph.json`; findings are those of the old and of the new rows together."""
    db, layout = arrays.db, arrays.layout
    before = {(f.code, f.table, f.column): f.count or 0 for f in old.findings}
    findings = []
    for number, (name, table) in enumerate(db.schema.tables.items()):
        new_times = layout.times(arrays.node_time, number)[new_rows(db, name)]
        null_times = before.get(("null_time", name, table.time_col), 0)
        dangling = [
            count + before.get(("dangling_key", name, fk.column), 0)
            for fk, count in zip(table.foreign_keys, noticed[name].dangling)
        ]
        null_times += int(np.count_nonzero(new_times == NEVER))
        findings += table_findings(table, null_times, dangling)
    first_fraction = min([old.first_fraction, *(n.first_fraction for n in noticed.values())])
    describe_graph(folder, layout, counts, findings, first_fraction)
