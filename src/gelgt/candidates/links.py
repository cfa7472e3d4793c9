"""Links: rows that tie an entity to a destination, over the whole database, by time. They say what
everyone has had lately."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.candidates.paths import Path
from gelgt.graph import NEVER, TIMELESS, Graph
from gelgt.history.events import parents_of, row_times


@dataclass(frozen=True)
class Links:
    """N links, by (time, row).

    Attributes:
        row: (N,) destination rows.
        time: (N,) the newest time on the way to them; TIMELESS where no row there has one.
    """

    row: NDArray[np.int64]
    time: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph, paths: Sequence[Path]) -> "Links":
        """The links of some paths: rows of the last table on the way down, each with the
        destination that its steps up lead to. Paths that share those steps share their links."""
        ways = {
            tuple(step for step in path.steps if not step.is_down): None
            for path in paths
            if path.is_link
        }
        parts = [_ends(graph, Path(steps[0].key.child, steps)) for steps in ways]
        if not parts:
            empty = np.zeros(0, np.int64)
            return cls(empty, empty)
        row, time = (np.concatenate(each) for each in zip(*parts))
        order = np.lexsort((row, time))
        return cls(row[order], time[order])


def _ends(graph: Graph, path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The destination of every row of a table, and the newest time on the way."""
    times = row_times(graph, path.start)
    rows, newest = np.arange(len(times)), np.array(times)
    for step in path.steps:
        rows = parents_of(graph, step.key, rows)
        at = row_times(graph, step.table)
        if len(at):
            newest = np.maximum(newest, np.where(rows >= 0, at[np.maximum(rows, 0)], TIMELESS))
    there = np.flatnonzero((rows >= 0) & (newest != NEVER))
    return rows[there], newest[there]
