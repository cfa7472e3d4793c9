"""Paths of foreign keys from the entity to other rows, named as in the history columns
(`history/events.py`): `>` follows a key to the row it refers to, `<` leads to the rows that refer
here."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from gelgt.graph import Graph
from gelgt.graph.store import Relation


@dataclass(frozen=True)
class Path:
    """A path: its name, the tables on it, the entity's first, the keys that it follows, and its
    steps as they are named."""

    name: str
    tables: tuple[str, ...] = field(compare=False)
    keys: tuple[str, ...] = field(default=(), compare=False)
    steps: tuple[str, ...] = field(default=(), compare=False)

    @property
    def table(self) -> str:
        """Where it ends."""
        return self.tables[-1]

    @property
    def length(self) -> int:
        return len(self.tables) - 1

    @property
    def first_step(self) -> str:
        """The step with which it begins."""
        return self.steps[0] if self.steps else self.name

    @staticmethod
    def name_of(text: str) -> str:
        """The name of a path as columns of the history spell it: the newest row is one of its
        rows."""
        return text.replace("> newest ", "> ").strip()

    @classmethod
    def parse(cls, name: str, entity: str, graph: Graph) -> "Path":
        """The path of a name. Names of tables and columns may hold anything, so every step that
        fits is tried."""
        return next(_paths(cls("", (entity,)), name, graph))


OWN = Path("", ())
_parsed: WeakKeyDictionary[Graph, dict[tuple[str, str], Path]] = WeakKeyDictionary()


def parsed(name: str, entity: str, graph: Graph) -> Path:
    """`Path.parse`, once for each name."""
    known = _parsed.setdefault(graph, {})
    if (name, entity) not in known:
        known[name, entity] = Path.parse(name, entity, graph)
    return known[name, entity]


def _paths(path: Path, name: str, graph: Graph) -> Iterator[Path]:
    """The paths of a name that begin with another."""
    if path.name == name:
        yield path
        return
    for relation in graph.relations:
        for table, step in ((relation.child, step_up), (relation.parent, step_down)):
            if table == path.table:
                longer = step(path, relation)
                if name == longer.name or name.startswith(f"{longer.name} "):
                    yield from _paths(longer, name, graph)


def step_up(path: Path, key: Relation) -> Path:
    """A path on to the row that a key refers to."""
    return _longer(path, f"> {key.column}", key.child, key.parent, key.column)


def step_down(path: Path, key: Relation) -> Path:
    """A path on to the rows that refer by a key."""
    return _longer(path, f"< {key.child}.{key.column}", key.parent, key.child, key.column)


def _longer(path: Path, step: str, here: str, there: str, key: str) -> Path:
    return Path(
        f"{path.name} {step}".strip(),
        (*(path.tables or (here,)), there),
        (*path.keys, key),
        (*path.steps, step),
    )
