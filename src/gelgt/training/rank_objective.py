"""`RankObjective`: the loss of recommendations, a softmax over destinations.

For each seed the loss is the mean of −log p over its positives, where p is the softmax of the
scores of all destinations that exist at its seed time. Where the table is large, only the positives
and candidates of the batch and a random sample of its rows enter; the sample stands for the rest.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelgt.graph import TIMELESS
from gelgt.metrics import is_among
from gelgt.nn.recommender import PairInput, Recommender
from gelgt.scoring.destinations import Destinations

DENSE = 20_000  # destinations up to which all are scored in every step
SAMPLED = 4_096  # random destinations of a step otherwise
OTHERS = 96  # candidates of a seed that are no positives


@dataclass(frozen=True)
class RankObjective:
    """What a recommender is trained for.

    Attributes:
        recommender: Of the network that is trained.
        destinations: What is recommended.
        pairs: The candidates of all the seeds that are learned from, on the host.
        positives: (S, Y) rows that are right, -1 behind the last.
        limits: (S,) the first second that each seed may not see.
        device: Where the network is.
    """

    recommender: Recommender
    destinations: Destinations
    pairs: "Pairs"
    positives: Tensor
    limits: Tensor
    device: torch.device

    def loss(self, out: Tensor, index: Tensor) -> Tensor:
        """The mean loss of a batch: ()."""
        return self.losses(out, index).mean()

    def losses(self, out: Tensor, index: Tensor) -> Tensor:
        """The loss of each row of a batch: (B, d), (B,) places among the seeds → (B,)."""
        index = index.cpu()
        positives = self.positives[index].to(self.device)
        limits = self.limits[index].to(self.device)
        few = self.pairs.take(index, self.positives[index], self.device)
        rows, weight = self._rows(positives, few.pairs.row, index)
        items = self.recommender.vectors(self._frame(rows), self._places[rows])
        place = _places_in(rows, few.pairs.row)
        scores = self.recommender.scores(out.float(), items, PairInput(place, few.pairs.columns))
        times = self._times[rows]
        hidden = (times >= limits[:, None]) & (times != TIMELESS)
        weights = weight + _scattered(few.weight, place, len(rows))
        weights = weights + _scattered(few.left_out, _places_in(rows, few.left_row), len(rows))
        total = torch.logsumexp((scores + weights).masked_fill(hidden, -torch.inf), 1)
        place = _places_in(rows, positives)
        right = scores.gather(1, place.clamp(min=0))
        count = (place >= 0).sum(1)
        return total - torch.where(place >= 0, right, 0.0).sum(1) / count.clamp(min=1)

    def _rows(self, positives: Tensor, candidates: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """(n,) the destinations of a step, ascending, and the logarithm of how many rows each
        stands for."""
        size = len(self._all)
        if size <= DENSE:
            return self._all, torch.zeros((), device=self.device)
        known = torch.unique(torch.cat([positives.flatten(), candidates.flatten()]))
        known = known[known >= 0]
        generator = np.random.default_rng(index.numpy())
        places = generator.choice(size, min(SAMPLED, size), replace=False)
        drawn = self._all[torch.from_numpy(places).to(self.device)]
        drawn = drawn[~torch.isin(drawn, known)]
        rows = torch.cat([known, drawn]).sort()
        weight = math.log(max(size - len(known), 1) / max(len(drawn), 1))
        is_drawn = torch.cat([torch.zeros(len(known)), torch.ones(len(drawn))]).to(self.device)
        return rows.values, (weight * is_drawn)[rows.indices]

    def _frame(self, rows: Tensor) -> Any:
        if len(self._all) <= DENSE:
            return self._whole_frame
        return self.destinations.frame(rows.cpu().numpy()).to(self.device)

    @cached_property
    def _whole_frame(self) -> Any:
        return self.destinations.frame(self._all.cpu().numpy()).to(self.device)

    @cached_property
    def _all(self) -> Tensor:
        """The destinations that exist for the last of the seeds: later ones change nothing."""
        times = self.destinations.times
        is_there = (times < self.limits.max()) | (times == TIMELESS)
        return torch.nonzero(is_there)[:, 0].to(self.device)

    @cached_property
    def _times(self) -> Tensor:
        return self.destinations.times.to(self.device)

    @cached_property
    def _places(self) -> Tensor:
        """(D,) where each destination stands in the lookup."""
        return self.recommender.places(self.destinations.keys.to(self.device))


@dataclass(frozen=True)
class Pairs:
    """Candidates of the seeds that are learned from.

    Attributes:
        row: (S, M) int32, -1 behind the last.
        ties: (S, M, T) float16
        place: (S, M) int32 places in `items`.
        items: (U, F) float32
    """

    row: Tensor
    ties: Tensor
    place: Tensor
    items: Tensor

    def columns(self) -> Tensor:
        """(n, F) the columns of all pairs."""
        is_there = self.row >= 0
        return torch.cat([self.ties[is_there].float(), self.items[self.place[is_there].long()]], 1)

    def normal(self, recommender: Recommender) -> "Pairs":
        """The same on the scale that a recommender reads."""
        ties = recommender.normal(self.ties.float()).half()
        return replace(self, ties=ties, items=recommender.normal(self.items, ties.shape[2]))

    def take(self, index: Tensor, positives: Tensor, device: torch.device) -> "Few":
        """Those of some seeds: the positives, and some of the others, drawn by the seeds' places.

        Args:
            positives: (B, Y) of these seeds.
        """
        row = self.row[index].long()
        is_there = row >= 0
        is_right = torch.from_numpy(is_among(row.numpy(), positives.numpy()))
        draw = torch.from_numpy(np.random.default_rng(index.numpy()).random(row.shape))
        order = torch.where(is_right, -1.0, torch.where(is_there, draw, 2.0)).argsort(1)
        right, others = is_right.sum(1), (is_there & ~is_right).sum(1)
        kept = others.clamp(max=OTHERS)
        width = max(1, int((right + kept).max())) if len(row) else 1
        within = torch.arange(row.shape[1])[None]
        taken, rest = order[:, :width], order[:, width:]
        # behind the kept candidates of a seed stand others that it leaves out, or none at all
        is_kept = (within < (right + kept)[:, None])[:, :width]
        row_kept = torch.where(is_kept, row.gather(1, taken), -1)
        left = torch.cat([torch.where(is_kept, -1, row.gather(1, taken)), row.gather(1, rest)], 1)
        stands_for = (others / kept.clamp(min=1)).log().clamp(min=0.0)[:, None]
        weight = torch.where(
            (row_kept >= 0) & (within[:, :width] >= right[:, None]), stands_for, 0.0
        )
        place = self.place[index].gather(1, taken).long()
        ties = self.ties[index].gather(1, taken[..., None].expand(-1, -1, self.ties.shape[2]))
        columns = torch.cat([ties.float(), self.items[place]], 2)
        return Few(
            PairInput(row_kept.to(device), columns.to(device)),
            weight.to(device),
            left.to(device),
            torch.where(left >= 0, -torch.inf, 0.0).to(device),
        )


@dataclass(frozen=True)
class Few:
    """Candidates of a batch.

    Attributes:
        pairs: The positives among them, and some others.
        weight: (B, W) the logarithm of how many each stands for.
        left_row: (B, L) candidates that are left out, -1 for none.
        left_out: (B, L) -inf for them.
    """

    pairs: PairInput
    weight: Tensor
    left_row: Tensor
    left_out: Tensor


def _scattered(values: Tensor, place: Tensor, size: int) -> Tensor:
    """(B, size) values (B, n) at their places, 0 elsewhere; a place of -1 is left out."""
    out = torch.zeros(len(values), size, device=values.device)
    return out.scatter_add_(1, place.clamp(min=0), torch.where(place >= 0, values, 0.0))


def _places_in(rows: Tensor, wanted: Tensor) -> Tensor:
    """Where destinations stand among ascending rows; -1 for padding."""
    at = torch.searchsorted(rows, wanted.clamp(min=0)).clamp(max=len(rows) - 1)
    return torch.where((wanted >= 0) & (rows[at] == wanted), at, -1)
