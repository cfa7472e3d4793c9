"""`PathReader`: what lies on the paths of foreign keys around one seed, read once for whoever asks:
the survey of what the sample left out, and the history columns of variants."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from gelgt.features.values import MISSING_TIME
from gelgt.graph import Graph
from gelgt.history.keys import Key
from gelgt.history.lists import EventTimes

if TYPE_CHECKING:
    from gelgt.explain.list_kernels import KeyLists

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Found:
    """The events of one path behind O owners, owner after owner, by time, before the limit of a
    seed.

    Attributes:
        row: (n,) rows of the path's last table.
        time: (n,) seconds.
        starts: (O + 1,) where the events of each owner begin.
        via: (n,) on a path of two steps, the row on the way to each.
    """

    row: Numbers
    time: Numbers
    starts: Numbers
    via: Numbers | None = None

    def joined(self, more: "Found") -> "Found":
        """With the events of further owners behind."""
        return Found(
            np.concatenate([self.row, more.row]),
            np.concatenate([self.time, more.time]),
            np.concatenate([self.starts, self.starts[-1] + more.starts[1:]]),
        )

    def behind(self, before: "Found") -> "Found":
        """The events of the owners that were joined to others."""
        begin, owners = len(before.row), len(before.starts) - 1
        return Found(self.row[begin:], self.time[begin:], self.starts[owners:] - begin)

    def at_dates(self, dates: Numbers, limit: int) -> "Found":
        """The dates (rows,) in the rows of these events as events, where they lie before a limit;
        as `history.events.Events.at_dates`."""
        own = dates[self.row]
        owner = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))
        time = np.maximum(self.time, own)
        kept = np.flatnonzero((own != MISSING_TIME) & (time < limit))
        kept = kept[np.lexsort((time[kept], owner[kept]))]
        counts = np.bincount(owner[kept], minlength=len(self.starts) - 1)
        starts = np.concatenate([[0], np.cumsum(counts)])
        via = None if self.via is None else self.via[kept]
        return Found(self.row[kept], time[kept], starts, via)


class PathReader:
    """Reads the paths around one seed.

    Args:
        graph: The graph.
        row: Of the seed in its table.
        limit: The first second that the seed may not see.
    """

    def __init__(self, graph: Graph, row: int, limit: int) -> None:
        self.graph, self.row, self.limit = graph, row, limit
        self.lists = GraphKeys.of(graph)
        self._found: dict[str, Found] = {}
        self._dated: dict[str, tuple[Found, Found]] = {}
        self._owners: dict[str, dict[int, int]] = {}

    def children(self, path: str, key: Key, owners: list[int]) -> tuple[Found, list[int]]:
        """The rows that name some rows, and the place of each of these among the owners."""
        places = self._owners.setdefault(path, {})
        missing = sorted(owner for owner in owners if owner not in places)
        before = self._found.get(path)
        if missing or before is None:
            more = self._below(key, np.array(missing, np.int64))
            self._found[path] = more if before is None else before.joined(more)
            places.update({owner: len(places) + place for place, owner in enumerate(missing)})
        return self._found[path], [places[owner] for owner in owners]

    def other_parents(self, path: str, key: Key, other: Key) -> Found:
        """The other parents of the seed's children, once for each child."""
        if path not in self._found:
            children = self._children(key)
            parents = self.lists.parents(other, children.row)
            is_there = parents >= 0
            via, row, time = children.row[is_there], parents[is_there], children.time[is_there]
            time = np.maximum(time, self.lists.times(other.parent)[row])
            self._found[path] = self._ordered(row, time, via, np.lexsort((via, time)))
        return self._found[path]

    def grandchildren(self, path: str, key: Key, below: Key) -> Found:
        """The rows that name the seed's children."""
        if path not in self._found:
            children = self._children(key)
            found = self._below(below, children.row)
            count = np.diff(found.starts)
            time = np.maximum(found.time, np.repeat(children.time, count))
            via, order = np.repeat(children.row, count), np.lexsort((found.row, time))
            self._found[path] = self._ordered(found.row, time, via, order)
        return self._found[path]

    def at_date(self, path: str, found: Found, date: EventTimes) -> Found:
        """A date in the rows of events, as events of the same owners."""
        before = self._dated.get(path)
        if before is None or before[0] is not found:
            before = self._dated[path] = found, found.at_dates(date.seconds, self.limit)
        return before[1]

    def _children(self, key: Key) -> Found:
        return self.children(f"< {key.child}.{key.column}", key, [self.row])[0]

    def _below(self, key: Key, owners: Numbers) -> Found:
        from gelgt.explain.list_kernels import read_children

        return Found(*read_children(self.lists.graph, self.lists.key(key), owners, self.limit))

    def _ordered(self, row: Numbers, time: Numbers, via: Numbers, order: Numbers) -> Found:
        """Events of two steps in an order by time, up to the limit."""
        order = order[: np.searchsorted(time[order], self.limit)]
        return Found(row[order], time[order], np.array([0, len(order)]), via[order])


class _Table(NamedTuple):
    first: int
    times: Numbers


class GraphKeys:
    """The keys of a graph as compiled loops read them, made once.

    Args:
        graph: The graph.
    """

    def __init__(self, graph: Graph) -> None:
        from gelgt.explain.list_kernels import GraphLists

        self.graph: GraphLists = GraphLists(graph.indptr, graph.indices, graph.node_time)
        starts = graph.offsets.tolist()
        self._tables = {
            name: _Table(starts[place], graph.node_time[starts[place] : starts[place + 1]])
            for place, name in enumerate(graph.tables)
        }
        self._parents = {name: graph.table_parents(name) for name in graph.tables}
        self._keys: dict[Key, KeyLists] = {}

    @classmethod
    def of(cls, graph: Graph) -> "GraphKeys":
        if graph not in _known:
            _known[graph] = cls(graph)
        return _known[graph]

    def key(self, key: Key) -> "KeyLists":
        from gelgt.explain.list_kernels import KeyLists

        if key not in self._keys:
            firsts = self._tables[key.child].first, self._tables[key.parent].first
            self._keys[key] = KeyLists(self._parents[key.child], key.place, *firsts)
        return self._keys[key]

    def first(self, table: str) -> int:
        """The node of a table's first row."""
        return self._tables[table].first

    def times(self, table: str) -> Numbers:
        """The times of a table's rows."""
        return self._tables[table].times

    def parents(self, key: Key, rows: Numbers) -> Numbers:
        """The row of the parent that each row of the child names; -1 for none."""
        named: Numbers = self._parents[key.child][rows, key.place].astype(np.int64)
        return np.where(named >= 0, named - self.first(key.parent), -1)


_known: WeakKeyDictionary[Graph, GraphKeys] = WeakKeyDictionary()
