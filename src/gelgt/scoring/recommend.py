"""`RecommendScorer`: the best destinations of seeds, exactly, in bounded memory.

Destinations are scored in chunks, and of each chunk the best are kept. Rows that do not exist at
the seed time are never among them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gelgt.candidates.orders import LinkOrder
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


@dataclass(frozen=True)
class Prior:
    """What everyone's links say, beside the networks.

    Attributes:
        windows: Of the order by links, see `LinkOrder`.
        weight: Of the negative logarithm of a destination's rank in it.
    """

    windows: int = 0
    weight: float = 0.0


NO_PRIOR = Prior()


class RecommendScorer:
    """Ranks destinations by the mean score of an ensemble's networks.

    Args:
        model: One network or several, each with a recommender.
        destinations: What they score.
        device: Where the networks are.
        prior: Is added to the scores.
        precision: Of the networks over subgraphs; see `Scorer`.
        batch_size: Likewise.
    """

    def __init__(
        self,
        model: RelationalModel | Ensemble,
        destinations: Destinations,
        device: torch.device | str = "cpu",
        *,
        prior: Prior = NO_PRIOR,
        precision: str = "auto",
        batch_size: int | None = None,
    ) -> None:
        self.prior = prior
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
        if not self.prior.weight:
            rows = self.compared(seeds, [NO_PRIOR])[0]
            return Parts(rows, {NETWORK: rows})
        together, alone = self.compared(seeds, [self.prior, NO_PRIOR])
        return Parts(together, {NETWORK: alone})

    def compared(self, seeds: Seeds, priors: Sequence[Prior]) -> list[NDArray[np.int64]]:
        """The same with each of several priors."""
        k = self.data.task.eval_k or DEFAULT_K
        there = np.flatnonzero(self.data.exists(seeds))
        parts = list(self._ranked(seeds.take(there), Wish(k), priors))
        out = [np.full((len(seeds), k), -1, np.int64) for _ in priors]
        for place, rows in enumerate(out):
            if parts:
                rows[there] = np.concatenate([part[place].row for part in parts])
        return out

    def vectors(self, seeds: Seeds) -> Tensor:
        """(S, d) seed vectors of the first network."""
        return self.scorers[0].vectors(seeds)

    def rank(self, seeds: Seeds, wish: Wish) -> Ranked:
        """The best destinations of seeds that exist, in their order."""
        parts = [part[0] for part in self._ranked(seeds, wish, [self.prior])]
        if not parts:
            return Ranked(np.zeros((0, wish.k), np.int64), np.zeros((0, wish.k), np.float32))
        return Ranked(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.score for part in parts]),
        )

    def _ranked(self, seeds: Seeds, wish: Wish, priors: Sequence[Prior]) -> Iterator[list[Ranked]]:
        """Some seeds at a time, a ranking for each prior."""
        vectors = [scorer.outputs(seeds).to(self.device) for scorer in self.scorers]
        with torch.inference_mode():
            items = [self._items(recommender) for recommender in self.recommenders]
            for start in range(0, len(seeds), SEEDS):
                places = np.arange(start, min(start + SEEDS, len(seeds)))
                of_few = [each[start : start + len(places)] for each in vectors]
                yield self._few(seeds.take(places), of_few, items, wish, priors)

    def _few(
        self,
        seeds: Seeds,
        vectors: list[Tensor],
        items: list[Tensor],
        wish: Wish,
        priors: Sequence[Prior],
    ) -> list[Ranked]:
        destinations, device = self.destinations, self.device
        given = destinations.pairs(seeds)
        row, values = given.row.to(device), given.columns.to(device)
        pairs = [PairInput(row, each.normal(values)) for each in self.recommenders]
        best = [_Best(len(seeds), wish.k, device) for _ in priors]
        hidden = self._hidden(seeds, wish)
        for first in range(0, destinations.size, ROWS):
            last = min(first + ROWS, destinations.size)
            score = torch.stack(
                [
                    recommender.scores(vector, each[first:last], of_network, first)
                    for recommender, vector, each, of_network in zip(
                        self.recommenders, vectors, items, pairs, strict=True
                    )
                ]
            ).mean(0)
            score.masked_fill_(hidden(first, last), -torch.inf)
            for prior, so_far in zip(priors, best):
                so_far.add(
                    score + self._prior(seeds, prior)[:, first:last] if prior.weight else score,
                    first,
                )
        return [each.ranked() for each in best]

    def _prior(self, seeds: Seeds, prior: Prior) -> Tensor:
        """(S, D) what is added to the scores."""
        finder = self.destinations.finder
        moments = np.stack([finder.limits(seeds), finder.references(seeds)], 1)
        moments, which = np.unique(moments, axis=0, return_inverse=True)
        order = self._orders.setdefault(prior.windows, LinkOrder(prior.windows))
        each = [order.prior(finder, int(limit), int(ref)) for limit, ref in moments]
        values = torch.from_numpy(prior.weight * np.stack(each)).to(self.device)
        return values[torch.from_numpy(which.reshape(-1)).to(self.device)]

    def _hidden(self, seeds: Seeds, wish: Wish) -> Callable[[int, int], Tensor]:
        """Which of the destinations from one to another may not be recommended: (S, n)."""
        finder, device = self.destinations.finder, self.device
        limits = torch.from_numpy(finder.limits(seeds)).to(device)[:, None]
        had = torch.from_numpy(finder.had(seeds)).to(device) if wish.new_only else None
        allowed = None
        if wish.allowed is not None:
            allowed = torch.zeros(self.destinations.size, dtype=torch.bool, device=device)
            allowed[torch.from_numpy(wish.allowed).to(device)] = True

        def hidden(first: int, last: int) -> Tensor:
            times = self._times[first:last]
            out = (times >= limits) & (times != TIMELESS)
            if allowed is not None:
                out |= ~allowed[first:last]
            if had is not None:
                here = (had >= first) & (had < last)
                place = torch.where(here, had - first, 0)
                out |= (
                    torch.zeros_like(out, dtype=torch.int32).scatter_add_(1, place, here.int()) > 0
                )
            return out

        return hidden

    @cached_property
    def _orders(self) -> dict[int, LinkOrder]:
        return {}

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


class _Best:
    """The best k of the scores so far."""

    def __init__(self, seeds: int, k: int, device: torch.device) -> None:
        self.k = k
        self.score = torch.zeros(seeds, 0, device=device)
        self.row = torch.zeros(seeds, 0, dtype=torch.int64, device=device)

    def add(self, score: Tensor, first: int) -> None:
        """Scores (S, n) of the destinations from `first` on."""
        here, rows = score.topk(min(self.k, score.shape[1]), 1)
        every, rows = torch.cat([self.score, here], 1), torch.cat([self.row, rows + first], 1)
        self.score, order = every.topk(min(self.k, every.shape[1]), 1)
        self.row = rows.gather(1, order)

    def ranked(self) -> Ranked:
        """With -1 where there are fewer than k."""
        row = torch.where(self.score == -torch.inf, -1, self.row)
        short = (0, self.k - row.shape[1])
        return Ranked(
            functional.pad(row, short, value=-1).cpu().numpy(),
            functional.pad(self.score, short, value=-torch.inf).float().cpu().numpy(),
        )
