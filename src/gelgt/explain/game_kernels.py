"""Compiled loops over coalitions: their states, and what their values say of each player. The games
of an explanation are small and many, so that calls of NumPy would take longer than the sums."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled


@compiled
def coalition_states(
    there: NDArray[np.bool_],
    player: NDArray[np.int64],
    bases: NDArray[np.int64],
    itself: int,
) -> NDArray[np.int64]:
    """(contexts, n, U) the states of coalitions (contexts, n, k) over bases (contexts, U): units of
    players who are there are themselves; `player` (U,) is k for units of nobody."""
    contexts, coalitions, players = there.shape
    out = np.empty((contexts, coalitions, len(player)), np.int64)
    for c in range(contexts):
        for n in range(coalitions):
            for u in range(len(player)):
                is_there = player[u] < players and there[c, n, player[u]]
                out[c, n, u] = itself if is_there else bases[c, u]
    return out


@compiled
def shares_of_orders(values: NDArray[np.float64], orders: NDArray[np.int64]) -> NDArray[Any]:
    """(contexts, k, C) what each player adds when it comes, from the values (contexts, k + 1, C) of
    those who came so far."""
    contexts, players = orders.shape
    out = np.empty((contexts, players, values.shape[2]))
    for c in range(contexts):
        for place in range(players):
            out[c, orders[c, place]] = values[c, place + 1] - values[c, place]
    return out


@compiled
def shares_of_coalitions(values: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[Any]:
    """(contexts, k, C) what each player adds on average over all orders, from the values
    (contexts, 2^k, C) of all coalitions.

    Args:
        weight: (k + 1,) of a coalition without a player, by its size.
    """
    contexts, coalitions, width = values.shape
    players = len(weight) - 1
    out = np.zeros((contexts, players, width))
    for number in range(coalitions):
        size = 0
        for player in range(players):
            size += number >> player & 1
        for player in range(players):
            if not number >> player & 1:
                for c in range(contexts):
                    for v in range(width):
                        gain = values[c, number | 1 << player, v] - values[c, number, v]
                        out[c, player, v] += weight[size] * gain
    return out


@compiled
def averaged(shares: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """(k, C) the means of shares (contexts, k, C), and (k,) the standard errors of the first of C,
    over pairs of contexts where these come in pairs; 0 where there is but one."""
    contexts, players, width = shares.shape
    together = 2 if contexts % 2 == 0 else 1
    count = contexts // together
    mean, errors = np.zeros((players, width)), np.zeros(players)
    for c in range(contexts):
        mean += shares[c]
    mean /= contexts
    for player in range(players if count > 1 else 0):
        squares = 0.0
        for pair in range(count):
            value = 0.0
            for c in range(pair * together, (pair + 1) * together):
                value += shares[c, player, 0] / together
            squares += (value - mean[player, 0]) ** 2
        errors[player] = np.sqrt(squares / (count - 1) / count)
    return mean, errors
