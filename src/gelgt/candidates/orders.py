"""Orders of all destinations by everyone's links, the same for all seeds of one time.

popular   most links in the last windows first, the newest link first among equals
recent    the newest link first
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gelgt.candidates.find import CandidateFinder
from gelgt.graph import TIMELESS


@dataclass(frozen=True)
class LinkOrder:
    """One such order.

    Attributes:
        windows: In which links are counted; 0 for the newest link first.
    """

    windows: int
    _orders: dict[tuple[int, int], NDArray[np.int64]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __str__(self) -> str:
        if not self.windows:
            return "recent"
        return f"popular in {self.windows} window{'s' if self.windows > 1 else ''}"

    def rows(self, finder: CandidateFinder, limit: int, reference: int) -> NDArray[np.int64]:
        """Linked destinations that exist before a limit, in this order."""
        key = (limit, reference)
        if key not in self._orders:
            links = finder.links
            since = reference - self.windows * finder.window if self.windows else TIMELESS
            begin, end = np.searchsorted(links.time, [since, limit])
            rows, times = links.row[begin:end], links.time[begin:end]
            is_there = finder.times[rows] < limit  # always, where the table has no time
            rows, times = rows[is_there], times[is_there]
            newest = np.full(finder.size, TIMELESS)
            np.maximum.at(newest, rows, times)
            count = np.bincount(rows, minlength=finder.size)
            some = np.flatnonzero(count)
            first = -count[some] if self.windows else np.zeros(len(some), np.int64)
            self._orders[key] = some[np.lexsort((some, -newest[some], first))]
        return self._orders[key]

    def prior(self, finder: CandidateFinder, limit: int, reference: int) -> NDArray[np.float32]:
        """(D,) the negative logarithm of each destination's rank; those without a link share the
        rank behind all others."""
        order = self.rows(finder, limit, reference)
        rank = np.full(finder.size, len(order))
        rank[order] = np.arange(len(order))
        prior: NDArray[np.float32] = -np.log1p(rank).astype(np.float32)
        return prior
