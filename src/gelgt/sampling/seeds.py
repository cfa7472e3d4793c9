"""Seeds: the (entity, time) pairs that are predicted. Each is sampled for itself."""

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
        key: (S,) uint64 identities from the user's keys, which stay the same when the database is
            cut or grows.
        lag: (S,) seconds from `time`, up to which the seed sees the database, to the seed time of
            its label, for seeds that are shown a stale view; None where both are the same.
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
        """(S,) the seed time of each label."""
        return self.time if self.lag is None else self.time + self.lag

    def digest(self) -> str:
        """The same for the same seeds, in their order."""
        content = self.node.tobytes() + self.time.tobytes() + self.asked.tobytes()
        return hashlib.blake2b(content, digest_size=16).hexdigest()


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
            f"Expected one time for each entity, got {len(places):,} entities and "
            f"{len(moments):,} times.",
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
    """A 64-bit identity for each row, from its table's name and the user's key, not from its row
    number."""
    unique, inverse = np.unique(rows, return_inverse=True)
    keys = db.keys_of(table, unique)
    values = (
        zip(*(column.to_pylist() for column in keys.columns))
        if keys is not None
        else ((int(row),) for row in unique)
    )
    digests = (
        hashlib.blake2b(repr((table, *key)).encode(), digest_size=8).digest() for key in values
    )
    hashes = np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)
    return hashes[inverse]
