"""The loss of recommendations is the softmax that it says, whole or sampled."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gelgt.graph import TIMELESS
from gelgt.training import rank_objective
from gelgt.training.rank_objective import Pairs, RankObjective

SIZE, SEEDS, MOST, WIDTH = 40, 6, 12, 4


@dataclass
class Plain:
    """A recommender whose scores can be read off: s(u, i) = h_u · q_i, and for candidates the sum
    of their columns on top."""

    vectors_of: Tensor

    def vectors(self, frame: Tensor, place: Tensor) -> Tensor:
        return self.vectors_of[frame]

    def places(self, keys: Tensor) -> Tensor:
        return torch.full_like(keys, -1)

    def scores(self, seeds: Tensor, items: Tensor, pairs: Any) -> Tensor:
        scores = seeds @ items.T
        here = pairs.row >= 0
        added = torch.where(here, pairs.columns.sum(2), 0.0)
        return scores.scatter_add(1, pairs.row.clamp(min=0), added)


def objective(seed: int = 0) -> RankObjective:
    rng = np.random.default_rng(seed)
    times = np.where(np.arange(SIZE) < 30, TIMELESS, np.arange(SIZE) * 10)
    destinations: Any = SimpleNamespace(
        size=SIZE,
        times=torch.from_numpy(times),
        keys=torch.arange(SIZE),
        frame=lambda rows: torch.as_tensor(np.asarray(rows)),
    )
    row = np.stack([rng.choice(30, MOST, replace=False) for _ in range(SEEDS)]).astype(np.int32)
    row[0, 5:] = -1
    pairs = Pairs(
        torch.from_numpy(row),
        torch.from_numpy(rng.normal(size=(SEEDS, MOST, 2)).astype(np.float16)),
        torch.from_numpy(rng.integers(0, 7, (SEEDS, MOST)).astype(np.int32)),
        torch.from_numpy(rng.normal(size=(7, 3)).astype(np.float32)),
    )
    positives = np.full((SEEDS, 3), -1, np.int64)
    for place in range(SEEDS):
        positives[place, : 1 + place % 3] = [row[place, 0], row[place, 1], 29][: 1 + place % 3]
    recommender: Any = Plain(torch.from_numpy(rng.normal(size=(SIZE, WIDTH)).astype(np.float32)))
    return RankObjective(
        recommender,
        destinations,
        pairs,
        torch.from_numpy(positives),
        torch.full((SEEDS,), 350),
        torch.device("cpu"),
    )


def by_hand(made: RankObjective, out: Tensor) -> Tensor:
    """The softmax over all destinations that exist, one seed after the other."""
    losses = []
    items = made.recommender.vectors_of  # type: ignore[attr-defined]
    for place in range(SEEDS):
        scores = (out[place] @ items.T).clone()
        for m in range(MOST):
            row = int(made.pairs.row[place, m])
            if row >= 0:
                item = made.pairs.items[int(made.pairs.place[place, m])]
                scores[row] += made.pairs.ties[place, m].float().sum() + item.sum()
        times = made.destinations.times
        scores[(times != TIMELESS) & (times >= 350)] = -torch.inf
        right = made.positives[place][made.positives[place] >= 0]
        losses.append(-torch.log_softmax(scores, 0)[right].mean())
    return torch.stack(losses)


def test_the_loss_is_a_softmax_over_all_that_exist() -> None:
    made, out = objective(), torch.randn(SEEDS, WIDTH)
    torch.testing.assert_close(made.losses(out, torch.arange(SEEDS)), by_hand(made, out))
    order = torch.tensor([4, 2])
    torch.testing.assert_close(made.losses(out[order], order), by_hand(made, out)[order])


@pytest.mark.parametrize("name", ["OTHERS", "DENSE"])
def test_what_is_drawn_stands_for_the_rest(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum under the softmax is right in the mean over many draws."""
    made, out = objective(), torch.randn(SEEDS, WIDTH)
    monkeypatch.setattr(rank_objective, name, 3)
    monkeypatch.setattr(rank_objective, "SAMPLED", 15)
    draws = np.random.default_rng(0)

    class Draws:
        def default_rng(self, key: Any) -> np.random.Generator:
            return draws

    monkeypatch.setattr(rank_objective.np, "random", Draws())
    index = torch.arange(SEEDS)
    whole = by_hand(made, out)
    sums = torch.stack([torch.exp(made.losses(out, index) - whole) for _ in range(3000)])
    assert sums.std(0).max() > 0  # something is drawn
    # the loss is log of the sum less a constant: the ratio of sums has the mean 1
    torch.testing.assert_close(sums.mean(0), torch.ones(SEEDS), atol=0.05, rtol=0)


def test_a_batch_is_sampled_alike_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made, out = objective(), torch.randn(SEEDS, WIDTH)
    monkeypatch.setattr(rank_objective, "OTHERS", 3)
    index = torch.arange(SEEDS)
    assert torch.equal(made.losses(out, index), made.losses(out, index))
