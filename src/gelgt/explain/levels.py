"""Levels of a division: parts of the prediction, the nodes that may be divided further, and the
games that divide them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gelgt.explain.game import Game, Mask, adding_up, play
from gelgt.explain.players import Player
from gelgt.explain.stand_ins import ITSELF
from gelgt.explain.variants import Floats, States, Variants

StateOf = Callable[[Mask], States]


@dataclass(frozen=True)
class Part:
    """A player with what it adds: (C,) to the prediction and to each part's raw output, and the
    standard error of the first. `column` is None but for columns; `inside` are the parts into which
    it was divided."""

    player: Player
    values: Floats
    error: float
    column: str | None = None
    inside: tuple["Part", ...] = ()

    @property
    def effect(self) -> float:
        return float(self.values[0])

    @property
    def strength(self) -> float:
        """Sum of the absolute effects of what it was divided into, which may cancel."""
        return sum(part.strength for part in self.inside) if self.inside else abs(self.effect)

    @property
    def leaves(self) -> list["Part"]:
        """What it was divided into, or itself."""
        return [leaf for part in self.inside for leaf in part.leaves] if self.inside else [self]


@dataclass
class Node:
    """A player whose part may be divided further, with the contexts in which that happens: states
    (contexts, U) in which everything of the part itself is absent."""

    player: Player
    contexts: States
    part: Part | None = None
    inside: list["Node"] = field(default_factory=list)

    @property
    def effect(self) -> float:
        return self.known.effect

    @property
    def known(self) -> Part:
        assert self.part is not None  # its game was played
        return self.part

    def done(self) -> Part:
        return replace(self.known, inside=tuple(node.done() for node in self.inside))


@dataclass(frozen=True)
class Level:
    """Games that divide nodes into the nodes inside them; all are drawn before one is played, so
    that several levels can go through the model together."""

    games: list[Game]
    divided: list[Node]
    alone: list[Node]

    @property
    def states(self) -> list[States]:
        return [game.states for game in self.games]

    def play(self, variants: Variants) -> None:
        for node, shares in zip(self.divided, play(variants, self.games)):
            shares = adding_up(shares, node.known.values)
            for place, inner in enumerate(node.inside):
                error = float(shares.errors[place])
                inner.part = Part(inner.player, shares.values[place], error)
        for node in self.alone:
            node.inside[0].part = replace(node.known, player=node.inside[0].player)


@dataclass(frozen=True)
class ColumnGames:
    """Games that divide rows into columns."""

    games: list[Game]
    divided: list[tuple[Node, list[str | None]]]

    @property
    def states(self) -> list[States]:
        return [game.states for game in self.games]

    def play(self, variants: Variants) -> None:
        for (node, columns), shares in zip(self.divided, play(variants, self.games)):
            shares = adding_up(shares, node.known.values)
            node.inside = [
                Node(node.player, node.contexts, Part(node.player, value, float(error), column))
                for column, value, error in zip(columns, shares.values, shares.errors)
            ]


def coalition(players: Sequence[Player], bases: States) -> StateOf:
    """The states of coalitions over bases (contexts, U)."""
    player, bases = np.full(bases.shape[1], len(players)), np.ascontiguousarray(bases)
    for place, each in enumerate(players):
        player[each.units] = place

    def state(there: Mask) -> States:
        from gelgt.explain.game_kernels import coalition_states

        states: States = coalition_states(there, player, bases, ITSELF)
        return states

    return state
