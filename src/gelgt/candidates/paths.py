"""Paths of foreign keys from the entity table of a recommendation to the table it recommends.

    drivers ← results → races → circuits     the circuits that a driver raced at
    users ← visits → shops ← stock → items   the items of the shops that a user visits

A path of steps down and then up leads through the entity's own rows to what they name: its ends are
*links*, and what they lead to is what the entity has had.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.graph import Graph
from gelgt.history.keys import Key, keys_of

HOPS = 4
MOST_PATHS = 6


@dataclass(frozen=True)
class Step:
    """One foreign key, followed to the row it names, or down to the rows that name this one."""

    key: Key
    is_down: bool

    @property
    def table(self) -> str:
        """Where it leads."""
        return self.key.child if self.is_down else self.key.parent


@dataclass(frozen=True)
class Path:
    """Steps from the entity table to the recommended one."""

    start: str
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return self.start + "".join(
            f" {'←' if step.is_down else '→'} {step.table}" for step in self.steps
        )

    @property
    def name(self) -> str:
        """Unique among paths: tables, and columns where a table is reached by one of several."""
        return self.start + "".join(
            f" < {s.key.child}.{s.key.column}" if s.is_down else f" > {s.key.column}"
            for s in self.steps
        )

    @property
    def is_link(self) -> bool:
        """Whether it goes down, then up: through the entity's own rows alone."""
        downs = [step.is_down for step in self.steps]
        return downs == sorted(downs, reverse=True) and downs[0] and not downs[-1]

    def codes(self, graph: Graph) -> NDArray[np.int64]:
        """(L, 3) for the kernel: whether a step leads down, the table of its key, its place."""
        return np.array(
            [[s.is_down, graph.table_number(s.key.child), s.key.place] for s in self.steps],
            np.int64,
        )


def destination_paths(
    graph: Graph,
    source: str,
    destination: str,
    *,
    hidden: frozenset[tuple[str, str]] = frozenset(),
    hops: int = HOPS,
    most: int = MOST_PATHS,
) -> list[Path]:
    """The paths from one table to another, the shortest first, links before others of their length.

    A step that goes back up the key it came down by leads to the row it came from and is left out.
    A destination that is passed on the way ends the path there.

    Args:
        graph: The database's graph.
        source: The entity table.
        destination: The recommended table.
        hidden: Columns that the task must not see.
        hops: Most steps of a path.
        most: How many paths are kept.
    """
    keys = keys_of(graph, hidden)

    def longer(path: tuple[Step, ...], table: str) -> Iterator[tuple[Step, ...]]:
        for key in keys:
            for is_down in (True, False):
                if table != (key.parent if is_down else key.child):
                    continue
                if path and not is_down and path[-1] == Step(key, True):
                    continue
                yield (*path, Step(key, is_down))

    found: list[Path] = []
    open_paths: list[tuple[Step, ...]] = [()]
    for _ in range(hops):
        reached = [
            new for path in open_paths for new in longer(path, path[-1].table if path else source)
        ]
        ended = [Path(source, steps) for steps in reached if steps[-1].table == destination]
        found += sorted(ended, key=lambda path: not path.is_link)
        open_paths = [steps for steps in reached if steps[-1].table != destination]
        if len(found) >= most:
            break
    return found[:most]


def path_names(paths: Sequence[Path]) -> list[str]:
    """Paths in arrows, or with their columns where arrows would name two of them alike."""
    shown = [str(path) for path in paths]
    return [path.name if shown.count(text) > 1 else text for path, text in zip(paths, shown)]
