"""Seeds: whom to look at, and when. Each (entity, time) row gets a neighbourhood of its own."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gelgt.errors import GelgtError
from gelgt.graph import Graph
from gelgt.sources.database import Database

if TYPE_CHECKING:
    from gelgt.tasks import Task


@dataclass(frozen=True)
class Seeds:
    """S seeds.

    Attributes:
        node: (S,) nodes of the graph.
        time: (S,) seconds since 1970.
        key: (S,) uint64 identities from the user's own keys, which stay the same when the database
            is cut or grows.
        lag: (S,) seconds after `time` at which the label is asked for, of seeds that are shown a
            stale view; None is at once.
    """

    node: NDArray[np.int64]
    time: NDArray[np.int64]
    key: NDArray[np.uint64]
    lag: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.node)

    def take(self, places: NDArray[np.int64]) -> "Seeds":
        return Seeds(
            self.node[places],
            self.time[places],
            self.key[places],
            None if self.lag is None else self.lag[places],
        )

    @property
    def asked(self) -> NDArray[np.int64]:
        """(S,) the time that each label is asked for."""
        return self.time if self.lag is None else self.time + self.lag


def make_seeds(
    db: Database,
    graph: Graph,
    table: str,
    rows: Sequence[int] | NDArray[Any],
    times: NDArray[Any] | Sequence[int],
) -> Seeds:
    """Seeds for rows of one table; times as datetime64 or as seconds since 1970."""
    places, moments = np.asarray(rows, np.int64), np.asarray(times)
    if moments.dtype.kind == "M":
        moments = moments.astype("datetime64[s]")
    if len(places) != len(moments):
        raise GelgtError(
            "bad_seeds",
            f"{len(places):,} entities have {len(moments):,} times.",
            hint="Give one time for each entity.",
        )
    return Seeds(
        graph.nodes(table, places), moments.astype(np.int64), entity_keys(db, table, places)
    )


def task_seeds(task: "Task", graph: Graph, split: str) -> Seeds:
    """The seeds of a task's label table, in its order."""
    labels = task.table(split)
    if task.time_col is None:
        raise GelgtError(
            "no_times",
            f"The task '{task.name}' has no seed times.",
            hint="Choose a task with a time column.",
        )
    times = labels.column(task.time_col).cast("int64").to_numpy() // 1_000_000
    return make_seeds(
        task.database, graph, task.entity_table, labels.column(task.entity_col).to_numpy(), times
    )


def entity_keys(db: Database, table: str, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A 64-bit identity for each row from its table's name and the user's own key, not from its
    number."""
    found = np.empty(len(rows), np.uint64)
    unique, inverse = np.unique(rows, return_inverse=True)
    keys = db.keys(table)
    own = (
        list(zip(*(keys.column(c).take(unique).to_pylist() for c in keys.column_names)))
        if keys is not None
        else [(int(r),) for r in unique]
    )
    hashed = [
        int.from_bytes(
            hashlib.blake2b(repr((table, *key)).encode(), digest_size=8).digest(), "little"
        )
        for key in own
    ]
    found[:] = np.array(hashed, np.uint64)[inverse] if len(unique) else 0
    return found
