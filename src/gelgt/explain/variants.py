"""`Variants`: one seed as it would be predicted without some of its rows, or with other values in
some columns.

A variant says of each unit of the neighbourhood whether it is absent, itself, or a stand-in. An
absent row leaves the subgraph, with what only it links to the seed, and refinement runs again; it
leaves the history columns, which are computed again without it. All variants of a question go
through the model as one list of batches; each distinct one once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.explain.lists import Survey, VariantLists
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.stand_ins import ITSELF, STAND_IN, StandInData, StandIns
from gelgt.history.seed_history import seed_history
from gelgt.nn import ModelInput
from gelgt.nn.rows import RowFrames
from gelgt.sampling import Seeds
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.scorer import Scorer

Floats = NDArray[np.float64]
States = NDArray[np.int64]  # (V, U)


def neighbourhood(scorer: Scorer, seed: Seeds) -> Neighbourhood:
    """The rows that the prediction of one seed rests on."""
    data = scorer.data
    sample = data.sampler.sample(seed.node, seed.time, seed.key)
    hood = Neighbourhood(data.graph, seed, sample, data.sampling.hops)
    if not data.plan.hops:
        return hood
    limits, reference = data.sampler.limits(seed.time), data.sampler.references(seed.time)
    survey = Survey(hood, limits, int(reference[0]))
    seed_history(data.task_data, seed, data.plan, survey)
    return Neighbourhood(data.graph, seed, sample, hood.hops, survey.rests())


@dataclass(frozen=True)
class Outputs:
    """What the model says of variants: predictions (V,), and what each part adds to the raw output
    (V,), by its name."""

    values: Floats
    parts: dict[str, Floats]


class Variants:
    """Predicts variants of one seed.

    Args:
        scorer: The model.
        hood: The rows around the seed.

    Attributes:
        output: The class whose probability is explained, where there are several.
        asked: Variants that were predicted so far.
    """

    def __init__(self, scorer: Scorer, hood: Neighbourhood) -> None:
        self.scorer, self.data, self.hood = scorer, scorer.data, hood
        self.stand_ins = StandIns(scorer.data.features)
        self.limit = int(self.data.sampler.limits(hood.seed.time)[0])
        self.output, self.asked = 0, 0
        self._known: dict[bytes, tuple[float, dict[str, float]]] = {}

    @property
    def full(self) -> States:
        """(U,) everything as it is."""
        return np.full(self.hood.num_units, ITSELF, np.int64)

    def predict(self, states: States) -> Floats:
        """(V, U) → (V,) predictions."""
        return self.outputs(states).values

    def outputs(self, states: States) -> Outputs:
        """(V, U) → predictions and what each part adds."""
        keys = [row.tobytes() for row in np.ascontiguousarray(states, np.int64)]
        new = {key: place for place, key in enumerate(keys) if key not in self._known}
        if new:
            values, parts = self._run(states[list(new.values())])
            for place, key in enumerate(new):
                mine = {name: float(raw[place]) for name, raw in parts.items()}
                self._known[key] = float(values[place]), mine
        found = [self._known[key] for key in keys]
        names = found[0][1] if found else {}
        return Outputs(
            np.array([value for value, _ in found]),
            {name: np.array([mine[name] for _, mine in found]) for name in names},
        )

    def _run(self, states: States) -> tuple[Floats, dict[str, Floats]]:
        from gelgt.explain.kernels import reach

        hood = self.hood
        starts, others, _ = hood.lists
        sampled = np.ascontiguousarray(states[:, : hood.num_rows])
        hop = hood.sample.hop.astype(np.int64)
        rows, depth, offsets = reach(starts, others, sampled, hood.is_loose, hop, hood.hops)
        if not hood.is_searched:
            order = np.lexsort((rows, depth, np.repeat(np.arange(len(states)), np.diff(offsets))))
            rows, depth = rows[order], depth[order]
        which = np.repeat(np.arange(len(states)), np.diff(offsets))
        seen = sampled[which, rows]  # (T,) the state of each row
        history = self._history(states)
        first, inverse = self._distinct(rows, seen, offsets, history)
        self.asked += len(first)
        batches = self._batches(first, rows, depth, seen, offsets, history)
        parts = self.scorer.mixed(self.scorer.score_inputs(batches))
        raw = torch.stack(list(parts.values())).sum(0)
        decoded = self.data.target.decode(raw)
        values = decoded if decoded.ndim == 1 else decoded[:, self.output]
        each = {name: out[:, self.output].double().numpy()[inverse] for name, out in parts.items()}
        return values[inverse], each

    def _history(self, states: States) -> Tensor | None:
        if not self.data.plan:
            return None
        seeds = self.hood.seed.take(np.zeros(len(states), np.int64))
        lists = VariantLists(self.hood, states, self.limit, self.stand_ins)
        base = self.data.task_data
        data = StandInData(
            base.db, base.graph, base.features, base.task, base.sampling, self.stand_ins
        )
        return seed_history(data, seeds, self.data.plan, lists)

    @staticmethod
    def _distinct(
        rows: States, seen: States, offsets: States, history: Tensor | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The variants that a model can tell apart, and which of them each variant is."""
        places: dict[bytes, int] = {}
        first: list[int] = []
        inverse: list[int] = []
        columns = None if history is None else history.numpy()
        for v in range(len(offsets) - 1):
            part = slice(offsets[v], offsets[v + 1])
            key = rows[part].tobytes() + seen[part].tobytes()
            key += b"" if columns is None else columns[v].tobytes()
            if key not in places:
                places[key] = len(first)
                first.append(v)
            inverse.append(places[key])
        return np.array(first, np.int64), np.array(inverse, np.int64)

    def _batches(
        self,
        chosen: NDArray[np.int64],
        rows: States,
        depth: States,
        seen: States,
        offsets: States,
        history: Tensor | None,
    ) -> Iterator[ModelInput]:
        from gelgt.explain.kernels import link

        places, frames = self._frames()
        for start in range(0, len(chosen), self.scorer.batch_size):
            mine = chosen[start : start + self.scorer.batch_size]
            lengths = offsets[mine + 1] - offsets[mine]
            ends = np.concatenate([[0], np.cumsum(lengths)])
            take = np.concatenate([np.arange(offsets[v], offsets[v + 1]) for v in mine])
            edges, relations = link(rows[take], ends, *self.hood.keys)
            batch = self._batch(rows[take], depth[take], ends, edges, relations)
            states = seen[take]
            inverse = np.where(
                states >= STAND_IN,
                len(self._base_rows[0]) + states - STAND_IN,
                self._base_rows[1][rows[take]],
            )
            frames_here = RowFrames(torch.from_numpy(inverse), places, frames)
            own = None if history is None else history[torch.from_numpy(mine)]
            yield ModelInput(batch, frames_here, own)

    def _batch(
        self, rows: States, depth: States, ends: States, edges: States, relations: States
    ) -> SubgraphBatch:
        sample, seed, count = self.hood.sample, self.hood.seed, len(ends) - 1
        tensor = torch.from_numpy
        return SubgraphBatch(
            layout="packed",
            node=tensor(sample.node[rows]),
            hop=tensor(depth),
            table=tensor(sample.table[rows].astype(np.int64)),
            age=tensor(sample.age[rows]),
            has_time=tensor(sample.has_time[rows]),
            offsets=tensor(ends),
            edge_index=tensor(np.ascontiguousarray(edges)),
            edge_relation=tensor(np.ascontiguousarray(relations)),
            seed_time=tensor(seed.time.repeat(count)),
            seed_key=tensor(seed.key.view(np.int64).repeat(count)),
            index=torch.arange(count),
            mask=None,
            graph=self.hood.graph,
        )

    @cached_property
    def _base_rows(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The distinct nodes of the sample, and which of them each row is."""
        distinct, inverse = np.unique(self.hood.sample.node, return_inverse=True)
        return distinct, inverse.astype(np.int64)

    def _frames(self) -> tuple[dict[str, Tensor], dict[str, "object"]]:
        """The features of the sampled rows and of all stand-ins, by table, and their places."""
        nodes, graph = self._base_rows[0], self.hood.graph
        borders = np.searchsorted(nodes, graph.offsets)
        places, frames = {}, {}
        for number, name in enumerate(graph.tables):
            begin, end = int(borders[number]), int(borders[number + 1])
            own = self.stand_ins.of_table(name)
            if begin == end and not own:
                continue
            hidden = self.data.hide.get(name, ())
            rows = nodes[begin:end] - graph.offsets[number]
            frames[name] = self.stand_ins.frame(name, rows, hidden)
            behind = [len(nodes) + place for place, _ in own]
            places[name] = torch.tensor([*range(begin, end), *behind], dtype=torch.int64)
        return places, frames
