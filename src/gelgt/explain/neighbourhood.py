"""`Neighbourhood`: the rows that one prediction rests on, and the paths of foreign keys that lead
to them.

A *unit* is what can be absent: each sampled row (unit 0 is the seed), and behind them, for each
path and age, the rest of its rows: those that the sample left out and the history columns still
read. A row belongs to one unit, that of the shortest path to it, and is absent everywhere with it.
"""

from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.paths import OWN, Path, parsed, step_down, step_up
from gelgt.explain.reader import PathReader
from gelgt.graph import Graph
from gelgt.sampling import Sample, Seeds

if TYPE_CHECKING:
    from gelgt.explain.list_kernels import UnitLists

DAY = 86_400


# Days; borders of the ages that rows are grouped by.
AGES = (3.0, 7.0, 14.0, 21.0, 28.0, 35.0, 45.0, 60.0, 90.0, 180.0, 365.0, 730.0, 1825.0, 3650.0)


@dataclass(frozen=True)
class Rest:
    """Rows of one path and of similar age that the sample left out.

    Attributes:
        path: The name of the path.
        rows: (n,) row numbers.
        ages: (n,) days; NaN where there is no time.
    """

    path: str
    rows: NDArray[np.int64]
    ages: NDArray[np.float64]


class Search(NamedTuple):
    """A breadth-first search over the sampled rows.

    Attributes:
        order: Rows in the order in which they are found.
        depth: Distance of each row, -1 for none.
        paths: The path to each row.
        via: The row from which each was found.
    """

    order: list[int]
    depth: list[int]
    paths: list[Path]
    via: list[int]


def age_group(ages: NDArray[np.float64]) -> NDArray[np.int64]:
    """The place of each age among `AGES`; -1 where there is none."""
    return np.where(np.isnan(ages), -1, np.searchsorted(AGES, ages, side="right"))


