"""`Graph`: the memory-mapped temporal graph of one database.

    graph.json        tables and rows, relations (child, column, parent), counts, findings
    node_time.npy     (nodes,)      int64 seconds; TIMELESS or NEVER where there is none
    indptr.npy        (nodes + 1,)  int64
    indices.npy       (2 · edges,) a row's parents in key order, then its children newest first,
                      ties by node
    list_time.npy     (2 · edges,) node_time of `indices`: finding the children before a time reads
                      one short run of memory
    parents.npy       (Σ rows · keys,)  parent nodes by table and key, -1 for none

A node is a table's offset plus a row number. A relation is one foreign key; each filled key is one
edge, listed at either end, so a row that names the same parent by two keys appears twice in the
parent's list.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gelgt.errors import SchemaError, did_you_mean
from gelgt.graph.arrays import hash_arrays, load_array
from gelgt.schema.model import Finding
from gelgt.sources.row_times import NEVER, TIMELESS

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData

__all__ = ["NEVER", "TIMELESS", "Graph", "Relation"]
ARRAYS = ("node_time", "indptr", "indices", "list_time", "parents")


@dataclass(frozen=True)
class Relation:
    """One foreign key: rows of `child` name a row of `parent` in `column`. Its id is its position
    in `Graph.relations`."""

    child: str
    column: str
    parent: str


class Graph:
    """Nodes, times and neighbours of a database, opened from the folder that `build_graph` wrote.

    Args:
        folder: Where the arrays lie.

    Attributes:
        tables: Table names; their order numbers the nodes.
        offsets: First node of each table, and the number of nodes (tables + 1).
        relations: Foreign keys, numbered by table and then by key.
        num_keys: Foreign keys of each table.
        parent_start: Where each table's block of `parents` begins (tables + 1).
        findings: Null times and dangling keys, with their counts.
        first_fraction: The first second in which a time had a fraction (`NEVER` if none had): from
            there on, the order of rows within a second is lost. Rows that come later do not change
            it for earlier seeds.
        counts: Filled keys of each relation, the largest degree and its table, nodes without
            neighbours, and the time range of each table, counted when the graph was built.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        meta = json.loads((self.folder / "graph.json").read_text(encoding="utf-8"))
        self.tables: list[str] = meta["tables"]
        self.relations = [Relation(*entry) for entry in meta["relations"]]
        self.findings = [Finding(**entry) for entry in meta["findings"]]
        self.offsets = np.concatenate([[0], np.cumsum(meta["rows"])]).astype(np.int64)
        self.num_keys = np.array(
            [sum(r.child == t for r in self.relations) for t in self.tables], np.int64
        )
        self.parent_start = np.concatenate(
            [[0], np.cumsum(np.diff(self.offsets) * self.num_keys)]
        ).astype(np.int64)
        self.first_fraction: int = meta["first_fraction"]
        self.counts: dict[str, Any] = meta["counts"]
        self._numbers = {name: number for number, name in enumerate(self.tables)}

    def __repr__(self) -> str:
        return (
            f"Graph({self.num_nodes:,} nodes, {self.num_edges:,} edges, {len(self.tables)} "
            f"tables, {len(self.relations)} relations)"
        )

    def __reduce__(self) -> tuple[type["Graph"], tuple[Path]]:
        return Graph, (self.folder,)  # a worker process maps the same files

    @cached_property
    def node_time(self) -> NDArray[np.int64]:
        return load_array(self.folder / "node_time.npy")

    @cached_property
    def indptr(self) -> NDArray[np.int64]:
        return load_array(self.folder / "indptr.npy")

    @cached_property
    def indices(self) -> NDArray[Any]:
        return load_array(self.folder / "indices.npy")

    @cached_property
    def list_time(self) -> NDArray[np.int64]:
        return load_array(self.folder / "list_time.npy")

    @cached_property
    def parents(self) -> NDArray[Any]:
        return load_array(self.folder / "parents.npy")

    @property
    def num_nodes(self) -> int:
        return int(self.offsets[-1])

    @property
    def num_edges(self) -> int:
        """Filled foreign keys; `indices` holds each of them twice."""
        return sum(self.counts["relations"])

    @cached_property
    def relation_of(self) -> list[NDArray[np.int64]]:
        """For each table, the relation id of each of its keys."""
        ends = np.cumsum(self.num_keys)
        return [
            np.arange(end - keys, end, dtype=np.int64) for keys, end in zip(self.num_keys, ends)
        ]

    def table_number(self, table: str) -> int:
        """The place of a table in `tables`, or an error that names the nearest one."""
        if table not in self._numbers:
            raise SchemaError(
                "unknown_table",
                f"The graph has no table '{table}'.",
                hint=did_you_mean(table, self.tables),
            )
        return self._numbers[table]

    def nodes(self, table: str, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The nodes of rows of a table."""
        nodes: NDArray[np.int64] = (
            np.asarray(rows, np.int64) + self.offsets[self.table_number(table)]
        )
        return nodes

    def node_table(self, nodes: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """The table number of each node."""
        return np.searchsorted(self.offsets, np.asarray(nodes, np.int64), side="right") - 1

    def neighbours(self, node: int) -> NDArray[Any]:
        """Parents in key order, then children newest first."""
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def table_parents(self, table: str) -> NDArray[Any]:
        """Parent nodes of a table's rows (rows, keys); -1 for none."""
        number = self.table_number(table)
        block = self.parents[self.parent_start[number] : self.parent_start[number + 1]]
        return block.reshape(int(np.diff(self.offsets)[number]), int(self.num_keys[number]))

    def content_hash(self) -> str:
        """A hash of the content: equal for equal databases, whatever their source and place."""
        names = json.dumps(
            [
                self.tables,
                self.offsets.tolist(),
                [[r.child, r.column, r.parent] for r in self.relations],
            ]
        )
        return hash_arrays(names, ((name, getattr(self, name)) for name in ARRAYS))

    def describe(self) -> dict[str, Any]:
        """Sizes, degrees and time ranges, as `gelgt inspect` prints them; counted once, when the
        graph was built."""
        rows = np.diff(self.offsets).tolist()
        tables = {
            name: {"rows": rows[i], "first": _instant(times[0]), "last": _instant(times[1])}
            for i, (name, times) in enumerate(zip(self.tables, self.counts["times"]))
        }
        relations = [
            {"table": r.child, "column": r.column, "parent": r.parent, "edges": edges}
            for r, edges in zip(self.relations, self.counts["relations"])
        ]
        ends = [t for times in self.counts["times"] for t in times if t is not None]
        return {
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "first": _instant(min(ends, default=None)),
            "last": _instant(max(ends, default=None)),
            "mean_degree": 2 * self.num_edges / self.num_nodes if self.num_nodes else 0.0,
            "max_degree": self.counts["max_degree"],
            "max_degree_table": self.counts["max_degree_table"],
            "isolated": self.counts["isolated"],
            "tables": tables,
            "relations": relations,
            "findings": [finding.to_dict() for finding in self.findings],
        }

    def to_hetero_data(self) -> "HeteroData":
        """A PyG `HeteroData` with RelBench's names: `(child, "f2p_COLUMN", parent)`, its reverse,
        `time` in seconds."""
        from gelgt.graph.hetero import to_hetero_data

        return to_hetero_data(self)


def _instant(seconds: int | None) -> str | None:
    # NumPy's datetimes, unlike Python's, hold every year that fits 64 bits.
    return None if seconds is None else str(np.datetime64(seconds, "s"))
