"""`Sampler`: causal subgraphs around (entity, time) seeds, while training. There is no cache that
could go stale.

    sampler = Sampler(graph, SamplingConfig(budget=300))
    sample = sampler.sample(graph.nodes("drivers", rows), seed_times)     # packed arrays

Time: a row is admitted if its time lies before the seed's limit, which is the seed time (one second
later under `inclusive`), and under `frozen` not after the horizon. Rows without a time in a timed
table are never admitted, rows of timeless tables always.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.errors import GelgtError, some
from gelgt.graph import NEVER, TIMELESS, Graph

CHUNK = 1024  # seeds that one call of the kernel samples
ROOM = 24 << 20  # most bytes that a chunk may write to
POOL = 8  # `random` draws from at most so many times the budget
FULL_LIMIT = 4_000_000  # rows of one subgraph beyond which `full` gives up


@dataclass(frozen=True)
class Sample:
    """Subgraphs of B seeds behind each other: T rows, E edges. Seed b is row `offsets[b]`.

    Attributes:
        offsets: (B + 1,) first row of each subgraph.
        node: (T,) node numbers.
        hop: (T,) distance from the seed; `hops + 1` for rows that only time links (`recent`).
        table: (T,) table numbers.
        age: (T,) float32 days before the reference time; 0 where there is no time.
        has_time: (T,) whether the age means something; always for a seed.
        edge_offsets: (B + 1,) first edge of each subgraph.
        edge_source: (E,) rows that hold a foreign key, as places in `node`.
        edge_target: (E,) the rows it refers to.
        edge_relation: (E,) relation ids.
        is_cut: (B,) whether the budget left rows out.
    """

    offsets: NDArray[np.int64]
    node: NDArray[np.int64]
    hop: NDArray[np.int8]
    table: NDArray[np.int16]
    age: NDArray[np.float32]
    has_time: NDArray[np.bool_]
    edge_offsets: NDArray[np.int64]
    edge_source: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    edge_relation: NDArray[np.int16]
    is_cut: NDArray[np.bool_]


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
        self._arrays = (
            graph.indptr,
            graph.indices,
            graph.list_time,
            graph.node_time,
            graph.parents,
        )
        relation_start = np.concatenate([[0], np.cumsum(graph.num_keys)[:-1]]).astype(np.int64)
        referred = {r.parent for r in graph.relations}
        has_children = np.array([t in referred for t in graph.tables], np.bool_)
        children = [[r.child for r in graph.relations if r.parent == t] for t in graph.tables]
        # and nothing else, nor twice
        has_leaves = np.array(
            [referred.isdisjoint(c) and len(set(c)) == len(c) for c in children], np.bool_
        )
        timeless = {
            t
            for i, t in enumerate(graph.tables)
            if graph.offsets[i] < graph.offsets[i + 1]
            and graph.node_time[graph.offsets[i]] == TIMELESS
        }
        # of each relation's parents
        is_timeless = np.array([r.parent in timeless for r in graph.relations], np.bool_)
        self._layout = (
            graph.offsets,
            graph.parent_start,
            graph.num_keys,
            relation_start,
            has_children,
            has_leaves,
            is_timeless,
            table_guide(graph.offsets),
        )
        self._most_keys = max(1, int(graph.num_keys.max(initial=0)))

    def limits(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each seed time, the first second whose rows are not admitted."""
        # Once times have fractions, rows of the seed's own second, or of the horizon's, may lie
        # after it: they are not admitted.
        whole, horizon = self.graph.first_fraction, self.config.horizon
        limits = times + ((self.config.causality == "inclusive") & (times < whole))
        return (
            np.minimum(limits, horizon + (horizon < whole))
            if self.config.visibility == "frozen" and horizon is not None
            else limits
        )

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
        keyed = self._keyed(seeds, moments, keys)
        # fewer seeds are sampled sooner than a thread starts and its part is copied
        shares = max(1, min(threads, len(seeds) // CHUNK))
        if shares == 1:
            return join(self._part(seeds, moments, keyed))
        parts = [
            slice(a, b)
            for a, b in pairwise(np.linspace(0, len(seeds), shares + 1).astype(np.int64))
        ]
        with ThreadPoolExecutor(shares) as pool:
            return join(
                list(
                    chain.from_iterable(
                        pool.map(lambda p: self._part(seeds[p], moments[p], keyed[p]), parts)
                    )
                )
            )

    def _keyed(
        self, seeds: NDArray[np.int64], times: NDArray[np.int64], keys: NDArray[np.uint64] | None
    ) -> NDArray[np.uint64]:
        """The starts of the seeds' random orders, where there are any."""
        if self.config.order == "recent" and self.config.strategy != "random":
            return np.zeros(len(seeds), np.uint64)
        if keys is None:
            keys = (seeds - self.graph.offsets[self.graph.node_table(seeds)]).astype(np.uint64)
        return _seed_keys(keys, times, self.config.seed)

    def _check(self, seeds: NDArray[np.int64], times: NDArray[np.int64]) -> None:
        if seeds.shape != times.shape or seeds.ndim != 1:
            raise GelgtError(
                "bad_seeds",
                f"{seeds.shape} seed nodes have {times.shape} seed times.",
                hint="Give one time for each seed.",
            )
        if len(seeds) and (seeds.min() < 0 or seeds.max() >= self.graph.num_nodes):
            raise GelgtError(
                "bad_seeds",
                f"Seed nodes must lie in 0…{self.graph.num_nodes - 1:,}.",
                hint="Use graph.nodes(table, rows).",
            )
        own = self.graph.node_time[seeds]
        late = np.flatnonzero((own > times) & (own != TIMELESS))
        if len(late):
            table = self.graph.tables[int(self.graph.node_table(seeds[late[:1]])[0])]
            rows = (seeds[late] - self.graph.offsets[self.graph.node_table(seeds[late])]).tolist()
            why = "have no time" if own[late[0]] == NEVER else "do not exist yet at their seed time"
            raise GelgtError(
                "seed_from_the_future",
                f"{len(late):,} seeds of '{table}' {why}: rows {some(rows)}.",
                hint="Ask for a later time.",
            )

    def _part(
        self, seeds: NDArray[np.int64], times: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> list[Sample]:
        """One thread's share, a chunk of scratch at a time."""
        if self.config.strategy == "full":
            return self._full(seeds, times, keys)
        return self._chunks(seeds, times, keys, self.config.budget)

    def _full(
        self, seeds: NDArray[np.int64], times: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> list[Sample]:
        """Everything within reach: seeds that a budget cuts are sampled again with a larger one."""
        done: list[Sample | None] = [None] * len(seeds)
        open_, budget = np.arange(len(seeds)), 1024
        while len(open_):
            if budget > FULL_LIMIT:
                raise GelgtError(
                    "too_many_neighbours",
                    f"A subgraph has more than {FULL_LIMIT:,} rows.",
                    hint="Use fewer hops or the strategy bfs.",
                )
            found = join(self._chunks(seeds[open_], times[open_], keys[open_], budget))
            if len(open_) == len(seeds) and not found.is_cut.any():
                return [found]
            for place in np.flatnonzero(~found.is_cut):
                done[int(open_[place])] = take(found, int(place))
            open_, budget = open_[found.is_cut], budget * 8
        return [part for part in done if part is not None]

    def _chunks(
        self,
        seeds: NDArray[np.int64],
        times: NDArray[np.int64],
        keys: NDArray[np.uint64],
        budget: int,
    ) -> list[Sample]:
        from gelgt.sampling.kernels import AHEAD, BFS, MAX_STAMP, RANDOM, RECENT, sample_seeds

        config = self.config
        strategy = {"random": RANDOM, "recent": RECENT}.get(config.strategy, BFS)
        # A drawn sample comes from a larger neighbourhood; a graph has no more rows than it has.
        pool = max(1, min(budget * (POOL if strategy == RANDOM else 1), self.graph.num_nodes))
        part = min(pool, budget - budget // 2 if strategy == RECENT else pool)
        budget = min(budget, pool)
        # Room is asked for the worst case; most of what is not written to takes no memory.
        chunk = max(
            1,
            min(
                len(seeds),
                CHUNK,
                ROOM // (pool * _ROW_BYTES + budget * self._most_keys * _EDGE_BYTES),
            ),
        )
        slots = 1 << int(2 * pool - 1).bit_length()
        entries, places = np.zeros(slots, np.int64), np.empty(slots, np.int32)
        scratch = (
            np.empty(len(self.graph.tables), np.int64),
            np.empty(AHEAD + 1, np.int64),
            np.empty(pool, np.bool_),
            entries,
            places,
        )
        limits, references = self.limits(times), self.references(times)
        stamp, parts = 0, []
        for start in range(0, len(seeds), chunk):
            here = slice(start, min(start + chunk, len(seeds)))
            if stamp + 2 * chunk >= MAX_STAMP:
                entries[:], stamp = 0, 0
            room = _Room(
                here.stop - start,
                budget * (here.stop - start) + pool,
                self._most_keys * (budget * (here.stop - start) + pool),
            )
            chosen = (
                seeds[here],
                limits[here],
                references[here],
                keys[here],
                strategy,
                budget,
                part,
                config.hops,
                config.fanout or np.iinfo(np.int64).max,
                config.order == "random",
            )
            written = (*room.rows, *room.edges, room.ends[1:], room.edge_ends[1:], room.cut)
            arguments: tuple[Any, ...] = (
                *self._arrays,
                *self._layout,
                *chosen,
                *written,
                *scratch,
                stamp,
            )
            stamp = sample_seeds(*arguments)
            parts.append(room.sample())
        return parts


_ROW_TYPES = (np.int64, np.int8, np.int16, np.float32, np.bool_)  # node, hop, table, age, has_time
_EDGE_TYPES = (np.int32, np.int32, np.int16)  # source, target, relation
_ROW_BYTES, _EDGE_BYTES = (
    sum(np.dtype(t).itemsize for t in types) for types in (_ROW_TYPES, _EDGE_TYPES)
)


class _Room:
    """Arrays that seeds are written to, with room for the worst case.

    They share one block: given back as one, it is kept by the allocator for the next batch, whose
    pages are then there already.
    """

    def __init__(self, seeds: int, rows: int, edges: int) -> None:
        sizes = [(rows, dtype) for dtype in _ROW_TYPES] + [(edges, dtype) for dtype in _EDGE_TYPES]
        starts = np.cumsum(
            [0, *(-(-n * np.dtype(dtype).itemsize // 64) * 64 for n, dtype in sizes)]
        ).tolist()
        block = np.empty(starts[-1], np.uint8)
        arrays: list[NDArray[Any]] = [
            np.frombuffer(block, dtype, n, at) for (n, dtype), at in zip(sizes, starts)
        ]
        self.rows, self.edges = arrays[: len(_ROW_TYPES)], arrays[len(_ROW_TYPES) :]
        self.ends, self.edge_ends = np.zeros(seeds + 1, np.int64), np.zeros(seeds + 1, np.int64)
        self.cut = np.empty(seeds, np.bool_)

    def sample(self) -> Sample:
        rows, edges = int(self.ends[-1]), int(self.edge_ends[-1])
        node, hop, table, age, has_time = (array[:rows] for array in self.rows)
        source, target, relation = (array[:edges] for array in self.edges)
        return Sample(
            self.ends,
            node,
            hop,
            table,
            age,
            has_time,
            self.edge_ends,
            source,
            target,
            relation,
            self.cut,
        )


def table_guide(offsets: NDArray[np.int64], stretches: int = 4096) -> NDArray[np.int16]:
    """Where to start looking for a node's table: the table of the first node of each stretch of
    2^shift nodes, and last the shift."""
    shift = max(0, int(offsets[-1]).bit_length() - stretches.bit_length() + 1)
    firsts = np.arange(0, max(int(offsets[-1]), 1), 1 << shift)
    return np.append(np.searchsorted(offsets[1:-1], firsts, side="right"), shift).astype(np.int16)


def _seed_keys(keys: NDArray[np.uint64], times: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """One 64-bit key for each (run seed, entity, seed time): the start of its random orders."""
    with np.errstate(over="ignore"):
        return _mix(_mix(keys ^ _mix(np.full(1, seed, np.uint64))) ^ times.astype(np.uint64))


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finaliser, as in the kernels."""
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def take(sample: Sample, b: int) -> Sample:
    """One subgraph of a sample."""
    t, e = slice(*sample.offsets[b : b + 2]), slice(*sample.edge_offsets[b : b + 2])
    first = sample.offsets[b]
    return Sample(
        sample.offsets[b : b + 2] - first, sample.node[t], sample.hop[t], sample.table[t], sample.age[t], sample.has_time[t],
        sample.edge_offsets[b : b + 2] - sample.edge_offsets[b], sample.edge_source[e] - first, sample.edge_target[e] - first,
        sample.edge_relation[e], sample.is_cut[b : b + 1],
    )  # fmt: skip


def join(parts: Sequence[Sample]) -> Sample:
    """Samples behind each other."""
    if len(parts) == 1:
        return parts[0]
    counts = np.array(
        [(len(p.is_cut), len(p.node), len(p.edge_source)) for p in parts], np.int64
    ).reshape(-1, 3)
    before = np.cumsum(counts, axis=0) - counts  # seeds, rows and edges of the earlier parts
    room = _Room(*counts.sum(axis=0).tolist())
    names = (
        "node",
        "hop",
        "table",
        "age",
        "has_time",
        "edge_source",
        "edge_target",
        "edge_relation",
        "is_cut",
    )
    for to, name in zip((*room.rows, *room.edges, room.cut) if parts else (), names):
        np.concatenate([getattr(p, name) for p in parts], out=to)
    shift = np.repeat(before[:, 1].astype(np.int32), counts[:, 2])
    for to in room.edges[:2]:
        to += shift
    for ends, name, first in (
        (room.ends, "offsets", before[:, 1]),
        (room.edge_ends, "edge_offsets", before[:, 2]),
    ):
        ends[1:] = np.concatenate(
            [np.zeros(0, np.int64), *(getattr(p, name)[1:] for p in parts)]
        ) + np.repeat(first, counts[:, 0])
    return room.sample()
