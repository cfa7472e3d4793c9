"""Scores of networks, trees and links are mixed as they should be, whatever the chunks."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from gelgt.graph import TIMELESS
from gelgt.nn.recommender import PairInput
from gelgt.sampling import Seeds
from gelgt.scoring import recommend
from gelgt.scoring.recommend import ALONE, ONLY_TREES, Mix, RecommendScorer, Wish

SIZE, SEEDS = 11, 3


def scorer() -> RecommendScorer:
    """One network whose scores are a table, trees that give a candidate's first column, and links
    0, 1, 2, … the newest last."""
    rng = np.random.default_rng(0)
    table = torch.from_numpy(rng.normal(size=(SEEDS, SIZE)).astype(np.float32))
    row = np.stack([rng.choice(SIZE, 4, replace=False) for _ in range(SEEDS)])
    row[0, 3] = -1
    times = np.where(np.arange(SIZE) == 10, 5_000, TIMELESS)
    finder: Any = SimpleNamespace(
        size=SIZE,
        window=100,
        times=times,
        limits=lambda seeds: seeds.time,
        references=lambda seeds: seeds.time,
        had=lambda seeds: np.array([[0, -1], [3, 4], [-1, -1]])[seeds.node],
        links=SimpleNamespace(row=np.arange(SIZE), time=np.arange(SIZE) * 10),
    )
    pairs = PairInput(
        torch.from_numpy(row), torch.from_numpy(rng.normal(size=(SEEDS, 4, 2)).astype(np.float32))
    )
    destinations: Any = SimpleNamespace(
        size=SIZE,
        finder=finder,
        times=torch.from_numpy(times),
        pairs=lambda seeds: PairInput(pairs.row[seeds.node], pairs.columns[seeds.node]),
        data=SimpleNamespace(
            task=SimpleNamespace(eval_k=4), exists=lambda seeds: np.ones(len(seeds), bool)
        ),
    )
    network: Any = SimpleNamespace(
        normal=lambda values: values,
        candidates=lambda vector, items, columns: torch.zeros(columns.shape[:2]),
        everywhere=lambda vector, items: table[vector[:, 0].long()][:, items[:, 0].long()],
    )
    made = object.__new__(RecommendScorer)
    made.mix, made.device, made.destinations = ALONE, torch.device("cpu"), destinations
    made.data, made.recommenders = destinations.data, [network]
    made.trees = lambda columns: columns[:, :1]  # type: ignore[assignment]
    vectors: Any = SimpleNamespace(outputs=lambda seeds: torch.from_numpy(seeds.node)[:, None])
    made.scorers = [vectors]
    made._all_items = lambda: [torch.arange(SIZE)[:, None]]  # type: ignore[method-assign]
    made.table, made.pairs = table, pairs  # type: ignore[attr-defined]
    return made


def seeds(time: int = 1_000) -> Seeds:
    return Seeds(np.arange(SEEDS), np.full(SEEDS, time), np.zeros(SEEDS, np.uint64))


def expected(made: Any, mix: Mix, time: int) -> np.ndarray[Any, Any]:
    trees = np.zeros((SEEDS, SIZE), np.float32)
    for seed in range(SEEDS):
        there = made.pairs.row[seed] >= 0
        values = made.pairs.columns[seed, :, 0][there]
        trees[seed] = float(values.min())
        trees[seed, made.pairs.row[seed][there]] = values
    scores = (1 - mix.share) * made.table.numpy() + mix.share * trees
    newest_first = np.arange(SIZE)[::-1][1 if time <= 5_000 else 0 :]
    rank = np.full(SIZE, len(newest_first))
    rank[newest_first] = np.arange(len(newest_first))
    scores = scores - mix.weight * np.log1p(rank)
    if time <= 5_000:
        scores[:, 10] = -np.inf  # it does not exist yet
    return scores


@pytest.mark.parametrize("mix", [ALONE, ONLY_TREES, Mix(0.5), Mix(0.25, 0, 2.0)])
@pytest.mark.parametrize("rows", [65_536, 4])
@pytest.mark.parametrize("time", [1_000, 6_000])
def test_scores_are_mixed(mix: Mix, rows: int, time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recommend, "ROWS", rows)
    made = scorer()
    made.mix = mix
    got = made.rank(seeds(time), Wish(4))
    scores = expected(made, mix, time)
    np.testing.assert_allclose(got.score, -np.sort(-scores, 1)[:, :4], rtol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, got.row, 1), got.score, rtol=1e-5)


def test_parts_are_what_each_would_rank_alone() -> None:
    made = scorer()
    made.mix = Mix(0.5, 0, 1.0)
    parts = made.predict(seeds())
    for name, mix in (("network", ALONE), ("trees", ONLY_TREES)):
        best = np.argsort(-expected(made, mix, 1_000), 1, kind="stable")
        if name == "network":  # trees leave ties behind their candidates
            assert parts.alone[name].tolist() == best[:, :4].tolist()
        assert (parts.alone[name][:, 0] == best[:, 0]).all()
    assert parts.share == 0.5
    alone = scorer().predict(seeds())
    assert alone.together.tolist() == alone.alone["network"].tolist()


def test_wishes_hide_rows() -> None:
    made = scorer()
    new = made.rank(seeds(), Wish(SIZE, new_only=True)).row
    assert 0 not in new[0]
    assert not {3, 4} & set(new[1].tolist())
    assert sorted(new[2][new[2] >= 0].tolist()) == list(range(10))
    few = made.rank(seeds(), Wish(4, allowed=np.array([2, 7]))).row
    assert (np.sort(few, 1) == [-1, -1, 2, 7]).all()
