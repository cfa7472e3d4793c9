"""`Lists`: how the columns of seeds follow foreign keys, from a row of each seed to one other row
or to a list of events. What follows them otherwise, such as without some rows, is another `Lists`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.graph import Graph
from gelgt.history.events import (
    View,
    children,
    grandchildren,
    other_parents,
    parents_of,
    row_times,
)
from gelgt.history.keys import Key

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EventTimes:
    """A date of the rows of a table, in seconds (rows,), `MISSING_TIME` for none."""

    table: str
    column: str
    seconds: Rows


class Lists:
    """Follows foreign keys for S seeds.

    Paths are given as they begin the names of columns (`history/events.py`).

    Args:
        graph: The graph.
        rows: (S,) the rows of the seeds.
        limits: (S,) the first second that each seed may not see.
    """

    def __init__(self, graph: Graph, rows: Rows, limits: NDArray[np.int64]) -> None:
        self.graph, self.rows, self.limits = graph, rows, limits
        self.owners = np.unique(rows)

    def parents(self, path: str, key: Key, rows: Rows) -> Rows:
        """(S,) the visible row that a row of each seed names by a key, -1 for none."""
        named, times = parents_of(self.graph, key, rows), row_times(self.graph, key.parent)
        if not len(times):
            return np.full_like(named, -1)
        return np.where((named >= 0) & (times[np.maximum(named, 0)] < self.limits), named, -1)

    def children(self, path: str, key: Key) -> View:
        """`< key`: the rows that name the seeds."""
        return children(self.graph, key, self.owners).view(self.rows, self.limits)

    def children_of(self, path: str, key: Key, rows: Rows) -> View:
        """The same for another row of each seed, -1 for none."""
        owners = np.unique(rows[rows >= 0])
        return children(self.graph, key, owners).view(rows, self.limits)

    def at_date(self, path: str, view: View, date: EventTimes) -> View:
        """`path @date`: a date in the rows of events, as events."""
        return view.at_dates(date.seconds)

    def other_parents(self, path: str, key: Key, other: Key) -> View:
        """`< key > other`: the other parents of the seeds' children."""
        return other_parents(self.graph, key, other, self.owners).view(self.rows, self.limits)

    def grandchildren(self, path: str, key: Key, below: Key) -> View:
        """`< key < below`: the rows that name the seeds' children."""
        return grandchildren(self.graph, key, below, self.owners).view(self.rows, self.limits)
