"""Games: how a change of the prediction is divided among those who made it together.

Players are groups of rows, single rows, or columns of a row; the value of a coalition is the
prediction with only these players there. A player's share is its Shapley value: what it adds, on
average over the orders in which all of them might come. Inside a group the shares are Owen values:
the other groups come whole, before or after it.

    exact         all 2^k coalitions
    permutations  some orders, each with its reverse; the standard error is that over the pairs

Values are vectors (C,): the prediction, and what each part of the model adds to the raw output.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.variants import Floats, States, Variants

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Shares:
    """The shares of k players: (k, C) values and (k,) standard errors of the prediction's."""

    values: Floats
    errors: Floats


@dataclass(frozen=True)
class Game:
    """k players in some contexts, each of which says who else is there.

    Attributes:
        players: k.
        contexts: How many; they come in pairs that are each other's reverse, or as one.
        state: The states (contexts, n, U) of n coalitions (contexts, n, k) in each context.
        orders: (contexts, k) the order in which the players come in each context; None for all
            coalitions.
    """

    players: int
    contexts: int
    state: Callable[[Mask], States]
    orders: NDArray[np.int64] | None = None

    @cached_property
    def coalitions(self) -> Mask:
        """(contexts, n, k) the coalitions that are asked for."""
        k = self.players
        if self.orders is None:
            every = (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(bool)
            return np.repeat(every[None], self.contexts, 0)
        rank = np.argsort(self.orders, axis=1)
        there: Mask = rank[:, None, :] < np.arange(k + 1)[:, None]
        return there

    @cached_property
    def states(self) -> States:
        """(contexts · n, U) all states that are asked for, context after context."""
        made = self.state(self.coalitions)
        return made.reshape(-1, made.shape[-1])

    def shares(self, values: Floats) -> Shares:
        """The shares from the values (contexts · n, C) of `states`."""
        from gelgt.explain.game_kernels import averaged, shares_of_coalitions, shares_of_orders

        values = np.ascontiguousarray(values.reshape(self.contexts, -1, values.shape[1]))
        k = self.players
        if self.orders is not None:
            shares = shares_of_orders(values, self.orders)
        else:
            weight = np.array([1 / (k * comb(k - 1, s)) for s in range(k)] + [0.0])
            shares = shares_of_coalitions(values, weight)
        return Shares(*averaged(shares))


def play(variants: Variants, games: Sequence[Game]) -> list[Shares]:
    """The shares of all games; their variants go through the model together."""
    if not games:
        return []
    values = variants.outputs(np.concatenate([game.states for game in games])).table  # (n, C)
    ends = np.cumsum([len(game.states) for game in games])[:-1]
    return [game.shares(part) for game, part in zip(games, np.split(values, ends))]


def adding_up(shares: Shares, total: Floats) -> Shares:
    """Shares that add up to a total (C,) that is known better than they are: those that vary most
    from order to order take most of the difference."""
    weight = shares.errors**2 + 1e-12
    missing = total - shares.values.sum(0)
    return Shares(shares.values + (weight / weight.sum())[:, None] * missing, shares.errors)


def paired_orders(players: int, contexts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(contexts, k) random orders, each followed by its reverse."""
    half = [rng.permutation(players) for _ in range(contexts // 2)]
    return np.array([order for one in half for order in (one, one[::-1])], np.int64).reshape(
        contexts, players
    )
