"""How the rows of an aggregated table belong to entities: a chain of foreign keys from child to
parent.

The shortest chain of at most three keys is taken if there is one; several of the same length are an
error that lists them, because a guess would silently answer another question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gelgt.schema.model import TableSchema

MAX_HOPS = 3


@dataclass(frozen=True)
class Hop:
    """The foreign key `table.column` to `parent`."""

    table: str
    column: str
    parent: str

    def __str__(self) -> str:
        return f"{self.table}.{self.column} → {self.parent}"


Chain = tuple[Hop, ...]


@dataclass(frozen=True)
class Link:
    """How rows belong to an entity: the key that names it, and the tables to join for it."""

    owner: Hop
    joins: Chain


def chains(
    tables: Mapping[str, TableSchema], start: str, goal: str, via: tuple[str, str] | None = None
) -> list[Chain]:
    """The shortest chains from a table to the entity table, through the key `via` (table, column)
    if it is given."""
    paths: list[Chain] = [()]
    for _ in range(MAX_HOPS):
        longer = []
        for path in paths:
            here = path[-1].parent if path else start
            if path and here == goal:
                continue
            seen = {start} | {hop.parent for hop in path}
            for key in tables[here].foreign_keys:
                # A table may not be passed twice, but the goal may be the table itself (answers to
                # posts, say).
                if key.table == goal or key.table not in seen:
                    longer.append((*path, Hop(here, key.column, key.table)))
        complete = [
            p
            for p in longer
            if p[-1].parent == goal and (via is None or any((h.table, h.column) == via for h in p))
        ]
        if complete:
            return complete
        paths = longer
    return []


def link(tables: Mapping[str, TableSchema], start: str, chain: Chain) -> Link | None:
    """A chain as a link; None if its rows have no time.

    A row has the time of its time column, or of the newest row that dates it (the lines of an
    order, counted for each product, are dated by the order). The time of the entity does not count:
    it says nothing about when a row of it came. Where there are two readings of the time, there is
    none.
    """
    goal, table = chain[-1].parent, tables[start]
    is_doubtful = table.dating is not None and bool(table.dating.doubt)
    has_time = table.time_col is not None or any(fk.table != goal for fk in table.dating_keys)
    return Link(chain[-1], chain[:-1]) if has_time and not is_doubtful else None
