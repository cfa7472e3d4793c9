"""Builds the graph of a database, table by table, into memory-mapped arrays.

1. Stream each table once: its times become `node_time`, its foreign keys a block of `parents`.
Tables without a time column
   are as new as the rows that they name (`sources/row_times.py`); keys that are not followed
   (`Dating.pointers`) are left empty.
2. Count the neighbours of every node; the running sum is `indptr`. 3. Write each row's parents,
then visit all rows from the newest to the oldest and append each to its parents'
   lists: one stable sort of the nodes orders every list, and no list is sorted by itself.

Linear in rows and keys but for that sort. Memory: about 40 bytes a node and 12 a key, of which all
but 16 bytes a node are pages of the files being written.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.graph.arrays import ArrayWriter, create_array, load_array
from gelgt.graph.store import Graph
from gelgt.schema.model import Finding, TableSchema
from gelgt.sources.cache import build_folder
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, TIMELESS, RowTimes, parent_rows

FORMAT = 4  # part of the cache key: raise it when the files change their meaning
MICROSECONDS = 1_000_000
CHUNK = 1 << 22


def open_graph(db: Database) -> Graph:
    """The graph of a database: built on first use, memory-mapped ever after.

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
        found, fraction = _read_table(db, row_times, table, times, block, first_node)
        findings, first_fraction = findings + found, min(first_fraction, fraction)
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
    counts = _connect(folder, offsets, starts, keys, node_time, parents)
    degree = counts.pop("degree")
    hub = int(np.argmax(degree)) if len(degree) else None
    counts["max_degree"] = 0 if hub is None else int(degree[hub])
    counts["max_degree_table"] = (
        None if hub is None else tables[int(np.searchsorted(offsets, hub, side="right")) - 1]
    )
    counts["isolated"] = int(np.count_nonzero(degree == 0))
    counts["times"] = [
        _time_range(node_time[offsets[i] : offsets[i + 1]]) for i in range(len(tables))
    ]
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
) -> dict[str, Any]:
    """Write `indptr`, `indices` and `list_time`; returns degrees and the number of edges of each
    relation."""
    from gelgt.graph.kernels import count_neighbours, place_children, place_parents

    tables = range(len(keys))
    blocks = [
        parents[starts[i] : starts[i + 1]].reshape(offsets[i + 1] - offsets[i], keys[i])
        for i in tables
    ]
    degree = np.zeros(int(offsets[-1]), np.int64)
    for i in tables:
        count_neighbours(blocks[i], offsets[i], degree)
    indptr = create_array(folder / "indptr.npy", (len(degree) + 1,), np.int64)
    np.cumsum(degree, out=indptr[1:])
    indices = create_array(folder / "indices.npy", (int(indptr[-1]),), parents.dtype)

    cursor = indptr[:-1].copy()
    for i in tables:
        place_parents(blocks[i], offsets[i], cursor, indices)
    # ~t falls as t rises and, unlike -t, knows no overflow: newest first, equal times by node.
    order = np.argsort(~node_time, kind="stable")
    place_children(order, offsets, starts, keys, parents, cursor, indices)
    with ArrayWriter(folder / "list_time.npy", np.int64) as list_time:
        for start in range(0, len(indices), CHUNK):
            list_time.append(node_time[indices[start : start + CHUNK]])
    return {
        "degree": degree,
        "relations": [
            int(np.count_nonzero(b[:, j] >= 0)) for b in blocks for j in range(b.shape[1])
        ],
    }


def _read_table(
    db: Database,
    row_times: RowTimes,
    table: TableSchema,
    times: NDArray[np.int64],
    block: NDArray[Any],
    first_node: dict[str, int],
) -> tuple[list[Finding], int]:
    """Fill one table's times and parents from its rows; gives also the first second that a time had
    a fraction of."""
    keys = table.foreign_keys
    dangling = [0] * len(keys)
    first_fraction = _fill_times(row_times, table, times)
    columns = list(dict.fromkeys(fk.column for fk in keys))
    start = 0
    for batch in db.batches(table.name, columns) if columns else ():
        stop = start + batch.num_rows
        for j, fk in enumerate(keys):
            rows, lost = parent_rows(batch.column(fk.column), db.num_rows(fk.table), table, fk)
            is_followed = fk.column not in table.pointers
            block[start:stop, j] = np.where(
                (rows >= 0) & is_followed, rows + first_node[fk.table], -1
            )
            dangling[j] += lost
        start = stop
    return _findings(table, int(np.count_nonzero(times == NEVER)), dangling), first_fraction


def _fill_times(row_times: RowTimes, table: TableSchema, times: NDArray[np.int64]) -> int:
    """Whole seconds since 1970, rounded down on either side of it, and the first of them from which
    something was cut."""
    if not table.has_time:
        times.fill(TIMELESS)
        return NEVER
    micros = row_times.of(table.name)
    first_fraction = NEVER
    for start in range(0, len(micros), CHUNK):
        part = micros[start : start + CHUNK]
        known, seconds = part != NEVER, part // MICROSECONDS
        times[start : start + CHUNK] = np.where(known, seconds, NEVER)
        first_fraction = min(
            first_fraction, int(seconds[known & (part % MICROSECONDS != 0)].min(initial=NEVER))
        )
    return first_fraction


def _findings(table: TableSchema, null_times: int, dangling: list[int]) -> list[Finding]:
    found = []
    if null_times:
        why = f"no time in '{table.time_col}'" if table.time_col else "no row that dates them"
        message = f"{null_times:,} rows of '{table.name}' have {why} and are never seen by a model."
        found.append(Finding("null_time", table.name, table.time_col, null_times, message))
    for fk, count in zip(table.foreign_keys, dangling):
        if count:
            message = (
                f"{count:,} values of '{table.name}.{fk.column}' name no row of "
                f"'{fk.table}' and count as missing."
            )
            found.append(Finding("dangling_key", table.name, fk.column, count, message))
    return found


def _time_range(times: NDArray[np.int64]) -> list[int | None]:
    if not len(times) or times[0] == TIMELESS:
        return [None, None]
    known = times != NEVER
    if not known.any():
        return [None, None]
    return [
        int(times.min(where=known, initial=NEVER)),
        int(times.max(where=known, initial=TIMELESS)),
    ]
