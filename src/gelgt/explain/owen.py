"""Divides prediction minus base among branches, paths, rows and columns, level by level.

Every level plays the games of all groups that are worth it as one batch. What it finds is made to
add up to what the level above found, so the effects add up to prediction minus base whatever was
drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.game import Game, Mask, Shares, adding_up, paired_orders, play
from gelgt.explain.players import Player, branches, paths_of, rows_of
from gelgt.explain.stand_ins import ABSENT, ITSELF, draw_rows
from gelgt.explain.variants import Floats, States, Variants

EXACT = 12  # players up to whom all coalitions of the first level are asked for
FEW = 4  # likewise inside a group, in each of its contexts
DRAWS = 4  # rows from which the columns of the entity are drawn

StateOf = Callable[[int, Mask], States]


@dataclass(frozen=True)
class Effort:
    """How much is asked for.

    Attributes:
        contexts: Orders of the groups around a group that is divided; an even number.
        rows: Single rows of a path; the others are grouped by age.
        groups: Paths that are divided into rows.
        columns: Rows of each such path that are divided into columns.
        least: Share of the largest effect below which a group is not divided.
    """

    contexts: int = 8
    rows: int = 8
    groups: int = 3
    columns: int = 2
    least: float = 0.05


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
    def leaves(self) -> list["Part"]:
        """What it was divided into, or itself."""
        return [leaf for part in self.inside for leaf in part.leaves] if self.inside else [self]


@dataclass
class _Node:
    """A part that may be divided further, with the contexts in which that happens: states (U,) in
    which everything of the part itself is absent."""

    part: Part
    contexts: list[States]
    inside: list["_Node"] = field(default_factory=list)

    def done(self) -> Part:
        return replace(self.part, inside=tuple(node.done() for node in self.inside))


class Division:
    """Divides the prediction of one seed.

    Args:
        variants: Predicts.
        columns: For each table the columns that the model reads.
        rng: Draws orders and donors.
        effort: How much is asked for.
    """

    def __init__(
        self,
        variants: Variants,
        columns: dict[str, list[str]],
        rng: np.random.Generator,
        effort: Effort,
    ) -> None:
        self.variants, self.hood, self.columns = variants, variants.hood, columns
        self.rng, self.effort = rng, effort
        self.own_columns = columns.get(self.hood.table(0), [])
        self.donors = self._draw(self.hood.table(0), DRAWS) if self.own_columns else None

    @property
    def has_own(self) -> bool:
        """Whether the entity's own columns can be drawn."""
        return self.donors is not None and len(self.donors) > 0

    def empty(self) -> list[States]:
        """Nothing but the entity, its columns drawn, once for each donor."""
        state = np.full(self.hood.num_units, ABSENT, np.int64)
        if not self.has_own:
            state[0] = ITSELF
            return [state]
        return [self._with_own(state, d) for d in range(DRAWS)]

    def divide(self, score: Floats) -> tuple[Part, ...]:
        """All parts. `score` (U,) proposes which rows are looked at one by one: what goes with
        each alone. What other columns of a row would change is looked at too."""
        score = np.maximum(np.abs(score), np.abs(self._other_columns()))
        top = self._first_level()

        def size(node: _Node) -> float:
            """Effects of rows may cancel each other: then the rows tell more than their path."""
            return max(abs(node.part.effect), float(score[node.part.player.units].max()))

        least = self.effort.least * max(map(size, top), default=0.0)

        def worth(nodes: list[_Node], most: int) -> list[_Node]:
            return [n for n in sorted(nodes, key=size, reverse=True) if size(n) > least][:most]

        groups = [n for n in top if n.part.player.kind == "branch"]
        self._level(groups, lambda n: paths_of(self.hood, n.part.player))
        paths = worth([inner for n in groups for inner in n.inside], self.effort.groups)
        self._level(paths, lambda n: rows_of(self.hood, n.part.player, score, self.effort.rows))
        chosen = worth([n for n in top if n.part.player.kind == "own"], 1)
        for node in paths:
            rows = [n for n in node.inside if n.part.player.kind == "row"]
            chosen += sorted(rows, key=size, reverse=True)[: self.effort.columns]
        self._into_columns(chosen)
        return tuple(node.done() for node in top)

    # Levels.
    def _first_level(self) -> list[_Node]:
        players = branches(self.hood, self.has_own)
        if not players:
            return []
        empties = self.empty()
        orders, count = None, len(empties)
        if len(players) > EXACT:
            count = 2 * self.effort.contexts
            orders = paired_orders(len(players), count, self.rng)
        bases = [empties[c % len(empties)] for c in range(count)]
        game = Game(len(players), count, _coalition(players, bases), orders)
        shares = play(self.variants, [game])[0]
        if orders is None:  # nothing was left to chance but the donors of the entity's columns
            shares = Shares(shares.values, np.zeros(len(players)))
        total = self._values(self.variants.full[None])[0] - self._values(np.stack(empties)).mean(0)
        shares = adding_up(shares, total)
        pairs = [empties[c // 2 % len(empties)] for c in range(self.effort.contexts)]
        return self._nodes(players, shares, pairs)

    def _level(self, nodes: list[_Node], members: Callable[[_Node], list[Player]]) -> None:
        """Divide nodes into the players that `members` gives."""
        games, divided = [], []
        for node in nodes:
            players = members(node)
            if len(players) == 1:
                node.inside = [_Node(replace(node.part, player=players[0]), node.contexts)]
            if len(players) < 2:
                continue
            count = len(node.contexts)
            orders = None if len(players) <= FEW else paired_orders(len(players), count, self.rng)
            games.append(Game(len(players), count, _coalition(players, node.contexts), orders))
            divided.append((node, players))
        for (node, players), shares in zip(divided, play(self.variants, games)):
            shares = adding_up(shares, node.part.values)
            node.inside = self._nodes(players, shares, node.contexts)

    def _nodes(
        self, players: Sequence[Player], shares: Shares, contexts: list[States]
    ) -> list[_Node]:
        """Players with their shares, and the contexts in which each is divided further: the others
        that come before it in a random order are there."""
        nodes = []
        orders = paired_orders(len(players), len(contexts), self.rng)
        for place, player in enumerate(players):
            mine = []
            for context, order in zip(contexts, orders):
                before = order[: int(np.flatnonzero(order == place)[0])]
                mine.append(_put(context, [players[other] for other in before]))
            part = Part(player, shares.values[place], float(shares.errors[place]))
            nodes.append(_Node(part, mine))
        return nodes

    def _into_columns(self, nodes: list[_Node]) -> None:
        """Divide rows into their presence, with columns that any row might have, and each of their
        columns."""
        games, divided = [], []
        for node in nodes:
            unit = int(node.part.player.units[0])
            names = self.columns.get(self.hood.table(unit), [])
            is_own = node.part.player.kind == "own"
            donors = self.donors if is_own else self._draw(self.hood.table(unit), DRAWS)
            if donors is None or not len(donors) or len(names) < (2 if is_own else 1):
                continue
            orders = paired_orders(len(names), len(node.contexts), self.rng)
            if not is_own:  # a row comes before its columns
                orders = np.concatenate([np.full((len(orders), 1), len(names)), orders], 1)
            players = names if is_own else [*names, None]
            state = self._shown(unit, node.contexts, names, donors, is_own)
            games.append(Game(len(players), len(node.contexts), state, orders))
            divided.append((node, players))
        for (node, players), shares in zip(divided, play(self.variants, games)):
            shares = adding_up(shares, node.part.values)
            node.inside = [
                _Node(Part(node.part.player, value, float(error), column), [])
                for column, value, error in zip(players, shares.values, shares.errors)
            ]

    def _shown(
        self,
        unit: int,
        contexts: list[States],
        names: list[str],
        donors: NDArray[np.int64],
        is_own: bool,
    ) -> StateOf:
        table, row = self.hood.table(unit), int(self.hood.row_numbers[unit])

        def state(context: int, there: Mask) -> States:
            made = contexts[context].copy()
            if is_own or there[-1]:
                hidden = [name for name, is_shown in zip(names, there) if not is_shown]
                donor = int(donors[context // 2 % len(donors)])
                made[unit] = self.variants.stand_ins.state(table, row, donor, hidden)
            return made

        return state

    def _other_columns(self) -> Floats:
        """(U,) how the prediction changes where each sampled row alone shows another's columns."""
        full, donors = self.variants.full, dict[str, NDArray[np.int64]]()
        states, units = [full], []
        for unit in range(1, self.hood.num_rows):
            table, row = self.hood.table(unit), int(self.hood.row_numbers[unit])
            if table not in donors:
                donors[table] = self._draw(table, self.hood.num_rows)
            names = self.columns.get(table, [])
            if names and len(donors[table]):
                other = full.copy()
                donor = int(donors[table][unit])
                other[unit] = self.variants.stand_ins.state(table, row, donor, names)
                states.append(other)
                units.append(unit)
        values, changes = self.variants.predict(np.stack(states)), np.zeros(len(full))
        changes[units] = values[0] - values[1:]
        return changes

    # Draws and values.
    def _draw(self, table: str, count: int) -> NDArray[np.int64]:
        return draw_rows(self.hood.graph, table, self.variants.limit, count, self.rng)

    def _with_own(self, state: States, draw: int) -> States:
        assert self.donors is not None
        made, row = state.copy(), int(self.hood.row_numbers[0])
        donor = int(self.donors[draw % len(self.donors)])
        stand_ins = self.variants.stand_ins
        made[0] = stand_ins.state(self.hood.table(0), row, donor, self.own_columns)
        return made

    def _values(self, states: States) -> Floats:
        out = self.variants.outputs(states)
        return np.stack([out.values, *out.parts.values()], 1)


def _put(state: States, players: Sequence[Player]) -> States:
    made = state.copy()
    for player in players:
        made[player.units] = ITSELF
    return made


def _coalition(players: Sequence[Player], bases: list[States]) -> StateOf:
    def state(context: int, there: Mask) -> States:
        return _put(bases[context], [p for p, is_there in zip(players, there) if is_there])

    return state
