"""`Sampler`: causal subgraphs around (entity, time) seeds, sampled while a model trains; there is
no precomputed cache that could go stale.

    sampler = Sampler(graph, SamplingConfig(budget=300))
    sample = sampler.sample(graph.nodes("drivers", rows), seed_times)     # packed arrays

Time: a row is visible if its time lies before the seed's limit, which is the seed time (one second
later under `inclusive`), and under `frozen` not after the horizon. Rows without a time in a timed
table are never visible, rows of timeless tables always.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.errors import GelgtError, some
from gelgt.graph import NEVER, TIMELESS, Graph
from gelgt.hashing import splitmix64
from gelgt.sampling.arrays import (
    AHEAD,
    BFS,
    MAX_STAMP,
    RANDOM,
    RECENT,
    GraphArrays,
    Options,
    Scratch,
    SeedArrays,
    graph_arrays,
)
from gelgt.sampling.sample import (
    EDGE_BYTES,
    ROW_BYTES,
    Sample,
    allocate,
    concatenate,
    subgraph,
    trim,
)

CHUNK = 1024  # seeds that one call of the kernel samples
CHUNK_BYTES = 24 << 20  # most memory that the rows and edges of one call may take
POOL = 8  # `random` draws from at most so many times the budget
FULL_LIMIT = 4_000_000  # rows of one subgraph beyond which `full` gives up


class Sampler:
    """Samples subgraphs of one graph by one configuration. Safe to use from several threads at
    once."""

    def __init__(self, graph: Graph, config: SamplingConfig) -> None:
        if config.visibility == "frozen" and config.horizon is None:
            raise GelgtError(
                "no_horizon",
                "The frozen regime needs a horizon.",
                hint="Set horizon to the test time, in seconds since 1970.",
            )
        self.graph = graph
        self.config = config
        self._most_keys = max(1, int(graph.num_keys.max(initial=0)))

    @cached_property
    def _arrays(self) -> GraphArrays:
        """Made when the first subgraph is asked for: limits and references need none of it."""
        return graph_arrays(self.graph, has_newest=self.config.strategy == "recent")

    def limits(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each seed time, the first second whose rows are not visible."""
        # Where times have fractions, rows of the same second as the seed time or the horizon may
        # lie after it: they are not visible.
        first_fraction, horizon = self.graph.first_fraction, self.config.horizon
        limits = times + ((self.config.causality == "inclusive") & (times < first_fraction))
        if self.config.visibility == "frozen" and horizon is not None:
            return np.minimum(limits, horizon + (horizon < first_fraction))
        return limits

    def references(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """The times from which ages are measured: min(seed time, horizon)."""
        return times if self.config.horizon is None else np.minimum(times, self.config.horizon)

    def sample(
        self,
        nodes: Sequence[int] | NDArray[Any],
        times: Sequence[int] | NDArray[Any],
        keys: NDArray[np.uint64] | None = None,
        threads: int = 1,
    ) -> Sample:
        """Sample the neighbourhood of each (node, time).

        Args:
            nodes: (B,) seed nodes.
            times: (B,) seed times in seconds since 1970.
            keys: (B,) identities of the entities (`seeds.entity_keys`), for random orders that do
                not change when the database is cut; by default the row number within its table.
            threads: How many threads may share the seeds, each at least 1,024; the result does not
                depend on it.
        """
        seeds, moments = np.asarray(nodes, np.int64), np.asarray(times, np.int64)
        self._check(seeds, moments)
        order_keys = self._order_keys(seeds, moments, keys)
        everything = SeedArrays(seeds, self.limits(moments), self.references(moments), order_keys)
        # fewer seeds are sampled sooner than a thread starts and its part is copied
        shares = max(1, min(threads, len(seeds) // CHUNK))
        if shares == 1:
            return concatenate(self._part(everything))
        ends = np.linspace(0, len(seeds), shares + 1).astype(np.int64)
        parts = [_take(everything, slice(a, b)) for a, b in pairwise(ends)]
        with ThreadPoolExecutor(shares) as pool:
            return concatenate(list(chain.from_iterable(pool.map(self._part, parts))))

    def _order_keys(
        self, seeds: NDArray[np.int64], times: NDArray[np.int64], keys: NDArray[np.uint64] | None
    ) -> NDArray[np.uint64]:
        """(B,) the start of each seed's random orders, from (run seed, entity, seed time); 0 where
        nothing is random."""
        if self.config.order == "recent" and self.config.strategy != "random":
            return np.zeros(len(seeds), np.uint64)
        if keys is None:
            keys = (seeds - self.graph.offsets[self.graph.node_table(seeds)]).astype(np.uint64)
        run_key = splitmix64(np.full(1, self.config.seed, np.uint64))
        return splitmix64(splitmix64(keys ^ run_key) ^ times.astype(np.uint64))

    def _check(self, seeds: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        if seeds.shape != times.shape or seeds.ndim != 1:
            raise GelgtError(
                "bad_seeds",
                f"Expected one seed time for each seed node, got nodes of shape {seeds.shape} and "
                f"times of shape {times.shape}.",
                hint="Give one time for each seed.",
            )
        if len(seeds) and (seeds.min() < 0 or seeds.max() >= self.graph.num_nodes):
            raise GelgtError(
                "bad_seeds",
                f"Seed nodes must lie in 0…{self.graph.num_nodes - 1:,}, got "
                f"{seeds.min():,}…{seeds.max():,}.",
                hint="Use graph.nodes(table, rows).",
            )
        row_times = self.graph.node_time[seeds]
        late = np.flatnonzero((row_times > times) & (row_times != TIMELESS))
        if len(late):
            table = self.graph.tables[int(self.graph.node_table(seeds[late[:1]])[0])]
            rows = (seeds[late] - self.graph.offsets[self.graph.node_table(seeds[late])]).tolist()
            is_undated = row_times[late[0]] == NEVER
            why = "have no time" if is_undated else "do not exist yet at their seed time"
            raise GelgtError(
                "seed_from_the_future",
                f"{len(late):,} seeds of '{table}' {why}: rows {some(rows)}.",
                hint="Ask for a later time.",
            )

    def _part(self, seeds: SeedArrays) -> list[Sample]:
        """One thread's share."""
        if self.config.strategy == "full":
            return self._full(seeds)
        return list(self._chunks(seeds, self.config.budget))

    def _full(self, seeds: SeedArrays) -> list[Sample]:
        """Everything within reach: seeds that a budget cuts are sampled again with a larger one."""
        done: list[Sample | None] = [None] * len(seeds.node)
        remaining, budget = np.arange(len(seeds.node)), 1024
        while len(remaining):
            if budget > FULL_LIMIT:
                raise GelgtError(
                    "too_many_neighbours",
                    f"A subgraph has more than {FULL_LIMIT:,} rows.",
                    hint="Use fewer hops or the strategy bfs.",
                )
            sample = concatenate(list(self._chunks(_take(seeds, remaining), budget)))
            if len(remaining) == len(seeds.node) and not sample.is_cut.any():
                return [sample]
            for position in np.flatnonzero(~sample.is_cut):
                done[int(remaining[position])] = subgraph(sample, int(position))
            remaining, budget = remaining[sample.is_cut], budget * 8
        return [part for part in done if part is not None]

    def _chunks(self, seeds: SeedArrays, budget: int) -> Iterator[Sample]:
        """Samples of at most `CHUNK` seeds each."""
        from gelgt.sampling.kernels import sample_seeds

        options, pool = self._options(budget)
        # Room is asked for the worst case; most of what is not written to takes no memory.
        seed_bytes = pool * ROW_BYTES + options.budget * self._most_keys * EDGE_BYTES
        chunk = max(1, min(len(seeds.node), CHUNK, CHUNK_BYTES // seed_bytes))
        scratch, stamp = self._scratch(pool), 0
        for start in range(0, len(seeds.node), chunk):
            part = _take(seeds, slice(start, start + chunk))
            if stamp + 2 * chunk >= MAX_STAMP:
                scratch.entries[:], stamp = 0, 0
            rows = options.budget * len(part.node) + pool
            sample = allocate(len(part.node), rows, self._most_keys * rows)
            sample.limit[:] = part.limit
            stamp = sample_seeds(self._arrays, part, options, sample, scratch, stamp)
            yield trim(sample)

    def _options(self, budget: int) -> tuple[Options, int]:
        """What the kernel is asked for, and the rows that one search may collect."""
        config = self.config
        strategy = {"random": RANDOM, "recent": RECENT}.get(config.strategy, BFS)
        # A drawn sample comes from a larger neighbourhood; a graph has no more rows than it has.
        pool = max(1, min(budget * (POOL if strategy == RANDOM else 1), self.graph.num_nodes))
        options = Options(
            strategy,
            budget=min(budget, pool),
            reach=min(pool, budget - budget // 2 if strategy == RECENT else pool),
            hops=config.hops,
            fanout=config.fanout or np.iinfo(np.int64).max,
            is_shuffled=config.order == "random" or strategy == RANDOM,
        )
        return options, pool

    def _scratch(self, pool: int) -> Scratch:
        slots = 1 << int(2 * pool - 1).bit_length()
        return Scratch(
            newest=np.empty(len(self.graph.tables), np.int64),
            blocks=np.empty(AHEAD + 1, np.int64),
            is_drawn=np.empty(pool, np.bool_),
            entries=np.zeros(slots, np.int64),
            positions=np.empty(slots, np.int32),
        )


def _take(seeds: SeedArrays, places: slice | NDArray[np.int64]) -> SeedArrays:
    node, limit, reference, key = seeds
    return SeedArrays(node[places], limit[places], reference[places], key[places])
