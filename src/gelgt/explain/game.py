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
        state: The state (U,) of a coalition (k,) in a context.
        orders: (contexts, k) the order in which the players come in each context; None for all
            coalitions.
    """

    players: int
    contexts: int
    state: Callable[[int, Mask], States]
    orders: NDArray[np.int64] | None = None

    def coalitions(self, context: int) -> Mask:
        """(n, k) the coalitions that a context asks for."""
        k = self.players
        if self.orders is None:
            return (np.arange(2**k)[:, None] >> np.arange(k) & 1).astype(bool)
        there = np.zeros((k + 1, k), bool)
        for count, player in enumerate(self.orders[context]):
            there[count + 1 :, player] = True
        return there

    def states(self) -> list[States]:
        """All states that are asked for, context after context."""
        return [self.state(c, mask) for c in range(self.contexts) for mask in self.coalitions(c)]

    def shares(self, values: Floats) -> Shares:
        """The shares from the values (n, C) of `states`."""
        each = np.split(values, self.contexts)
        found = np.stack([self._of_context(c, each[c]) for c in range(self.contexts)])
        mean = found.mean(0)
        pairs = found[:, :, 0]
        if self.contexts % 2 == 0:
            pairs = pairs.reshape(-1, 2, self.players).mean(1)
        spread = pairs.std(0, ddof=1) / np.sqrt(len(pairs)) if len(pairs) > 1 else None
        return Shares(mean, np.zeros(self.players) if spread is None else spread)

    def _of_context(self, context: int, values: Floats) -> Floats:
        """(n, C) → (k, C)."""
        k = self.players
        shares = np.zeros((k, values.shape[1]))
        if self.orders is not None:
            shares[self.orders[context]] = np.diff(values, axis=0)
            return shares
        number = np.arange(2**k)
        size = np.array([bin(n).count("1") for n in number])
        weight = np.array([1 / (k * comb(k - 1, s)) if s < k else 0.0 for s in size])
        for player in range(k):
            without = number[(number >> player & 1) == 0]
            gain = values[without | 1 << player] - values[without]
            shares[player] = (weight[without, None] * gain).sum(0)
        return shares


def play(variants: Variants, games: Sequence[Game]) -> list[Shares]:
    """The shares of all games; their variants go through the model together."""
    asked = [game.states() for game in games]
    if not asked:
        return []
    out = variants.outputs(np.concatenate([np.stack(states) for states in asked]))
    values = np.stack([out.values, *out.parts.values()], 1)  # (n, C)
    ends = np.cumsum([len(states) for states in asked])[:-1]
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
