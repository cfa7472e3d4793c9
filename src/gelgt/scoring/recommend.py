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

from gelgt.candidates.orders import LinkOrder
from gelgt.graph import TIMELESS
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.recommender import Recommender, with_added
from gelgt.sampling import Seeds
from gelgt.scoring.best import Best, Ranked
from gelgt.scoring.destinations import Destinations
from gelgt.scoring.parts import NETWORK, TREES, Parts
from gelgt.scoring.scorer import Scorer
from gelgt.tasks.build import DEFAULT_K

SEEDS = 128  # at a time
ROWS = 65_536  # destinations at a time
ENCODED = 8_192  # destinations whose columns are encoded at a time


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
class Mix:
    """What is added up: (1 - share) · networks + share · trees + weight · order by links.

    Attributes:
        share: Of the trees, which score candidates alone; others get the least of their scores.
        windows: Of the order by everyone's links, see `LinkOrder`.
        weight: Of the negative logarithm of a destination's rank in it.
    """

    share: float = 0.0
    windows: int = 0
    weight: float = 0.0


ALONE, ONLY_TREES = Mix(), Mix(share=1.0)


class RecommendScorer:
    """Ranks destinations by the mean score of an ensemble's networks.

    Args:
        model: One network or several, each with a recommender.
        destinations: What they score.
        device: Where the networks are.
        mix: Of networks, trees and an order by links.
        precision: Of the networks over subgraphs; see `Scorer`.
        batch_size: Likewise.
        is_final: The weights do not change any more.
    """

    def __init__(
        self,
        model: RelationalModel | Ensemble,
        destinations: Destinations,
        device: torch.device | str = "cpu",
        *,
        mix: Mix = ALONE,
        precision: str = "auto",
        batch_size: int | None = None,
        is_final: bool = False,
    ) -> None:
        self.mix, self.is_final = mix, is_final
        self._kept: list[Tensor] | None = None
        self.model, self.device = Ensemble.of(model), torch.device(device)
        self.destinations, self.data = destinations, destinations.data
        self.networks, self.trees = self.model.networks, self.model.trees
        self.recommenders = [n.recommender for n in self.networks if n.recommender is not None]
        self.scorers = [
            Scorer(network, self.data, device, precision=precision, batch_size=batch_size)
            for network in self.networks
        ]

    @property
    def batch_size(self) -> int:
        return self.scorers[0].batch_size

    def predict(self, seeds: Seeds) -> Parts:
        """(S, k) the best rows of seeds, in their order, k being the task's; -1 for entities that
        do not exist yet at their seed time."""
        mixes = [self.mix, ALONE, *([ONLY_TREES] if self.trees is not None else [])]
        together, *alone = self.compared(seeds, mixes if self.mix != ALONE else mixes[1:])
        if self.mix == ALONE:
            alone = [together, *alone]
        return Parts(together, dict(zip((NETWORK, TREES), alone)), self.mix.share)

    def compared(self, seeds: Seeds, mixes: Sequence[Mix]) -> list[NDArray[np.int64]]:
        """The same with each of several mixes."""
        k = self.data.task.eval_k or DEFAULT_K
        there = np.flatnonzero(self.data.exists(seeds))
        parts = list(self._ranked(seeds.take(there), Wish(k), mixes))
        out = [np.full((len(seeds), k), -1, np.int64) for _ in mixes]
        for place, rows in enumerate(out):
            if parts:
                rows[there] = np.concatenate([part[place].row for part in parts])
        return out

    def vectors(self, seeds: Seeds) -> Tensor:
        """(S, d) seed vectors of the first network."""
        return self.scorers[0].vectors(seeds)

    def rank(self, seeds: Seeds, wish: Wish) -> Ranked:
        """The best destinations of seeds that exist, in their order."""
        parts = [part[0] for part in self._ranked(seeds, wish, [self.mix])]
        if not parts:
            return Ranked(np.zeros((0, wish.k), np.int64), np.zeros((0, wish.k), np.float32))
        return Ranked(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.score for part in parts]),
        )

    @torch.inference_mode()
    def scores_with(self, seed: Seeds, row: int, columns: Tensor) -> Tensor:
        """(V,) scores of one candidate of one seed, were its columns others (V, F)."""
        columns = columns.to(self.device)
        score = torch.zeros(len(columns), device=self.device)
        for scorer, recommender, items in zip(self.scorers, self.recommenders, self._all_items()):
            vector, item = scorer.outputs(seed).to(self.device), items[row : row + 1]
            added = recommender.candidates(
                vector, item[None].expand(1, len(columns), -1), recommender.normal(columns)[None]
            )
            score += recommender.everywhere(vector, item)[0, 0] + added[0]
        score /= len(self.recommenders)
        if self.mix.share and self.trees is not None:
            by_trees = self.trees(columns).float()[:, 0]
            score = (1 - self.mix.share) * score + self.mix.share * by_trees
        return score + self._prior(seed, self.mix)[0, row] if self.mix.weight else score

    def _ranked(self, seeds: Seeds, wish: Wish, mixes: Sequence[Mix]) -> Iterator[list[Ranked]]:
        """Some seeds at a time, a ranking for each mix."""
        vectors = [scorer.outputs(seeds).to(self.device) for scorer in self.scorers]
        with torch.inference_mode():
            items = self._all_items()
            for start in range(0, len(seeds), SEEDS):
                places = np.arange(start, min(start + SEEDS, len(seeds)))
                of_few = [each[start : start + len(places)] for each in vectors]
                yield self._few(seeds.take(places), of_few, items, wish, mixes)

    def _few(
        self,
        seeds: Seeds,
        vectors: list[Tensor],
        items: list[Tensor],
        wish: Wish,
        mixes: Sequence[Mix],
    ) -> list[Ranked]:
        destinations, device = self.destinations, self.device
        given = destinations.pairs(seeds)
        row, values = given.row.to(device), given.columns.to(device)
        known = row.clamp(min=0)
        added = [
            recommender.candidates(vector, each[known], recommender.normal(values))
            for recommender, vector, each in zip(self.recommenders, vectors, items, strict=True)
        ]
        best = [Best(len(seeds), wish.k, device) for _ in mixes]
        hidden = self._hidden(seeds, wish)
        trees = self._by_trees(row, values) if any(mix.share for mix in mixes) else None
        for first in range(0, destinations.size, ROWS):
            last = min(first + ROWS, destinations.size)
            score = torch.stack(
                [
                    with_added(recommender.everywhere(vector, each[first:last]), row, more, first)
                    for recommender, vector, each, more in zip(
                        self.recommenders, vectors, items, added, strict=True
                    )
                ]
            ).mean(0)
            hidden_here = hidden(first, last)
            by_trees = None if trees is None else trees(first, last)
            for mix, so_far in zip(mixes, best):
                mixed = score
                if mix.share and by_trees is not None:
                    mixed = (1 - mix.share) * score + mix.share * by_trees
                if mix.weight:
                    mixed = mixed + self._prior(seeds, mix)[:, first:last]
                so_far.add(mixed.masked_fill(hidden_here, -torch.inf), first)
        return [each.ranked() for each in best]

    def _prior(self, seeds: Seeds, mix: Mix) -> Tensor:
        """(S, D) what is added to the scores."""
        finder = self.destinations.finder
        moments = np.stack([finder.limits(seeds), finder.references(seeds)], 1)
        moments, which = np.unique(moments, axis=0, return_inverse=True)
        order = self._orders.setdefault(mix.windows, LinkOrder(mix.windows))
        each = [order.prior(finder, int(limit), int(ref)) for limit, ref in moments]
        values = torch.from_numpy(mix.weight * np.stack(each)).to(self.device)
        return values[torch.from_numpy(which.reshape(-1)).to(self.device)]

    def _by_trees(self, row: Tensor, values: Tensor) -> Callable[[int, int], Tensor] | None:
        """Scores of the destinations from one to another by trees: (S, n)."""
        if self.trees is None:
            return None
        is_there = row >= 0
        scores = torch.full(row.shape, torch.inf, device=self.device)
        if bool(is_there.any()):
            scores[is_there] = self.trees(values[is_there]).float()[:, 0]
        least = scores.amin(1, keepdim=True) if row.shape[1] else scores.new_zeros(len(row), 1)
        least = torch.where(torch.isfinite(least), least, 0.0)

        def by_trees(first: int, last: int) -> Tensor:
            here = is_there & (row >= first) & (row < last)
            place = torch.where(here, row - first, 0)
            more = torch.where(here, scores - least, 0.0)
            return least + torch.zeros(len(row), last - first, device=self.device).scatter_add_(
                1, place, more
            )

        return by_trees

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

    def _all_items(self) -> list[Tensor]:
        """The vectors of all destinations for each network; computed once where it does not
        change any more."""
        if self._kept is None or not self.is_final:
            # Whole networks, with seeds or without: training asks the network alone for its mode.
            self.model.eval()
            self._kept = [self._items(recommender) for recommender in self.recommenders]
        return self._kept

    def _items(self, recommender: Recommender) -> Tensor:
        """(D, d) vectors of all destinations."""
        places = recommender.places(self.destinations.keys.to(self.device))
        parts = [
            recommender.vectors(
                self.destinations.frame(np.arange(start, end)).to(self.device), places[start:end]
            )
            for start in range(0, self.destinations.size, ENCODED)
            for end in (min(start + ENCODED, self.destinations.size),)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, recommender.width, device=self.device)
