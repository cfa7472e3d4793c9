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
# further room of one more shape, for batches that have much of something but not more rows
SPARE = 1.25


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
    """Shapes for batches like those that were seen, smallest first.

    Everything but the rows follows from them by the largest ratio that was seen, so that one number
    distinguishes the shapes.

    Args:
        seen: Sizes of some batches.
        seeds: B.
        limit: Most rows that a batch can have.
        table_rows: Rows of each table; no batch has more distinct ones.
        extras: What is packed besides.
    """
    rows_seen = [size.rows for size in seen]
    spread = stdev(rows_seen) if len(seen) > 1 else 0.0
    top = min(limit, int(max(max(rows_seen) * MARGIN, fmean(rows_seen) + 4.5 * spread))) + 1

    def ratio(values: Sequence[int]) -> float:
        return RATIO_MARGIN * max(value / size.rows for value, size in zip(values, seen))

    def ratios(each: Sequence[Sequence[int]]) -> list[float]:
        return [ratio(values) for values in zip(*each)]

    refined, messages = ratio([s.refined for s in seen]), ratio([s.messages for s in seen])
    tables = ratios([s.tables for s in seen])
    blocks, relations = ratios([s.blocks for s in seen]), ratios([s.relations for s in seen])
    shapes = []
    levels = next((level for level in range(LEVELS) if top * STEP**level < min(rows_seen)), LEVELS)
    for level, spare in [*((level, 1.0) for level in reversed(range(levels + 1))), (0, SPARE)]:
        rows = _up(top * STEP**level, 64)
        shapes.append(
            Shape(
                seeds=seeds,
                rows=rows,
                refined=min(rows, _up(rows * refined * spare + 1, 64)),
                messages=_up(rows * messages * spare, 64),
                tables=tuple(
                    min(_up(rows * share * spare, 32), _up(count, 32)) if share else 0
                    for share, count in zip(tables, table_rows)
                ),
                blocks=tuple(_up(rows * share * spare, 32) if share else 0 for share in blocks),
                relations=tuple(_up(rows * s * spare, 32) if s else 0 for s in relations),
                extras=extras,
            )
        )
    return list(dict.fromkeys(shapes))


def _up(value: float, multiple: int) -> int:
    return -(-max(1, int(value + 0.999)) // multiple) * multiple
