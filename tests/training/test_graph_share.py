"""How much of the networks over subgraphs validation takes."""

import numpy as np

from gelgt.training.graph_share import SHARES, earned_share


def losses(gain: float, noise: float, rows: int = 400) -> dict[float, np.ndarray]:
    """Every share is better by as much of a gain, on rows that differ."""
    draw = np.random.default_rng(0).normal(0.0, 1.0, rows)
    draw -= draw.mean()
    base = np.random.default_rng(1).uniform(0.0, 1.0, rows)
    return {share: base - share * (gain + noise * draw) for share in SHARES}


def test_a_gain_beyond_doubt_is_taken_whole() -> None:
    assert earned_share(losses(0.1, 0.01), np.arange(400)) == 1.0


def test_a_gain_by_luck_is_not_taken() -> None:
    assert earned_share(losses(0.01, 1.0), np.arange(400)) == 0.0


def test_a_loss_is_never_taken() -> None:
    assert earned_share(losses(-0.1, 0.01), np.arange(400)) == 0.0


def test_rows_of_one_entity_count_once() -> None:
    """Four hundred rows of four entities say no more than four."""
    few = {share: np.repeat(values, 100) for share, values in losses(0.05, 1.0, 4).items()}
    assert earned_share(few, np.arange(400)) == 1.0
    assert earned_share(few, np.repeat(np.arange(4), 100)) == 0.0
