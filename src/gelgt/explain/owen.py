"""Divides prediction minus base among branches, paths, rows and columns, level by level.

What no effect decides is asked first, all at once: rows deleted one by one, branches, and the paths
in them. Then come the rows of the strongest paths, and then the columns of the strongest rows,
beside the check: three passes through the model. What a level finds is made to add up to what the
level above found, so the effects add up to prediction minus base whatever was drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.game import Game, Mask, Shares, adding_up, paired_orders, play
from gelgt.explain.levels import ColumnGames, Level, Node, Part, StateOf, coalition
from gelgt.explain.players import Player, branches, paths_of, rows_of
from gelgt.explain.stand_ins import ABSENT, ITSELF, draw_rows
from gelgt.explain.variants import Floats, States, Variants

EXACT = 12  # players up to whom all coalitions of the first level are asked for
FEW = 4  # likewise inside a group, in each of its contexts
DRAWS = 4  # rows from which the columns of the entity are drawn


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

    @cached_property
    def empty(self) -> States:
        """(draws, U) nothing but the entity, its columns drawn, once for each donor."""
        state = np.full(self.hood.num_units, ABSENT, np.int64)
        if not self.has_own:
            state[0] = ITSELF
            return state[None]
        return np.stack([self._with_own(state, d) for d in range(DRAWS)])

    def rows(self, deleted: States, further: States) -> Floats:
        """Divide down to rows. Every question that needs no answer of another goes through the
        model first, all at once: rows deleted one by one, rows with another's columns, and the
        first two levels, whose players do not depend on any effect.

        Args:
            deleted: (U, U) the states in which each unit alone is absent; the first is whole.
            further: States that somebody will ask for later.

        Returns:
            (U,) what goes with each unit alone, replaced by its effect where it was looked at.
        """
        others, units = self._other_columns()
        top, first = self._first_level()
        groups = [n for n in top if n.player.kind == "branch"]
        paths = self._level(groups, lambda n: paths_of(self.hood, n.player))
        asked = [deleted, others, further, self.empty, *paths.states]
        asked += [first.states] if first is not None else []
        self.variants.outputs(np.concatenate(asked))
        score = self._lost(deleted)
        proposed = np.abs(score)
        changes = self._lost(others)[1:]
        proposed[units] = np.maximum(proposed[units], np.abs(changes))
        if first is not None:
            self._share_first(top, first)
        paths.play(self.variants)
        self._top, self._proposed = top, proposed
        self._paths = self._worth([inner for n in groups for inner in n.inside], self.effort.groups)
        self._level(
            self._paths, lambda n: rows_of(self.hood, n.player, proposed, self.effort.rows)
        ).play(self.variants)
        for path in self._paths:
            for row in path.inside:
                if len(row.player.units) == 1:
                    score[row.player.units] = row.effect
        return score

    def columns_of_rows(self) -> ColumnGames:
        """The games that divide the strongest rows into columns."""
        chosen = self._worth([n for n in self._top if n.player.kind == "own"], 1)
        for node in self._paths:
            rows = [n for n in node.inside if n.player.kind == "row"]
            chosen += sorted(rows, key=self._size, reverse=True)[: self.effort.columns]
        return self._into_columns(chosen)

    def parts(self) -> tuple[Part, ...]:
        """All parts, once the games were played."""
        return tuple(node.done() for node in self._top)

    def _size(self, node: Node) -> float:
        """Effects of rows may cancel each other: then the rows tell more than their path."""
        return max(abs(node.effect), float(self._proposed[node.player.units].max()))

    def _worth(self, nodes: list[Node], most: int) -> list[Node]:
        least = self.effort.least * max(map(self._size, self._top), default=0.0)
        ordered = sorted(nodes, key=self._size, reverse=True)
        return [n for n in ordered if self._size(n) > least][:most]

    def _lost(self, states: States) -> Floats:
        values = self.variants.predict(states)
        lost: Floats = values[0] - values
        return lost

    # Levels.
    def _first_level(self) -> tuple[list[Node], Game | None]:
        players = branches(self.hood, self.has_own)
        if not players:
            return [], None
        orders, count = None, len(self.empty)
        if len(players) > EXACT:
            count = 2 * self.effort.contexts
            orders = paired_orders(len(players), count, self.rng)
        bases = self.empty[np.arange(count) % len(self.empty)]
        game = Game(len(players), count, coalition(players, bases), orders)
        pairs = self.empty[np.arange(self.effort.contexts) // 2 % len(self.empty)]
        return self._nodes(players, pairs), game

    def _share_first(self, top: list[Node], game: Game) -> None:
        shares = play(self.variants, [game])[0]
        if game.orders is None:  # nothing was left to chance but the donors of the entity's columns
            shares = Shares(shares.values, np.zeros(len(top)))
        whole, empty = (
            self.variants.outputs(s).table for s in (self.variants.full[None], self.empty)
        )
        shares = adding_up(shares, whole[0] - empty.mean(0))
        for place, node in enumerate(top):
            node.part = Part(node.player, shares.values[place], float(shares.errors[place]))

    def _level(self, nodes: list[Node], members: Callable[[Node], list[Player]]) -> Level:
        """Games that divide nodes into the players that `members` gives."""
        games, divided, alone = [], [], []
        for node in nodes:
            players = members(node)
            if len(players) == 1:
                node.inside = [Node(players[0], node.contexts)]
                alone.append(node)
            if len(players) < 2:
                continue
            orders, contexts = None, node.contexts
            if len(players) > FEW:
                # An order and its reverse in each context, not in two: what lies behind other
                # groups is cut off in the contexts without them, where no order says anything.
                orders = paired_orders(len(players), 2 * len(contexts), self.rng)
                contexts = np.repeat(contexts, 2, 0)
            games.append(Game(len(players), len(contexts), coalition(players, contexts), orders))
            divided.append((node, players))
        for node, players in divided:
            node.inside = self._nodes(players, node.contexts)
        return Level(games, [node for node, _ in divided], alone)

    def _nodes(self, players: Sequence[Player], contexts: States) -> list[Node]:
        """Players with the contexts in which each is divided further: the others that come before
        it in a random order are there."""
        orders = paired_orders(len(players), len(contexts), self.rng)
        rank = np.argsort(orders, axis=1)
        states = coalition(players, contexts)(rank[:, None, :] < rank[:, :, None])
        return [Node(player, states[:, place]) for place, player in enumerate(players)]

    def _into_columns(self, nodes: list[Node]) -> ColumnGames:
        """Divide rows into their presence, with columns that any row might have, and each of their
        columns."""
        games, divided = [], []
        for node in nodes:
            unit = int(node.player.units[0])
            names = self.columns.get(self.hood.table(unit), [])
            is_own = node.player.kind == "own"
            donors = self.donors if is_own else self._draw(self.hood.table(unit), DRAWS)
            if donors is None or not len(donors) or len(names) < (2 if is_own else 1):
                continue
            orders = paired_orders(len(names), len(node.contexts), self.rng)
            if not is_own:  # a row comes before its columns
                orders = np.concatenate([np.full((len(orders), 1), len(names)), orders], 1)
            players: list[str | None] = [*names] if is_own else [*names, None]
            state = self._shown(unit, node.contexts, names, donors, is_own)
            games.append(Game(len(players), len(node.contexts), state, orders))
            divided.append((node, players))
        return ColumnGames(games, divided)

    def _shown(
        self,
        unit: int,
        contexts: States,
        names: list[str],
        donors: NDArray[np.int64],
        is_own: bool,
    ) -> StateOf:
        table, row = self.hood.table(unit), int(self.hood.row_numbers[unit])
        stand_ins = self.variants.stand_ins
        places = stand_ins.bits(table, names)
        bits = np.array(places, np.int64 if max(places) < 1 << 62 else object)

        def state(there: Mask) -> States:
            made = np.repeat(contexts[:, None], there.shape[1], 1)
            hidden = (~there[:, :, : len(names)]).astype(bits.dtype) @ bits  # (contexts, n) masks
            shown = np.empty(hidden.shape, np.int64)
            for context, masks in enumerate(hidden.tolist()):
                donor = int(donors[context // 2 % len(donors)])
                shown[context] = [stand_ins.masked_state(table, row, donor, m) for m in masks]
            is_there = np.ones_like(shown, bool) if is_own else there[:, :, -1]
            made[:, :, unit] = np.where(is_there, shown, made[:, :, unit])
            return made

        return state

    def _other_columns(self) -> tuple[States, list[int]]:
        """Everything as it is, then states in which each of some sampled rows alone shows another's
        columns; and these rows."""
        stand_ins = self.variants.stand_ins
        drawn: dict[str, tuple[list[int], int]] = {}  # donors of a table, and its columns
        rows: list[int] = self.hood.row_numbers.tolist()
        units, shown = list[int](), list[int]()
        for unit in range(1, self.hood.num_rows):
            table = self.hood.table(unit)
            if table not in drawn:
                donors = self._draw(table, self.hood.num_rows).tolist()
                drawn[table] = donors, sum(stand_ins.bits(table, self.columns.get(table, [])))
            donors, mask = drawn[table]
            if mask and donors:
                units.append(unit)
                shown.append(stand_ins.masked_state(table, rows[unit], donors[unit], mask))
        states = np.repeat(self.variants.full[None], 1 + len(units), 0)
        states[np.arange(1, len(states)), units] = shown
        return states, units

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
