"""Who plays: a tree of groups over the units of a neighbourhood.

    the prediction
      the entity's own columns
      everything behind one foreign key of the entity      customers ◄ orders …
        the rows of one path                               orders ◄ items ► products
          single rows, and the others by their age
            the columns of a row

Each level divides what the level above has found.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.paths import Path

AGES = (7.0, 30.0, 90.0, 365.0, 1825.0)  # days; borders of the groups of other rows


@dataclass(frozen=True)
class Player:
    """Units that come and go together.

    Attributes:
        kind: ``own``, ``branch``, ``path``, ``row`` or ``age``.
        path: The path to them; of a branch, its first step.
        units: The units; (0,) alone is the entity's own row, whose columns are shown or not.
    """

    kind: str
    path: Path
    units: NDArray[np.int64]


def branches(hood: Neighbourhood, has_own: bool) -> list[Player]:
    """The entity's own columns, and all paths that begin with the same step."""
    steps: dict[str, list[Path]] = {}
    for path in hood.groups:
        steps.setdefault(path.first_step, []).append(path)
    own = [Player("own", hood.paths[0], np.zeros(1, np.int64))] if has_own else []
    return own + [
        Player("branch", min(paths, key=lambda p: p.length), _units(hood, paths))
        for paths in steps.values()
    ]


def paths_of(hood: Neighbourhood, branch: Player) -> list[Player]:
    """The paths of a branch."""
    step = branch.path.first_step
    return [
        Player("path", path, units)
        for path, units in hood.groups.items()
        if path.first_step == step
    ]


def rows_of(
    hood: Neighbourhood, path: Player, score: NDArray[np.float64], most: int
) -> list[Player]:
    """The rows of a path: those with the largest scores (U,) by themselves, the others, and what
    the sample left out, by their age."""
    sampled = path.units[path.units < hood.num_rows]
    by_score = sampled[np.argsort(-np.abs(score[sampled]), kind="stable")]
    alone = np.sort(by_score[:most])
    others = np.setdiff1d(path.units, alone)
    ages = hood.ages[others]
    group = np.where(np.isnan(ages), -1, np.searchsorted(AGES, ages, side="right"))
    players = [Player("row", path.path, np.array([unit])) for unit in alone]
    return players + [Player("age", path.path, others[group == g]) for g in np.unique(group)]


def _units(hood: Neighbourhood, paths: list[Path]) -> NDArray[np.int64]:
    return np.sort(np.concatenate([hood.groups[path] for path in paths]))
