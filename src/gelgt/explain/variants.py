"""`Variants`: one seed as it would be predicted without some of its rows, or with other values in
some columns.

A variant says of each unit of the neighbourhood whether it is absent, itself, or a stand-in. An
absent row leaves the subgraph, with what only it links to the seed, and refinement runs again; it
leaves the history columns, which are computed again without it. All variants of a question go
through the model as one list of batches; each distinct one once.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.explain.asked import Asked
from gelgt.explain.clock import Clock
from gelgt.explain.history import VariantHistory, surveyed
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.stand_ins import ITSELF, STAND_IN, StandIns
from gelgt.nn import ModelInput
from gelgt.nn.rows import RowFrames
from gelgt.sampling import Seeds
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.parts import NETWORK
from gelgt.scoring.scorer import Scorer
from gelgt.scoring.variants import VARIANTS, Shown

Floats = NDArray[np.float64]
States = NDArray[np.int64]  # (V, U)


def neighbourhood(scorer: Scorer, seed: Seeds) -> Neighbourhood:
    """The rows that the prediction of one seed rests on."""
    data = scorer.data
    sample = data.sampler.sample(seed.node, seed.time, seed.key)
    hood = Neighbourhood(data.graph, seed, sample, data.sampling.hops)
    if not data.plan.hops:
        return hood
    return surveyed(data, hood)


@dataclass(frozen=True)
class Outputs:
    """What the model says of V variants.

    Attributes:
        table: (V, 1 + P) predictions, and what each part adds to the raw output.
        names: Of the P parts.
    """

    table: Floats
    names: tuple[str, ...]

    @property
    def values(self) -> Floats:
        """(V,) predictions."""
        return self.table[:, 0]

    @property
    def parts(self) -> dict[str, Floats]:
        """(V,) what each part adds, by its name."""
        return {name: self.table[:, 1 + place] for place, name in enumerate(self.names)}


@dataclass(frozen=True)
class _Reached:
    """The sampled rows that V variants still reach, variant after variant: (T,) rows, distances and
    states, and (V + 1,) where each variant begins."""

    rows: States
    depth: States
    seen: States
    offsets: States

    def take(self, chosen: NDArray[np.int64]) -> "_Reached":
        """Some of the variants."""
        lengths = self.offsets[chosen + 1] - self.offsets[chosen]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(ends[-1]) + np.repeat(self.offsets[chosen] - ends[:-1], lengths)
        return _Reached(self.rows[at], self.depth[at], self.seen[at], ends)


class Variants:
    """Predicts variants of one seed.

    Args:
        scorer: The model.
        hood: The rows around the seed.
        clock: Is told where the time goes.

    Attributes:
        output: The class whose probability is explained, where there are several.
        asked: Variants that were predicted so far.
    """

    def __init__(self, scorer: Scorer, hood: Neighbourhood, clock: Clock | None = None) -> None:
        self.scorer, self.data, self.hood = scorer, scorer.data, hood
        self.clock = clock or Clock()
        self.limit = int(self.data.sampler.limits(hood.seed.time)[0])
        self.stand_ins = StandIns(scorer.data.features, self.limit)
        self.history = VariantHistory(scorer.data, hood, self.stand_ins)
        self.output, self.asked = 0, 0
        self._states = Asked()  # numbers rows of `_known`
        self._known, self._names = np.zeros((0, 1)), tuple[str, ...]()

    @property
    def full(self) -> States:
        """(U,) everything as it is."""
        return np.full(self.hood.num_units, ITSELF, np.int64)

    def predict(self, states: States) -> Floats:
        """(V, U) → (V,) predictions."""
        return self.outputs(states).values

    def outputs(self, states: States) -> Outputs:
        """(V, U) → predictions and what each part adds."""
        places, new = self._states.places(states)
        if len(new):
            table = self._run(states[new])
            self._known = np.concatenate([self._known, table]) if len(self._known) else table
        return Outputs(self._known[places], self._names)

    def _run(self, states: States) -> Floats:
        """(V, 1 + P) as `Outputs.table`. What the networks say of the subgraphs and what the other
        parts say of the history columns is asked once for each distinct one; where a device answers
        the former, the latter are computed meanwhile."""
        reached, history = self._reach(states), None
        if self.scorer.reads_history:
            history = self._columns(states)
        first, of_graph = _distinct(reached, history)
        with self.clock("model"):
            own = None if history is None else torch.from_numpy(history[first])
            network = self._started(reached.take(first), own)
        history = self._columns(states) if history is None else history
        with self.clock("model"):
            parts, of_history = dict[str, Tensor](), of_graph
            if history is not None:
                some, of_history = _distinct(None, history)
                columns = self._histories(torch.from_numpy(history[some]))
                parts = {name: raw[of_history] for name, raw in columns.items()}
            parts = self.scorer.mixed({NETWORK: network()[of_graph], **parts})
        self.asked += len(np.unique(of_graph * len(states) + of_history))
        self._names = tuple(parts)
        raw = torch.stack(list(parts.values()))  # (P, V, outputs)
        decoded = self.data.target.values(raw.sum(0))  # a rounded one would hide small effects
        values = decoded if decoded.ndim == 1 else decoded[:, self.output]
        return np.column_stack([values, raw[:, :, self.output].double().numpy().T])

    def _columns(self, states: States) -> NDArray[np.float32] | None:
        with self.clock("history columns"):
            return self.history.columns(states)

    def _reach(self, states: States) -> _Reached:
        from gelgt.explain.kernels import reach

        hood = self.hood
        starts, others, _ = hood.lists
        states = np.ascontiguousarray(states)
        hop = hood.sample.hop.astype(np.int64)
        found = _Reached(*reach(starts, others, states, hood.is_loose, hop, hood.hops))
        if hood.is_searched:
            return found
        which = np.repeat(np.arange(len(states)), np.diff(found.offsets))
        order = np.lexsort((found.rows, found.depth, which))
        return _Reached(found.rows[order], found.depth[order], found.seen[order], found.offsets)

    def _started(self, reached: _Reached, history: Tensor | None) -> Callable[[], Tensor]:
        """Start what the networks say of some variants; the result waits for it."""
        count, futures = len(reached.offsets) - 1, list[Future[Tensor]]()
        if not self.scorer.is_heard:
            return lambda: torch.zeros(count, self.data.target.outputs)
        recorded = self.scorer.recorded_variants(count)
        for start in range(0, count if recorded is not None else 0, VARIANTS):
            assert recorded is not None
            chosen = np.arange(start, min(start + VARIANTS, count))
            part = reached if len(chosen) == count else reached.take(chosen)
            own = None if history is None else history[start : start + VARIANTS]
            shown = Shown(part.seen - STAND_IN, self.stand_ins.all)
            future = recorded.start(self._batch(part), shown, own)
            if future is None:
                recorded = None
                break
            futures.append(future)
        if recorded is not None:
            return lambda: torch.cat([future.result() for future in futures])
        return lambda: self.scorer.score_subgraphs(self._batches(reached, history))

    def _histories(self, history: Tensor) -> dict[str, Tensor]:
        recorded = self.scorer.recorded_variants(0)
        if recorded is None:
            return self.scorer.score_histories(history)
        return recorded.histories(history)

    def attention(self) -> Floats:
        """(U,) shares of the first network's attention; 0 for what it does not see."""
        shares, batch = np.zeros(self.hood.num_units), self._batch(self._reach(self.full[None]))
        recorded = self.scorer.recorded_variants(0)
        if recorded is not None:
            rows, weights = recorded.attention(batch)
            nodes = batch.node.numpy()[rows]
        else:
            tokens, seen = self.scorer.attention_of(self.data.with_features(batch))
            nodes, weights = tokens.node.cpu().numpy(), seen.double().cpu().numpy()
        shares[self.hood.units("", nodes)] = weights
        return shares

    def _batches(self, reached: _Reached, history: Tensor | None) -> Iterator[ModelInput]:
        places, frames = self._frames()
        base, of_row = self._base_rows
        count, size = len(reached.offsets) - 1, self.scorer.batch_size
        for start in range(0, count, size):
            mine = np.arange(start, min(start + size, count))
            part = reached.take(mine)
            inverse = np.where(
                part.seen >= STAND_IN, len(base) + part.seen - STAND_IN, of_row[part.rows]
            )
            rows = RowFrames(torch.from_numpy(inverse), places, frames)
            own = None if history is None else history[start : start + size]
            yield ModelInput(self._batch(part), rows, own)

    def _batch(self, reached: _Reached) -> SubgraphBatch:
        from gelgt.explain.kernels import link

        sample, seed, count = self.hood.sample, self.hood.seed, len(reached.offsets) - 1
        rows, tensor = reached.rows, torch.from_numpy
        edges, relations = link(rows, reached.offsets, *self.hood.keys)
        return SubgraphBatch(
            layout="packed",
            node=tensor(sample.node[rows]),
            hop=tensor(reached.depth),
            table=tensor(sample.table[rows].astype(np.int64)),
            age=tensor(sample.age[rows]),
            has_time=tensor(sample.has_time[rows]),
            offsets=tensor(reached.offsets),
            edge_index=tensor(np.ascontiguousarray(edges)),
            edge_relation=tensor(np.ascontiguousarray(relations)),
            seed_time=tensor(seed.time.repeat(count)),
            seed_key=tensor(seed.key.view(np.int64).repeat(count)),
            limit=torch.full((count,), self.limit),
            index=torch.arange(count),
            mask=None,
            graph=self.hood.graph,
        )

    @cached_property
    def _base_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct nodes of the sample, and which of them each row is."""
        distinct, inverse = np.unique(self.hood.sample.node, return_inverse=True)
        return distinct, inverse.astype(np.int64)

    def _frames(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The features of the sampled rows and of all stand-ins, by table, and their places."""
        nodes, graph = self._base_rows[0], self.hood.graph
        borders = np.searchsorted(nodes, graph.offsets)
        places, frames = {}, {}
        for number, name in enumerate(graph.tables):
            begin, end = int(borders[number]), int(borders[number + 1])
            own = self.stand_ins.of_table(name)
            if begin == end and not own.rows:
                continue
            hidden = self.data.hide.get(name, ())
            rows = nodes[begin:end] - graph.offsets[number]
            frames[name] = self.stand_ins.frame(name, rows, hidden)
            behind = [len(nodes) + place for place in own.numbers]
            places[name] = torch.tensor([*range(begin, end), *behind], dtype=torch.int64)
        return places, frames


def _distinct(
    reached: _Reached | None, history: NDArray[np.float32] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A variant of each kind that differs in its rows, in its history columns, or in either where
    both are given, and of which kind each variant is."""
    from gelgt.explain.kernels import fingerprints, place_keys

    none = np.zeros(0, np.int64)
    if reached is None:
        assert history is not None
        reached = _Reached(none, none, none, np.zeros(len(history) + 1, np.int64))
    words = np.zeros((len(reached.offsets) - 1, 0), np.int32)
    if history is not None:
        words = history.view(np.int32)
    prints = fingerprints(reached.rows, reached.seen, reached.offsets, words)
    slots = 1 << (4 * len(prints)).bit_length()
    kind, first = place_keys(prints, np.zeros(slots, np.uint64), np.full(slots, -1, np.int64), 0)
    return first, kind
