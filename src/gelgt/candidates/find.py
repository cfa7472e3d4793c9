"""`CandidateFinder`: for each seed the destination rows that the data proposes, and what ties the
seed to them.

    paths     rows that a walk along foreign keys reaches from the seed: how often, how recently, by
              which path
    popular   what everyone has had lately, the same rows for all seeds of one time

All of it lies before the seed time. Popular rows carry no ties, so that a seed without any row of
its own has candidates too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gelgt.candidates.links import Links
from gelgt.candidates.paths import Path, destination_paths
from gelgt.config import SamplingConfig
from gelgt.graph import TIMELESS, Graph
from gelgt.history.columns import DAY, WINDOW
from gelgt.history.events import row_times
from gelgt.sampling import Sampler, Seeds
from gelgt.sampling.arrays import graph_arrays
from gelgt.tasks.task import Definition

POPULAR = 256  # destinations that are proposed because everyone has had them lately
CHUNK = 128  # seeds at a time


@dataclass(frozen=True)
class Bounds:
    """How far a walk goes.

    Attributes:
        fanout: Most children of a row, the newest.
        width: Most rows of one step.
        reached: Most destinations of a seed.
        has_popular: Whether what is popular is added.
    """

    fanout: int = 256
    width: int = 2_048
    reached: int = 512
    has_popular: bool = True


BOUNDS = Bounds()
EVERYTHING = Bounds(1 << 17, 1 << 17, 1 << 16, has_popular=False)


@dataclass(frozen=True)
class Candidates:
    """At most M candidates of each of S seeds, P paths.

    Attributes:
        row: (S, M) destination rows; -1 behind the last.
        count: (S, M, P) walks that end there.
        newest: (S, M, P) the newest time on those walks, in seconds; TIMELESS for none.
        reached: (S,) how many of them paths lead to; popular ones stand behind them.
    """

    row: NDArray[np.int64]
    count: NDArray[np.int32]
    newest: NDArray[np.int64]
    reached: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True)
class CandidateFinder:
    """Finds candidates in one database.

    Attributes:
        graph: Of the database.
        task: A recommendation.
        sampling: What a seed may see.
    """

    graph: Graph
    task: Definition
    sampling: SamplingConfig

    @property
    def destination(self) -> str:
        assert self.task.dst_entity_table is not None
        return self.task.dst_entity_table

    @property
    def size(self) -> int:
        """Rows of the destination table."""
        return len(self.times)

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """(D,) when each destination comes to exist; TIMELESS for always."""
        return row_times(self.graph, self.destination)

    @cached_property
    def paths(self) -> list[Path]:
        return destination_paths(
            self.graph,
            self.task.entity_table,
            self.destination,
            hidden=frozenset(self.task.remove_columns),
        )

    @cached_property
    def link_paths(self) -> list[int]:
        """The places of the paths that stand for what an entity has had: the shortest links."""
        links = [(len(path.steps), place) for place, path in enumerate(self.paths) if path.is_link]
        return [place for length, place in links if length == links[0][0]]

    @cached_property
    def links(self) -> Links:
        return Links.of(self.graph, [self.paths[place] for place in self.link_paths])

    @cached_property
    def window(self) -> int:
        """Seconds that a label looks ahead."""
        delta = self.task.timedelta
        return (0 if delta is None else int(delta.total_seconds())) or WINDOW

    @cached_property
    def _sampler(self) -> Sampler:
        return Sampler(self.graph, self.sampling)

    @cached_property
    def _popular(self) -> dict[tuple[int, int], NDArray[np.int64]]:
        return {}

    def limits(self, seeds: Seeds) -> NDArray[np.int64]:
        """(S,) the first second that each seed may not see."""
        return self.limits_at(seeds.time)

    def references(self, seeds: Seeds) -> NDArray[np.int64]:
        """(S,) the time from which ages are measured."""
        return self.references_at(seeds.time)

    def limits_at(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._sampler.limits(times)

    def references_at(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._sampler.references(times)

    def popular(self, limit: int, reference: int) -> NDArray[np.int64]:
        """The destinations that everyone has had lately, most of all first: links weigh less the
        older they are. Equal ones stand in the order of their rows."""
        from gelgt.candidates.kernels import popularity

        key = (limit, reference)
        if key not in self._popular:
            weights = np.zeros(self.size)
            links = self.links
            popularity(links.row, links.time, limit, reference, self.window, weights)
            weights[(self.times >= limit) & (self.times != TIMELESS)] = 0.0
            most = min(POPULAR, int(np.count_nonzero(weights)))
            few = np.argpartition(-weights, most - 1)[:most] if most else np.zeros(0, np.int64)
            least = weights[few].min(initial=np.inf)
            few = np.flatnonzero(weights >= max(least, 1e-300)) if most else few
            self._popular[key] = few[np.lexsort((few, -weights[few]))][:most]
        return self._popular[key]

    def had(self, seeds: Seeds) -> NDArray[np.int64]:
        """(S, H) every destination that each entity has had, -1 behind the last."""
        return self._found(seeds, [self.paths[place] for place in self.link_paths], EVERYTHING).row

    def find(self, seeds: Seeds) -> Candidates:
        """The candidates of seeds, in their order."""
        return self._found(seeds, self.paths, BOUNDS)

    def _found(self, seeds: Seeds, along: Sequence[Path], bounds: Bounds) -> Candidates:
        parts = list(self._chunks(seeds, along, bounds))
        most = max((part.row.shape[1] for part in parts), default=0)
        paths = len(along)
        out = Candidates(
            np.full((len(seeds), most), -1, np.int64),
            np.zeros((len(seeds), most, paths), np.int32),
            np.full((len(seeds), most, paths), TIMELESS, np.int64),
            np.concatenate([p.reached for p in parts]) if parts else np.zeros(0, np.int64),
        )
        at = 0
        for part in parts:
            end, width = at + len(part), part.row.shape[1]
            out.row[at:end, :width] = part.row
            out.count[at:end, :width], out.newest[at:end, :width] = part.count, part.newest
            at = end
        return out

    def _chunks(self, seeds: Seeds, along: Sequence[Path], bounds: Bounds) -> Iterator[Candidates]:
        from gelgt.candidates.kernels import walk_paths

        arrays = graph_arrays(self.graph)
        longest = max((len(path.steps) for path in along), default=1)
        steps = np.zeros((len(along), longest, 3), np.int64)
        for place, path in enumerate(along):
            steps[place, : len(path.steps)] = path.codes(self.graph)
        lengths = np.array([len(path.steps) for path in along], np.int64)
        first = self.graph.offsets[self.graph.table_number(self.destination)]
        for start in range(0, len(seeds), CHUNK):
            few = seeds.take(np.arange(start, min(start + CHUNK, len(seeds))))
            limits, references = self.limits(few), self.references(few)
            extra, spans = (
                self._extras(limits, references)
                if bounds.has_popular
                else (np.zeros(0, np.int64), np.zeros((len(few), 2), np.int64))
            )
            most = min(self.size, bounds.reached + POPULAR * bounds.has_popular)
            row = np.full((len(few), most), -1, np.int64)
            count = np.zeros((len(few), most, len(along)), np.int32)
            newest = np.full((len(few), most, len(along)), TIMELESS, np.int64)
            reached = np.zeros(len(few), np.int64)
            walk_paths(
                arrays,
                steps,
                lengths,
                first,
                few.node,
                limits,
                bounds.fanout,
                bounds.width,
                extra,
                spans,
                row,
                count,
                newest,
                reached,
            )
            used = int((row >= 0).sum(1).max(initial=0))
            yield Candidates(row[:, :used], count[:, :used], newest[:, :used], reached)

    def _extras(
        self, limits: NDArray[np.int64], references: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The popular rows of some seeds: all of them, and from where to where each seed's are."""
        pairs, which = np.unique(np.stack([limits, references], 1), axis=0, return_inverse=True)
        lists = [self.popular(int(limit), int(reference)) for limit, reference in pairs]
        ends = np.cumsum([0, *map(len, lists)])
        spans = np.stack([ends[:-1], ends[1:]], 1)[which.reshape(-1)]
        return np.concatenate([np.zeros(0, np.int64), *lists]), np.ascontiguousarray(spans)


def days_before(newest: NDArray[np.int64], references: NDArray[np.int64]) -> NDArray[np.float32]:
    """(S, M, P) ages of candidates' newest times; NaN for none."""
    ages = (references[:, None, None] - np.where(newest == TIMELESS, 0, newest)) / DAY
    return np.where(newest == TIMELESS, np.nan, ages).astype(np.float32)
