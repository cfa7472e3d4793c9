"""Where the tables of a graph lie in its arrays, and the description beside them, `graph.json`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.schema.model import Finding, TableSchema
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, TIMELESS

FORMAT = 4  # part of the cache key: raise it when the files change their meaning
MICROSECONDS = 1_000_000
TimeRange = list[int | None]  # first and last second, or twice None


@dataclass(frozen=True)
class Layout:
    """Tables in the order of their nodes, and their foreign keys.

    Attributes:
        tables: Names of the tables.
        rows: (tables,) rows of each table.
        relations: (child, column, parent) of each foreign key, in the order of the blocks of
            `parents`.
    """

    tables: list[str]
    rows: NDArray[np.int64]
    relations: list[tuple[str, str, str]]

    @classmethod
    def of(cls, db: Database) -> "Layout":
        """The layout of the graph of a database."""
        tables = db.schema.tables
        return cls(
            list(tables),
            np.array([db.num_rows(name) for name in tables], np.int64),
            [(name, fk.column, fk.table) for name in tables for fk in tables[name].foreign_keys],
        )

    @cached_property
    def keys(self) -> NDArray[np.int64]:
        """(tables,) foreign keys of each table."""
        counts = [sum(child == name for child, _, _ in self.relations) for name in self.tables]
        return np.array(counts, np.int64)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """(tables + 1,) the first node of each table, and the number of nodes."""
        return np.concatenate([[0], np.cumsum(self.rows)]).astype(np.int64)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """(tables + 1,) where each table's block of `parents` begins."""
        return np.concatenate([[0], np.cumsum(self.rows * self.keys)]).astype(np.int64)

    @cached_property
    def first_node(self) -> dict[str, int]:
        return dict(zip(self.tables, self.offsets.tolist()))

    @property
    def num_nodes(self) -> int:
        return int(self.offsets[-1])

    @property
    def node_type(self) -> type[np.int32] | type[np.int64]:
        return np.int32 if self.num_nodes < 2**31 else np.int64

    def times(self, node_time: NDArray[np.int64], number: int) -> NDArray[np.int64]:
        """(rows,) the part of `node_time` of one table."""
        return node_time[self.offsets[number] : self.offsets[number + 1]]

    def block(self, parents: NDArray[Any], number: int) -> NDArray[Any]:
        """(rows, keys) the part of `parents` of one table."""
        part = parents[self.starts[number] : self.starts[number + 1]]
        return part.reshape(int(self.rows[number]), int(self.keys[number]))


@dataclass(frozen=True)
class Counts:
    """What `graph.json` says about the arrays.

    Attributes:
        relations: Filled keys of each relation.
        hub: The first node with the most neighbours; None in a graph without nodes.
        max_degree: Its number of neighbours.
        isolated: Nodes without neighbours.
        times: First and last time of each table.
    """

    relations: list[int]
    hub: int | None
    max_degree: int
    isolated: int
    times: list[TimeRange]


def describe_graph(
    folder: Path,
    layout: Layout,
    counts: Counts,
    findings: Sequence[Finding],
    first_fraction: int,
) -> None:
    """Write `graph.json`, the last file of a graph."""
    hub_table = None
    if counts.hub is not None:
        hub_table = layout.tables[
            int(np.searchsorted(layout.offsets, counts.hub, side="right")) - 1
        ]
    meta = {
        "format": FORMAT,
        "tables": layout.tables,
        "rows": layout.rows.tolist(),
        "relations": [list(relation) for relation in layout.relations],
        "counts": {
            "relations": counts.relations,
            "max_degree": counts.max_degree,
            "isolated": counts.isolated,
            "max_degree_table": hub_table,
            "times": counts.times,
        },
        "first_fraction": int(first_fraction),
        "findings": [finding.to_dict() for finding in findings],
    }
    (folder / "graph.json").write_text(
        json.dumps(meta, ensure_ascii=False, indent=1), encoding="utf-8"
    )


def whole_seconds(moments: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Microseconds as whole seconds since 1970, rounded down on either side of it, and the first
    second in which a time had a fraction."""
    has_time, seconds = moments != NEVER, moments // MICROSECONDS
    is_cut = has_time & (moments % MICROSECONDS != 0)
    first_fraction = int(seconds[is_cut].min(initial=NEVER))
    return np.where(has_time, seconds, NEVER), first_fraction


def table_findings(table: TableSchema, null_times: int, dangling: Sequence[int]) -> list[Finding]:
    """Rows without a time, and values of each foreign key that name no row."""
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


def time_range(times: NDArray[np.int64]) -> TimeRange:
    """The first and the last time of a table's rows."""
    if not len(times) or times[0] == TIMELESS:
        return [None, None]
    has_time = times != NEVER
    if not has_time.any():
        return [None, None]
    low = times.min(where=has_time, initial=NEVER)
    return [int(low), int(times.max(where=has_time, initial=TIMELESS))]
