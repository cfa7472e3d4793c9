"""Shares of a prediction: the usual ones, unless validation shows that others are better."""

import numpy as np
import pytest
import torch

from gelgt.nn.target import Target
from gelgt.sampling import Seeds
from gelgt.tasks.label_space import LabelSpace
from gelgt.training.shares import USUAL, Outputs, Shares, choose_shares, nearest_earned


def noisy(truth: torch.Tensor, noise: float, seed: int) -> torch.Tensor:
    """(S, 1) logits of a part that sees the truth through noise."""
    generator = torch.Generator().manual_seed(seed)
    return (truth + noise * torch.randn(len(truth), generator=generator))[:, None]


def chosen(rows: int, columns: float, graph: float, trees: float) -> Shares:
    """The shares of three parts by the noise of each."""
    generator = torch.Generator().manual_seed(9)
    truth = 2 * torch.randn(rows, generator=generator)
    labels = (torch.rand(rows, generator=generator) < torch.sigmoid(truth)).double().numpy()
    outputs = Outputs(*(noisy(truth, noise, k) for k, noise in enumerate((columns, graph, trees))))
    target = Target(LabelSpace("binary_classification"))
    seeds = Seeds(np.arange(rows), np.arange(rows) % 2, np.arange(rows, dtype=np.uint64))
    return choose_shares(outputs, target, labels, seeds)


def test_parts_that_are_alike_keep_the_usual_shares() -> None:
    assert chosen(1000, 1.0, 1.0, 1.0) == USUAL


def test_many_rows_show_that_a_part_is_worse() -> None:
    assert chosen(5000, 0.3, 4.0, 0.3).graph == 0
    assert chosen(5000, 0.3, 0.3, 4.0).trees == 0
    assert chosen(5000, 4.0, 0.3, 0.3).graph > 0.8


def test_few_rows_show_nothing() -> None:
    assert chosen(10, 1.0, 2.0, 1.0) == USUAL


def test_rows_of_one_entity_count_as_one() -> None:
    """What four hundred rows show, a hundred rows each of four entities do not."""
    other, noise = Shares(1.0, 0.0), np.repeat(np.random.default_rng(1).normal(size=4), 100)
    losses = {USUAL: np.ones(400), other: 0.85 + 0.3 * (noise - noise.mean())}
    times = np.arange(400) % 2
    assert nearest_earned(losses, np.arange(400), times) == other
    assert nearest_earned(losses, np.repeat(np.arange(4), 100), times) == USUAL


def test_rows_of_one_time_have_its_luck_in_common() -> None:
    """Four hundred entities at each of three times, of which one is unlike the others: they say
    little of a fourth."""
    other, rows = Shares(1.0, 0.0), np.arange(1200)
    luck = np.array([-0.6, 0.2, 0.25])[rows % 3]
    noise = 0.1 * np.random.default_rng(1).normal(size=1200)
    losses = {USUAL: np.ones(1200), other: 1 + luck + noise}
    assert nearest_earned(losses, rows, rows % 3) == USUAL
    shuffled = np.random.default_rng(2).permutation(rows) % 3  # no luck of a time
    assert nearest_earned(losses, rows, shuffled) == other


def test_one_time_has_to_show_more() -> None:
    """A difference of 1.75 standard errors over entities."""
    other, rows = Shares(1.0, 0.0), np.arange(1000)
    noise = np.random.default_rng(1).normal(size=1000)
    noise = (noise - noise.mean()) / noise.std()
    losses = {USUAL: np.ones(1000), other: 1 - 1.75 / np.sqrt(1000) + noise}
    assert nearest_earned(losses, rows, rows) == other
    assert nearest_earned(losses, rows, np.zeros(1000, np.int64)) == USUAL


@pytest.mark.parametrize("has_columns", [True, False])
@pytest.mark.parametrize("has_trees", [True, False])
def test_only_parts_that_there_are_have_a_share(has_columns: bool, has_trees: bool) -> None:
    one = torch.ones(4, 1)
    outputs = Outputs(3 * one if has_columns else None, one, 5 * one if has_trees else None)
    for shares in outputs.possible:
        columns, graph, trees = shares.parts
        assert columns == 0 or has_columns
        assert trees == 0 or has_trees
        assert columns + graph > 0, "networks always have a share"
        expected = torch.full((4, 1), 3 * columns + graph + 5 * trees)
        torch.testing.assert_close(outputs.mixed(shares), expected)
    assert len(set(outputs.possible)) == (9 if has_columns else 1) * (8 if has_trees else 1)


def test_shares_are_exact_beside_weights() -> None:
    """A run that is loaded again predicts the same bits."""
    one = torch.ones(1, 1)
    for shares in Outputs(one, one, one).possible:
        assert all(float(np.float32(share)) == share for share in shares)
