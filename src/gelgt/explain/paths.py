"""Paths of foreign keys from the entity to other rows, named as in the history columns
(`history/events.py`): `>` follows a key to the row it refers to, `<` leads to the rows that refer
here."""

import re
from dataclasses import dataclass, field

from gelgt.graph import Graph
from gelgt.graph.store import Relation


@dataclass(frozen=True, order=True)
class Path:
    """A path: its name, the tables on it, the entity's first, and the keys that it follows."""

    name: str
    tables: tuple[str, ...] = field(compare=False)
    keys: tuple[str, ...] = field(default=(), compare=False)

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
        return re.split(r" (?=[<>] )", self.name)[0]

    @staticmethod
    def name_of(text: str) -> str:
        """The name of a path as columns of the history spell it: the newest row is one of its
        rows."""
        return text.replace("> newest ", "> ").strip()

    @classmethod
    def parse(cls, name: str, entity: str, graph: Graph) -> "Path":
        """The path of a name."""
        path = cls("", (entity,))
        for way, key in re.findall(r"([<>]) (.+?)(?= [<>] |$)", name):
            relation = next(
                r
                for r in graph.relations
                if (way == ">" and r.child == path.table and r.column == key)
                or (way == "<" and r.parent == path.table and f"{r.child}.{r.column}" == key)
            )
            path = step_up(path, relation) if way == ">" else step_down(path, relation)
        return path


OWN = Path("", ())


def step_up(path: Path, key: Relation) -> Path:
    """A path on to the row that a key refers to."""
    tables = path.tables or (key.child,)
    name = f"{path.name} > {key.column}".strip()
    return Path(name, (*tables, key.parent), (*path.keys, key.column))


def step_down(path: Path, key: Relation) -> Path:
    """A path on to the rows that refer by a key."""
    tables = path.tables or (key.parent,)
    name = f"{path.name} < {key.child}.{key.column}".strip()
    return Path(name, (*tables, key.child), (*path.keys, key.column))
