"""`Shape`: how much room a batch has, and where its parts lie in one buffer."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev

# Shapes for usual batches, at most. Each is a recording, and as many as twelve whose rows are 7 %
# apart leave as much room empty.
LEVELS = 5
USUAL = 3.5  # standard deviations over the mean rows for which the largest of them has room
# What follows from the rows has room over the largest ratio that was seen; where that is too
# little, a batch takes the next larger shape.
RATIO_MARGIN = 1.03
NEAR = 0.5  # of the batches that were seen, the share whose ratios count for a shape: the nearest
# One more shape is for batches that have more rows, or much of something else.
MARGIN, FAR, SPARE = 1.08, 4.5, 1.25


@dataclass(frozen=True)
class Extras:
    """What a model reads of a batch besides rows and their messages.

    Attributes:
        keys: Child and parent table of each relation, where rows are read table by table and
            foreign keys relation by relation (`nn/blocks.py`); None where they are not.
        has_kinds: Whether the relation and direction of each message are read.
        positions: Eigenvectors of each subgraph's Laplacian.
    """

    keys: tuple[tuple[int, int], ...] | None = None
    has_kinds: bool = False
    positions: int = 0


PLAIN = Extras()


@dataclass(frozen=True)
class Size:
    """What a batch needs: rows, those of them that refinement keeps, messages (two for each edge),
    and the distinct rows of each table; where a model reads them one by one, also all rows of each
    table and the edges of each relation."""

    rows: int
    refined: int
    messages: int
    tables: tuple[int, ...]
    blocks: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shape:
    """Room for a batch.

    Attributes:
        seeds: B.
        rows: T; one more than real rows at least, so that there is a filler row.
        refined: Rows behind refinement, likewise.
        messages: Two for each edge.
        tables: For each table, its distinct rows; a table without room never occurs.
        blocks: For each table, all its rows; empty where `extras` has no keys.
        relations: For each relation its edges, likewise.
        extras: What is packed besides.
    """

    seeds: int
    rows: int
    refined: int
    messages: int
    tables: tuple[int, ...]
    blocks: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()
    extras: Extras = PLAIN

    def fits(self, size: Size) -> bool:
        return (
            size.rows < self.rows
            and size.refined < self.refined
            and size.messages <= self.messages
            and all(count <= room for count, room in zip(size.tables, self.tables))
            and all(count <= room for count, room in zip(size.blocks, self.blocks))
            and all(count <= room for count, room in zip(size.relations, self.relations))
        )

    @cached_property
    def present(self) -> tuple[int, ...]:
        """The tables that have room, in order: those that are stacked."""
        return tuple(number for number, room in enumerate(self.tables) if room)

    @property
    def height(self) -> int:
        """Rows of each table in the stack of all."""
        return max(self.tables, default=0)

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Where each part lies among the 32-bit words of the buffer. Numbers of 64 bits come
        first."""
        words = {
            "seed_time": 2 * self.seeds,
            "seed_key": 2 * self.seeds,
            "index": self.seeds,
            "offsets": self.seeds + 1,
            "refined_offsets": self.seeds + 1,
            "counts": len(self.tables) + 2,  # distinct rows of each table, rows, seeds
            **dict.fromkeys(
                ("table", "hop", "age", "has_time", "subgraph", "source", "used"), self.rows
            ),
            "used_starts": len(self.present) * self.height + 1,
            "cells": sum(self.tables),
            "starts": self.rows + 1,
            **dict.fromkeys(("row", "other", "run_start", "run_end", "reverse"), self.messages),
            **self._extra_words(),
        }
        parts, at = {}, 0
        for name, count in words.items():
            parts[name] = slice(at, at + count)
            at += count
        return parts

    @property
    def extra_names(self) -> list[str]:
        """The parts that `extras` adds."""
        return list(self._extra_words())

    def _extra_words(self) -> dict[str, int]:
        extras = self.extras
        words = {"kind": self.messages} if extras.has_kinds else {}
        if extras.positions:
            words["positions"] = self.rows * extras.positions
        if extras.keys is not None:
            edges = sum(self.relations)
            words |= {"block_rows": sum(self.blocks), "joined": self.rows}
            words |= dict.fromkeys(("child", "parent", "is_edge", "by_child", "by_parent"), edges)
            words["child_starts"] = sum(self.blocks[child] + 1 for child, _ in extras.keys)
            words["parent_starts"] = sum(self.blocks[parent] + 1 for _, parent in extras.keys)
        return words

    @property
    def words(self) -> int:
        return max(int(part.stop) for part in self.parts.values())


