"""The foreign keys that histories follow."""

from dataclasses import dataclass

from gelgt.graph import Graph


@dataclass(frozen=True)
class Key:
    """A foreign key: `column` of `child`, the place of the column among its keys, and the table it
    refers to."""

    child: str
    column: str
    place: int
    parent: str


def keys_of(graph: Graph, hidden: frozenset[tuple[str, str]]) -> list[Key]:
    """Every foreign key that a task may see."""
    places = {t: [r.column for r in graph.relations if r.child == t] for t in graph.tables}
    every = [
        Key(r.child, r.column, places[r.child].index(r.column), r.parent) for r in graph.relations
    ]
    return [key for key in every if (key.child, key.column) not in hidden]