@dataclass(frozen=True)
class Neighbourhood:
    """The rows around one seed.

    Attributes:
        graph: Where nodes, tables and relations are numbered.
        seed: One seed.
        sample: Its sampled subgraph.
        hops: Depth of the sampler.
        rests: What the sample left out.
        reader: What has been read of the paths around the seed.
    """

    graph: Graph
    seed: Seeds
    sample: Sample
    hops: int
    rests: tuple[Rest, ...] = ()
    reader: PathReader | None = None

    @property
    def num_rows(self) -> int:
        """K, the sampled rows."""
        return len(self.sample.node)

    @property
    def num_units(self) -> int:
        return self.num_rows + len(self.rests)

    def table(self, row: int) -> str:
        return self.graph.tables[int(self.sample.table[row])]

    @cached_property
    def row_numbers(self) -> NDArray[np.int64]:
        """(K,) the row of its table that each sampled row is."""
        return self.sample.node - self.graph.offsets[self.sample.table]

    # Links among the sampled rows.
    @cached_property
    def keys(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Keys by row: (K + 1,) where those of each row begin, the rows that they refer to, their
        relations."""
        child, parent = self.sample.edge_source, self.sample.edge_target
        order = np.lexsort((self.sample.edge_relation, child))
        starts = np.searchsorted(child[order], np.arange(self.num_rows + 1))
        relations = self.sample.edge_relation[order].astype(np.int64)
        return starts.astype(np.int64), parent[order].astype(np.int64), relations

    @cached_property
    def lists(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Neighbours in the sampler's order (parents by key, then children, newest first): (K + 1,)
        where those of each row begin, the neighbours, and the relation of each, or -1 minus it
        where it leads down to a child."""
        child = self.sample.edge_source.astype(np.int64)
        parent = self.sample.edge_target.astype(np.int64)
        relation = self.sample.edge_relation.astype(np.int64)
        newest_first = -(self.graph.node_time[self.sample.node[child]].astype(np.float64))
        row, other = np.concatenate([child, parent]), np.concatenate([parent, child])
        first = np.concatenate([relation.astype(np.float64), newest_first])
        is_down = np.repeat([0, 1], len(child))
        order = np.lexsort((self.sample.node[other], first, is_down, row))
        starts = np.searchsorted(row[order], np.arange(self.num_rows + 1)).astype(np.int64)
        return starts, other[order], np.concatenate([relation, -1 - relation])[order]

    @cached_property
    def search(self) -> "Search":
        """Breadth-first search over all rows."""
        starts, others, relations = (values.tolist() for values in self.lists)
        order, depth = [0], [-1] * self.num_rows
        paths, via = [OWN] * self.num_rows, [0] * self.num_rows
        longer: dict[tuple[str, int], Path] = {}  # by the path before, and the step
        depth[0] = 0
        for row in order:
            if depth[row] == self.hops:
                continue
            for e in range(starts[row], starts[row + 1]):
                other, way = others[e], relations[e]
                if depth[other] < 0:
                    depth[other], via[other] = depth[row] + 1, row
                    key = paths[row].name, way
                    if key not in longer:
                        longer[key] = self._step(paths[row], way)
                    paths[other] = longer[key]
                    order.append(other)
        return Search(order, depth, paths, via)

    def _step(self, path: Path, way: int) -> Path:
        """A path and one step more, along a relation of `lists`."""
        if way >= 0:
            return step_up(path, self.graph.relations[way])
        return step_down(path, self.graph.relations[-1 - way])

    @cached_property
    def is_loose(self) -> NDArray[np.bool_]:
        """(K,) rows that no keys among the sampled rows link to the seed: the sampler found them
        by their time, or drew them."""
        return np.array(self.search.depth) < 0

    @cached_property
    def is_searched(self) -> bool:
        """Whether the sampler found the rows in the order of this search."""
        is_same = self.search.order == list(range(self.num_rows))
        return is_same and self.search.depth == self.sample.hop.tolist()

    @cached_property
    def paths(self) -> list[Path]:
        """The path to each unit; loose rows have one of their own by table."""
        named = self.search.paths
        loose = self.is_loose
        sampled = [
            Path(f"~ {self.table(row)}", (self.table(0), self.table(row))) if loose[row] else path
            for row, path in enumerate(named)
        ]
        sampled[0] = Path("", (self.table(0),))
        return [*sampled, *self.rest_paths]

    @cached_property
    def rest_paths(self) -> list[Path]:
        return [parsed(rest.path, self.table(0), self.graph) for rest in self.rests]

    @cached_property
    def groups(self) -> dict[Path, NDArray[np.int64]]:
        """The units of each path, nearest path first; without the seed."""
        found: dict[Path, list[int]] = {}
        for unit, path in enumerate(self.paths):
            if unit:
                found.setdefault(path, []).append(unit)
        nearest = sorted(found, key=lambda path: (path.length, path.name))
        return {path: np.array(found[path], np.int64) for path in nearest}

    @cached_property
    def ages(self) -> NDArray[np.float64]:
        """(U,) days before the reference time; of a rest, those of its newest row; NaN where there
        is no time."""
        sampled = np.where(self.sample.has_time, self.sample.age, np.nan).astype(np.float64)
        rests = [np.min(rest.ages, initial=np.inf) for rest in self.rests]
        return np.concatenate([sampled, [a if np.isfinite(a) else np.nan for a in rests]])

    @cached_property
    def oldest(self) -> NDArray[np.float64]:
        """(U,) the same; of a rest, those of its oldest row."""
        rests = [rest.ages.max(initial=-np.inf) for rest in self.rests]
        return np.concatenate([self.ages[: self.num_rows], rests])

    @cached_property
    def via_ages(self) -> list[float]:
        """(K,) the age of each sampled row, or of the row that leads to it where it has none of its
        own; NaN where that is the entity."""
        ages: list[float] = self.ages[: self.num_rows].tolist()
        ages[0] = float("nan")
        for row in self.search.order[1:]:  # what leads to a row comes before it
            if isnan(ages[row]):
                ages[row] = ages[self.search.via[row]]
        return ages

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """(U,) rows of each unit."""
        rests = [len(rest.rows) for rest in self.rests]
        return np.array([1] * self.num_rows + rests, np.int64)

    # Units of rows.
    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The nodes of all units, ascending, and the unit of each."""
        firsts = [self.graph.offsets[self.graph.table_number(p.table)] for p in self.rest_paths]
        nodes = [rest.rows + first for rest, first in zip(self.rests, firsts)]
        every = np.concatenate([self.sample.node, *nodes])
        of = np.repeat(np.arange(self.num_units), self.sizes)
        order = np.argsort(every, kind="stable")
        return every[order], of[order]

    def units(self, path: str, nodes: NDArray[Any]) -> NDArray[np.int64]:
        """(n,) the units of some nodes at the end of a path, -1 for none."""
        from gelgt.explain.list_kernels import units_of

        units: NDArray[np.int64] = units_of(self.unit_lists(path), np.asarray(nodes, np.int64))
        return units

    def unit_lists(self, path: str) -> "UnitLists":
        """The units of nodes at the end of a path. A row that is met only where others are absent
        belongs to the rest of that path; -1 where there is none."""
        known = self._unit_lists.get(path)
        if known is None:
            from gelgt.explain.list_kernels import UnitLists

            rest = self._first_rests.get(Path.name_of(path), -1)
            known = self._unit_lists[path] = UnitLists(*self._sorted, rest)
        return known

    @cached_property
    def _unit_lists(self) -> "dict[str, UnitLists]":
        return {}

    @cached_property
    def _first_rests(self) -> dict[str, int]:
        """The first rest of each path."""
        firsts: dict[str, int] = {}
        for place, rest in enumerate(self.rests):
            firsts.setdefault(rest.path, self.num_rows + place)
        return firsts
