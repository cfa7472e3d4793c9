"""`Shape`: how much room a batch has, and where its parts lie in one buffer."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev

LEVELS = 12  # of shapes, at most
STEP = 0.93  # of the rows of a shape, what the next smaller one has
MARGIN = 1.08  # room over the largest batch that was seen
# likewise for what follows from the rows; where that is too little, a batch takes the next larger
# shape
RATIO_MARGIN = 1.03


@dataclass(frozen=True)
class Size:
    """What a batch needs: rows, those of them that refinement keeps, messages (two for each edge),
    and the distinct rows of each table."""

    rows: int
    refined: int
    messages: int
    tables: tuple[int, ...]


@dataclass(frozen=True)
class Shape:
    """Room for a batch.

    Attributes:
        seeds: B.
        rows: T; one more than real rows at least, so that there is a filler row.
        refined: Rows behind refinement, likewise.
        messages: Two for each edge.
        tables: For each table, its distinct rows; a table without room never occurs.
    """

    seeds: int
    rows: int
    refined: int
    messages: int
    tables: tuple[int, ...]

    def fits(self, size: Size) -> bool:
        return (
            size.rows < self.rows
            and size.refined < self.refined
            and size.messages <= self.messages
            and all(count <= room for count, room in zip(size.tables, self.tables))
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
        }
        parts, at = {}, 0
        for name, count in words.items():
            parts[name] = slice(at, at + count)
            at += count
        return parts

    @property
    def words(self) -> int:
        return int(self.parts["reverse"].stop)


def choose_shapes(
    seen: Sequence[Size], seeds: int, limit: int, table_rows: Sequence[int]
) -> list[Shape]:
    """Shapes for batches like those that were seen, smallest first.

    Everything but the rows follows from them by the largest ratio that was seen, so that one number
    distinguishes the shapes.

    Args:
        seen: Sizes of some batches.
        seeds: B.
        limit: Most rows that a batch can have.
        table_rows: Rows of each table; no batch has more distinct ones.
    """
    rows_seen = [size.rows for size in seen]
    spread = stdev(rows_seen) if len(seen) > 1 else 0.0
    top = min(limit, int(max(max(rows_seen) * MARGIN, fmean(rows_seen) + 4.5 * spread))) + 1

    def ratio(values: Sequence[int]) -> float:
        return RATIO_MARGIN * max(value / size.rows for value, size in zip(values, seen))

    refined, messages = ratio([s.refined for s in seen]), ratio([s.messages for s in seen])
    tables = [ratio([s.tables[number] for s in seen]) for number in range(len(table_rows))]
    shapes = []
    levels = next((level for level in range(LEVELS) if top * STEP**level < min(rows_seen)), LEVELS)
    for level in reversed(range(levels + 1)):
        rows = _up(top * STEP**level, 64)
        shapes.append(
            Shape(
                seeds=seeds,
                rows=rows,
                refined=min(rows, _up(rows * refined + 1, 64)),
                messages=_up(rows * messages, 64),
                tables=tuple(
                    min(_up(rows * share, 32), _up(count, 32)) if share else 0
                    for share, count in zip(tables, table_rows)
                ),
            )
        )
    return list(dict.fromkeys(shapes))


def _up(value: float, multiple: int) -> int:
    return -(-max(1, int(value + 0.999)) // multiple) * multiple
