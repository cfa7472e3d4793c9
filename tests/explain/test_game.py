"""Shapley and Owen values of games whose values are known."""

import numpy as np

from gelgt.explain.game import Game, Shares, adding_up, paired_orders


def values(game: Game, worth: object) -> np.ndarray:
    masks = game.coalitions.reshape(-1, game.players)
    return np.array([[worth(mask)] for mask in masks])  # type: ignore[operator]


def nobody(there: np.ndarray) -> np.ndarray:
    return np.zeros((*there.shape[:2], 1), np.int64)


def gloves(there: np.ndarray) -> float:
    """Players 0 and 1 have a left glove each, player 2 a right one; a pair is worth 1."""
    return float(there[2] and (there[0] or there[1]))


def test_all_coalitions_give_the_shapley_value() -> None:
    game = Game(3, 1, nobody)
    shares = game.shares(values(game, gloves))
    np.testing.assert_allclose(shares.values[:, 0], [1 / 6, 1 / 6, 4 / 6])
    assert shares.errors.tolist() == [0, 0, 0]


def test_orders_come_near_it_and_add_up_exactly() -> None:
    rng = np.random.default_rng(0)
    orders = paired_orders(3, 400, rng)
    assert (orders[0] == orders[1][::-1]).all()
    game = Game(3, 400, nobody, orders)
    shares = game.shares(values(game, gloves))
    assert shares.values.sum() == 1
    np.testing.assert_allclose(shares.values[:, 0], [1 / 6, 1 / 6, 4 / 6], atol=0.06)
    assert (shares.errors > 0).all()
    assert (np.abs(shares.values[:, 0] - [1 / 6, 1 / 6, 4 / 6]) < 4 * shares.errors).all()


def test_what_is_missing_goes_to_those_who_vary() -> None:
    shares = Shares(np.array([[0.5], [0.2]]), np.array([0.1, 0.0]))
    whole = adding_up(shares, np.array([1.0]))
    assert abs(whole.values.sum() - 1.0) < 1e-12
    assert abs(whole.values[1, 0] - 0.2) < 1e-6
