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

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.graph.arrays import ArrayWriter, create_array, load_array
from gelgt.graph.store import Graph
from gelgt.meter import Work
from gelgt.schema.model import Finding, TableSchema
from gelgt.sources.cache import build_folder
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, TIMELESS, RowTimes, parent_rows

FORMAT = 4  # part of the cache key: raise it when the files change their meaning
MICROSECONDS = 1_000_000
CHUNK = 1 << 22


def open_graph(db: Database) -> Graph:
    """The graph of a database: built on first use, then memory-mapped.

    Raises:
        SchemaError: a time column holds no times, or a foreign key no row numbers.
    """
    return Graph(
        build_folder(db.cache_dir / f"graph-v{FORMAT}", lambda folder: build_graph(db, folder))
    )


def build_graph(db: Database, folder: Path) -> None:
    """Write the graph of a database into an existing, empty folder."""
    tables = db.schema.tables
    rows = np.array([db.num_rows(name) for name in tables], np.int64)
    keys = np.array([len(table.foreign_keys) for table in tables.values()], np.int64)
    offsets = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(rows * keys)]).astype(np.int64)
    node_type = np.int32 if offsets[-1] < 2**31 else np.int64

    node_time = create_array(folder / "node_time.npy", (int(offsets[-1]),), np.int64)
    parents = create_array(folder / "parents.npy", (int(starts[-1]),), node_type)
    first_node = dict(zip(tables, offsets.tolist()))
    row_times = RowTimes(db)
    findings: list[Finding] = []
    first_fraction = NEVER
    for number, table in enumerate(tables.values()):
        times = node_time[offsets[number] : offsets[number + 1]]
        block = parents[starts[number] : starts[number + 1]].reshape(rows[number], keys[number])
        noticed, fraction = _read_table(db, row_times, table, times, block, first_node)
        findings, first_fraction = findings + noticed, min(first_fraction, fraction)
    relations = [
        (name, fk.column, fk.table) for name, table in tables.items() for fk in table.foreign_keys
    ]
    finish_graph(folder, dict(zip(tables, rows.tolist())), relations, findings, first_fraction)


def finish_graph(
    folder: Path,
    rows: Mapping[str, int],
    relations: Sequence[tuple[str, str, str]],
    findings: Sequence[Finding] = (),
    first_fraction: int = NEVER,
) -> None:
    """Complete a folder that holds `node_time.npy` and `parents.npy`: lists of neighbours, counts,
    description.

    Args:
        rows: Rows of each table, in node order.
        relations: (child, column, parent) of each foreign key, in the order of the blocks of
            `parents`.
    """
    tables = list(rows)
    sizes = np.array(list(rows.values()), np.int64)
    keys = np.array([sum(child == name for child, _, _ in relations) for name in tables], np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes * keys)]).astype(np.int64)
    node_time, parents = load_array(folder / "node_time.npy"), load_array(folder / "parents.npy")
    hub, counts = _connect(folder, offsets, starts, keys, node_time, parents)
    number = None if hub is None else int(np.searchsorted(offsets, hub, side="right")) - 1
    counts |= {
        "max_degree_table": None if number is None else tables[number],
        "times": [_time_range(node_time[a:b]) for a, b in pairwise(offsets)],
    }
    meta = {
        "format": FORMAT,
        "tables": tables,
        "rows": sizes.tolist(),
        "relations": [list(relation) for relation in relations],
        "counts": counts,
        "first_fraction": int(first_fraction),
        "findings": [finding.to_dict() for finding in findings],
    }
    (folder / "graph.json").write_text(
        json.dumps(meta, ensure_ascii=False, indent=1), encoding="utf-8"
    )


def _connect(
    folder: Path,
    offsets: NDArray[np.int64],
    starts: NDArray[np.int64],
    keys: NDArray[np.int64],
    node_time: NDArray[np.int64],
    parents: NDArray[Any],
) -> tuple[int | None, dict[str, Any]]:
    """Write `indptr`, `indices` and `list_time`; returns the node of the largest degree, and the
    edges of each relation, that degree and the number of nodes without neighbours."""
    from gelgt.graph import kernels

    blocks = [
        parents[starts[i] : starts[i + 1]].reshape(offsets[i + 1] - offsets[i], keys[i])
        for i in range(len(keys))
    ]
    indptr = create_array(folder / "indptr.npy", (int(offsets[-1]) + 1,), np.int64)
    degree, edges = indptr[1:], [np.zeros(count, np.int64) for count in keys]
    for block, first_node, filled in zip(blocks, offsets, edges):
        kernels.count_neighbours(block, first_node, degree, filled)
    hub = int(np.argmax(degree)) if len(degree) else None
    counts = {
        "relations": [int(count) for filled in edges for count in filled],
        "max_degree": 0 if hub is None else int(degree[hub]),
        "isolated": len(degree) - int(np.count_nonzero(degree)),
    }
    kernels.add_up(indptr)
    indices = create_array(folder / "indices.npy", (int(indptr[-1]),), parents.dtype)
    # Each start moves to the end of its list as the list is filled, which is the next one's start.
    cursor = indptr[:-1]
    for block, first_node in zip(blocks, offsets):
        kernels.place_parents(block, first_node, cursor, indices)
    rows, first = _sorted_rows(offsets, node_time)
    tables = kernels.Tables(offsets, starts, keys, rows, first)
    kernels.place_children(tables, node_time, parents, cursor, indices)
    kernels.shift(indptr)
    work = Work("times of neighbours", len(indices), "neighbours")
    with ArrayWriter(folder / "list_time.npy", np.int64) as list_time:
        for start in range(0, len(indices), CHUNK):
            list_time.append(node_time[indices[start : start + CHUNK]])
            work(CHUNK)
    return hub, counts


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
    return _findings(table, int(np.count_nonzero(times == NEVER)), dangling), first_fraction


def _fill_times(row_times: RowTimes, table: TableSchema, times: NDArray[np.int64]) -> int:
    """Fill in whole seconds since 1970, rounded down on either side of it; returns the first second
    in which a time had a fraction."""
    if not table.has_time:
        times.fill(TIMELESS)
        return NEVER
    start, first_fraction = 0, NEVER
    for part in row_times.blocks(table.name):
        has_time, seconds = part != NEVER, part // MICROSECONDS
        times[start : start + len(part)] = np.where(has_time, seconds, NEVER)
        is_cut = has_time & (part % MICROSECONDS != 0)
        first_fraction = min(first_fraction, int(seconds[is_cut].min(initial=NEVER)))
        start += len(part)
    return first_fraction


def _findings(table: TableSchema, null_times: int, dangling: list[int]) -> list[Finding]:
    findings = []
    if null_times:
        reason = f"no time in '{table.time_col}'" if table.time_col else "no row that dates them"
        rows = f"{null_times:,} rows of '{table.name}'"
        message = f"{rows} have {reason} and are never seen by a model."
        findings.append(Finding("null_time", table.name, table.time_col, null_times, message))
    for fk, count in zip(table.foreign_keys, dangling):
        if count:
            message = (
                f"{count:,} values of '{table.name}.{fk.column}' name no row of "
                f"'{fk.table}' and count as missing."
            )
            findings.append(Finding("dangling_key", table.name, fk.column, count, message))
    return findings


def _time_range(times: NDArray[np.int64]) -> list[int | None]:
    if not len(times) or times[0] == TIMELESS:
        return [None, None]
    has_time = times != NEVER
    if not has_time.any():
        return [None, None]
    low = times.min(where=has_time, initial=NEVER)
    return [int(low), int(times.max(where=has_time, initial=TIMELESS))]
