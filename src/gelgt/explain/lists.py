"""`VariantLists`: the history of one seed, followed without the rows that a variant lacks. An event
is there if every row on its path is; what lies behind an absent row is cut off with it.

What lies on a path is read once for a seed (`PathReader`), and variants that see the same of it
share one list (`SharedLists`).
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.reader import Found, Numbers, PathReader
from gelgt.explain.stand_ins import StandIns
from gelgt.history.keys import Key
from gelgt.history.lists import EventTimes

if TYPE_CHECKING:
    from gelgt.explain.event_kernels import EventLists
    from gelgt.explain.list_kernels import Known


class Units:
    """The units of what lies on the paths around one seed.

    Args:
        hood: The rows around the seed.
        reader: Of the paths.
    """

    def __init__(self, hood: Neighbourhood, reader: PathReader) -> None:
        self.hood, self.reader = hood, reader
        self._known: dict[str, tuple[Found, Known]] = {}

    def known(self, path: str, found: Found, source: "Source") -> "Known":
        """The units that the events of a path depend on."""
        before = self._known.get(path)
        if before is None:
            made = self._of(source, found)
        elif before[0] is found:
            return before[1]
        else:  # there are further owners
            made = _joined(before[1], self._of(source, found.behind(before[0])))
        self._known[path] = found, made
        return made

    def _of(self, source: "Source", found: Found) -> "Known":
        from gelgt.explain.list_kernels import Known, known_units

        first, hood, key = self.reader.lists.first, self.hood, source.key
        own, way, ways = hood.unit_lists(source.path), hood.unit_lists(""), _NOBODY
        if found.via is not None:
            ways = found.via + first(key.child)
            way = hood.unit_lists(f"< {key.child}.{key.column}")
        nodes = found.row + first(source.table)
        return Known(*known_units(nodes, ways, found.starts, own, way, hood.num_units))


_NOBODY = np.zeros(0, np.int64)


def _joined(known: "Known", more: "Known") -> "Known":
    from gelgt.explain.list_kernels import Known

    return Known(
        np.concatenate([known.units, more.units], 1),
        np.concatenate([known.each, more.each]),
        np.concatenate([known.starts, known.starts[-1] + more.starts[1:]]),
    )


@dataclass(frozen=True, eq=False)
class Source:
    """Where events come from: a path to a table, whose first step is a key's, and (V,) whose events
    each variant looks at, a place among the owners or -1."""

    path: str
    table: str
    key: Key
    owner: Numbers


@dataclass(frozen=True, eq=False)
class SharedLists:
    """The m distinct lists of events of one path that V variants see.

    Attributes:
        lists: As compiled loops read them.
        newest_of_lists: (m,) the row of the newest event of each, -1 where there is none.
        source: Where the events come from.
        found: All that there are.
    """

    lists: "EventLists"
    newest_of_lists: Numbers
    source: Source
    found: Found

    @property
    def newest(self) -> Numbers:
        """(V,) the row of each variant's newest event, -1 where there is none."""
        newest: Numbers = self.newest_of_lists[self.lists.which]
        return newest


class VariantLists:
    """Follows foreign keys for V variants of one seed, as `history.lists.Lists` does for seeds.

    Args:
        units: Of what lies on the paths around it.
        state: (V, U) of its units in each variant.
        stand_ins: What states beyond ITSELF mean.
    """

    def __init__(self, units: Units, state: NDArray[np.int64], stand_ins: StandIns) -> None:
        self.units, self.reader, self.state = units, units.reader, state
        self.rows, self.features = np.full(len(state), self.reader.row), stand_ins.features
        self.numbers, self.places = stand_ins.numbers()
        self._alone = np.zeros(len(state), np.int64)

    def parents(self, path: str, key: Key, rows: Numbers) -> Numbers:
        from gelgt.explain.list_kernels import named_rows

        lists = self.reader.lists
        units = self.units.hood.unit_lists(path)
        named: Numbers = named_rows(
            rows, lists.graph, lists.key(key), self.reader.limit, units, self.state
        )
        return named

    def children(self, path: str, key: Key) -> SharedLists:
        found, _ = self.reader.children(path, key, [self.reader.row])
        return self._seen(path, found, Source(path, key.child, key, self._alone))

    def children_of(self, path: str, key: Key, rows: Numbers) -> SharedLists:
        distinct = sorted(set(rows.tolist()))
        owners = [row for row in distinct if row >= 0]
        found, places = self.reader.children(path, key, owners)
        owner = np.array([-1] * (len(distinct) - len(owners)) + places, np.int64)
        owner = owner[np.searchsorted(distinct, rows)]
        return self._seen(path, found, Source(path, key.child, key, owner))

    def at_date(self, path: str, view: SharedLists, date: EventTimes) -> SharedLists:
        return self._seen(path, self.reader.at_date(path, view.found, date), view.source)

    def other_parents(self, path: str, key: Key, other: Key) -> SharedLists:
        found = self.reader.other_parents(path, key, other)
        return self._seen(path, found, Source(path, other.parent, key, self._alone))

    def grandchildren(self, path: str, key: Key, below: Key) -> SharedLists:
        found = self.reader.grandchildren(path, key, below)
        return self._seen(path, found, Source(path, below.child, key, self._alone))

    def read_rows(self, table: str, rows: Numbers) -> Numbers:
        """(V,) the rows whose columns are read where each variant sees some rows."""
        from gelgt.explain.list_kernels import read_rows

        first, units = self.reader.lists.first(table), self.units.hood.unit_lists("")
        read: Numbers = read_rows(rows, first, units, self.state, self.numbers)
        is_own = read < self.features.rows[table]  # behind them lie versions and stand-ins
        known = self.features.rows_at(table, np.where(is_own, read, -1), self.reader.limit)
        return np.where(is_own, known, read)

    def _seen(self, path: str, found: Found, source: Source) -> SharedLists:
        """What each variant sees of the events of its owner."""
        from gelgt.explain.event_kernels import EventLists
        from gelgt.explain.list_kernels import seen_lists

        event, read, bounds, which, newest = seen_lists(
            self.state,
            source.owner,
            self.units.known(path, found, source),
            found.row,
            found.starts,
            self.places,
        )
        # rows as they were at the time of the event
        shown = self.features.rows_at(source.table, found.row, found.time + 1)
        lists = EventLists(shown, found.time, event, read, bounds, which)
        return SharedLists(lists, newest, source, found)
