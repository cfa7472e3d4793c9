"""`RecommendScorer`: the best destinations of seeds, exactly, in bounded memory.

Destinations are scored in chunks, and of each chunk the best are kept. Rows that do not exist at
the seed time are never among them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.graph import TIMELESS
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.recommender import PairInput, Recommender
from gelgt.sampling import Seeds
from gelgt.scoring.destinations import Destinations
from gelgt.scoring.parts import NETWORK, Parts
from gelgt.scoring.scorer import Scorer
from gelgt.tasks.build import DEFAULT_K

SEEDS = 128  # at a time
ROWS = 65_536  # destinations at a time
ENCODED = 8_192  # destinations whose columns are encoded at a time


@dataclass(frozen=True)
class Ranked:
    """The best k destinations of S seeds.

    Attributes:
        row: (S, k) rows, the best first; -1 where there are fewer.
        score: (S, k) their scores; -inf there.
    """

    row: NDArray[np.int64]
    score: NDArray[np.float32]


@dataclass(frozen=True)
class Wish:
    """What may be recommended.

    Attributes:
        k: How many.
        allowed: Rows that may be; None for all.
        new_only: Leave out what the entity has had.
    """

    k: int
    allowed: NDArray[np.int64] | None = None
    new_only: bool = False


class RecommendScorer:
    """Ranks destinations by the mean score of an ensemble's networks.

    Args:
        model: One network or several, each with a recommender.
        destinations: What they score.
        device: Where the networks are.
        precision: Of the networks over subgraphs; see `Scorer`.
        batch_size: Likewise.
    """

    def __init__(
        self,
        model: RelationalModel | Ensemble,
        destinations: Destinations,
        device: torch.device | str = "cpu",
        *,
        precision: str = "auto",
        batch_size: int | None = None,
    ) -> None:
        self.model, self.device = Ensemble.of(model), torch.device(device)
        self.destinations, self.data = destinations, destinations.data
        self.networks = self.model.networks
        self.recommenders = [n.recommender for n in self.networks if n.recommender is not None]
        self.scorers = [
            Scorer(network, self.data, device, precision=precision, batch_size=batch_size)
            for network in self.networks
        ]

    def predict(self, seeds: Seeds) -> Parts:
        """(S, k) the best rows of seeds, in their order, k being the task's; -1 for entities that
        do not exist yet at their seed time."""
        k = self.data.task.eval_k or DEFAULT_K
        there = np.flatnonzero(self.data.exists(seeds))
        out = np.full((len(seeds), k), -1, np.int64)
        out[there] = self.rank(seeds.take(there), Wish(k)).row
        return Parts(out, {NETWORK: out})

    def vectors(self, seeds: Seeds) -> Tensor:
        """(S, d) seed vectors of the first network."""
        return self.scorers[0].vectors(seeds)

    def rank(self, seeds: Seeds, wish: Wish) -> Ranked:
        """The best destinations of seeds, in their order."""
        parts = list(self.ranked(seeds, wish))
        if not parts:
            return Ranked(np.zeros((0, wish.k), np.int64), np.zeros((0, wish.k), np.float32))
        return Ranked(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.score for part in parts]),
        )

    def ranked(self, seeds: Seeds, wish: Wish) -> Iterator[Ranked]:
        """The same, some seeds at a time."""
        vectors = [scorer.outputs(seeds) for scorer in self.scorers]
        with torch.inference_mode():
            items = [self._items(recommender) for recommender in self.recommenders]
            for start in range(0, len(seeds), SEEDS):
                places = np.arange(start, min(start + SEEDS, len(seeds)))
                few = seeds.take(places)
                of_few = [each[start : start + len(places)] for each in vectors]
                yield self._few(few, of_few, items, wish)

    def _few(self, seeds: Seeds, vectors: list[Tensor], items: list[Tensor], wish: Wish) -> Ranked:
        finder = self.destinations.finder
        candidates = finder.find(seeds)
        columns = self.destinations.reader.read(seeds, candidates).whole()
        row = torch.from_numpy(candidates.row).to(self.device)
        values = torch.from_numpy(columns).to(self.device)
        pairs = [PairInput(row, each.normal(values)) for each in self.recommenders]
        limits = torch.from_numpy(finder.limits(seeds)).to(self.device)
        best = torch.full((len(seeds), 0), -torch.inf, device=self.device)
        rows = torch.full((len(seeds), 0), -1, dtype=torch.int64, device=self.device)
        had = torch.from_numpy(finder.had(seeds)).to(self.device) if wish.new_only else None
        excluded = self._excluded(wish)
        for first in range(0, self.destinations.size, ROWS):
            last = min(first + ROWS, self.destinations.size)
            score = torch.stack(
                [
                    recommender.scores(vector.to(self.device), each[first:last], of_network, first)
                    for recommender, vector, each, of_network in zip(
                        self.recommenders, vectors, items, pairs, strict=True
                    )
                ]
            ).mean(0)
            times = self._times[first:last]
            score.masked_fill_((times >= limits[:, None]) & (times != TIMELESS), -torch.inf)
            if excluded is not None:
                score.masked_fill_(excluded[first:last], -torch.inf)
            if had is not None:
                here = (had >= first) & (had < last)
                place = torch.where(here, had - first, 0)
                out = torch.zeros_like(score).scatter_add_(1, place, here.to(score.dtype))
                score.masked_fill_(out > 0, -torch.inf)
            here_best, here_rows = score.topk(min(wish.k, last - first), 1)
            best, rows = torch.cat([best, here_best], 1), torch.cat([rows, here_rows + first], 1)
            best, order = best.topk(min(wish.k, best.shape[1]), 1)
            rows = rows.gather(1, order)
        rows = torch.where(best == -torch.inf, -1, rows)
        short = (0, wish.k - rows.shape[1])
        return Ranked(
            torch.nn.functional.pad(rows, short, value=-1).cpu().numpy(),
            torch.nn.functional.pad(best, short, value=-torch.inf).float().cpu().numpy(),
        )

    @cached_property
    def _times(self) -> Tensor:
        return self.destinations.times.to(self.device)

    def _items(self, recommender: Recommender) -> Tensor:
        """(D, d) vectors of all destinations."""
        recommender.eval()
        places = recommender.places(self.destinations.keys.to(self.device))
        parts = [
            recommender.vectors(
                self.destinations.frame(np.arange(start, end)).to(self.device), places[start:end]
            )
            for start in range(0, self.destinations.size, ENCODED)
            for end in (min(start + ENCODED, self.destinations.size),)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, recommender.width, device=self.device)

    def _excluded(self, wish: Wish) -> Tensor | None:
        """(D,) rows that may not be recommended; None where all may be."""
        if wish.allowed is None:
            return None
        out = torch.ones(self.destinations.size, dtype=torch.bool, device=self.device)
        out[torch.from_numpy(wish.allowed).to(self.device)] = False
        return out