def choose_shapes(
    seen: Sequence[Size],
    seeds: int,
    limit: int,
    table_rows: Sequence[int],
    extras: Extras = PLAIN,
) -> list[Shape]:
    """Shapes for batches like those that were seen, smallest first; the last is for those that are
    not like them.

    Everything but the rows follows from them by ratios that were seen, so that one number
    distinguishes the shapes.

    Args:
        seen: Sizes of some batches.
        seeds: B.
        limit: Most rows that a batch can have.
        table_rows: Rows of each table; no batch has more distinct ones.
        extras: What is packed besides.
    """
    rows_seen = sorted(size.rows for size in seen)
    mean, spread = fmean(rows_seen), stdev(rows_seen) if len(seen) > 1 else 0.0
    usual = min(limit, max(rows_seen[-1], int(mean + USUAL * spread))) + 1
    far = min(limit, int(max(rows_seen[-1] * MARGIN, mean + FAR * spread))) + 1
    levels = {_up(rows, 64) for rows in (*_borders(rows_seen, LEVELS - 1), usual)}

    def shape(rows: int, like: Sequence[Size], margin: float) -> Shape:
        def room(values: Sequence[int], more: int = 0, multiple: int = 64) -> int:
            """For what the batches have so much of."""
            ratios = [v / size.rows for v, size in zip(values, seen) if size in like]
            return _up(rows * margin * max(ratios) + more, multiple)

        def rooms(each: Iterable[Sequence[int]]) -> tuple[int, ...]:
            """Of tables or relations; one that no batch has gets none."""
            return tuple(room(v, multiple=32) if any(v) else 0 for v in zip(*each))

        return Shape(
            seeds=seeds,
            rows=rows,
            refined=min(rows, room([s.refined for s in seen], more=1)),
            messages=room([s.messages for s in seen]),
            tables=tuple(map(min, rooms(s.tables for s in seen), (_up(n, 32) for n in table_rows))),
            blocks=rooms(s.blocks for s in seen),
            relations=rooms(s.relations for s in seen),
            extras=extras,
        )

    def near(rows: int) -> Sequence[Size]:
        by_distance = sorted(seen, key=lambda size: abs(size.rows - rows))
        return by_distance[: max(1, round(NEAR * len(seen)))]

    usual_shapes = [shape(rows, near(rows), RATIO_MARGIN) for rows in sorted(levels)]
    last = shape(_up(far, 64), seen, RATIO_MARGIN * SPARE)
    return list(dict.fromkeys([*usual_shapes, last]))


def _borders(rows: Sequence[int], count: int) -> list[int]:
    """Room for the rows of each of some batches, in so many sizes that least of it stays empty.

    Args:
        rows: Ascending.

    Returns:
        The sizes, ascending; each has room for one more row than one of the batches.
    """
    # For the first n batches: the room that they take altogether, and the sizes.
    best: list[tuple[int, list[int]]] = [(0, [])]
    best += [(n * (rows[n - 1] + 1), [rows[n - 1] + 1]) for n in range(1, len(rows) + 1)]
    for _ in range(count - 1):
        best = [best[0]] + [
            min(
                (best[m][0] + (n - m) * (rows[n - 1] + 1), [*best[m][1], rows[n - 1] + 1])
                for m in range(n)
            )
            for n in range(1, len(rows) + 1)
        ]
    return sorted(set(best[-1][1]))


def _up(value: float, multiple: int) -> int:
    return -(-max(1, int(value + 0.999)) // multiple) * multiple
