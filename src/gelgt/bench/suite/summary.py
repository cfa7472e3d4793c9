"""What a suite shows over all tasks: ranks, means of points, and differences with their intervals.

A task's score is the mean over its origins of the mean over seeds. Ranks are taken within a task,
ties share theirs, and a column that has no score there (a failure, a time-out) ranks last. The mean
of points is given for columns that have a score on every task.

A difference has two 95 % intervals. Over entities: the entities of each task and origin are
resampled, the tasks stay; it asks whether the same tasks with other entities would say the same.
Over databases: whole databases are resampled; it asks whether other databases would. Few databases
make the second a rough guess. A task is won or lost where its own interval over entities lies on
one side of 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.bench.suite.scores import Predicted, Values, raw_score, resampled_points, seed_points

SHARE = 0.95
DATABASE_DRAWS = 10_000


@dataclass(frozen=True)
class TaskScore:
    """A column on a task, over the origins that it has.

    Attributes:
        points: The mean over origins and seeds.
        by_seed: The mean over origins, for each seed that all of them have.
        by_origin: The mean over seeds.
        drawn: (draws,) by origin, on resampled entities.
    """

    points: float
    by_seed: tuple[float, ...]
    by_origin: Mapping[int, float]
    drawn: Mapping[int, Values]


Scores = Mapping[str, Mapping[str, TaskScore]]  # task title → column


def task_scores(units: Sequence[Predicted], draws: int) -> dict[str, dict[str, TaskScore]]:
    """Every column of every task."""
    scores: dict[str, dict[str, TaskScore]] = {}
    for title in dict.fromkeys(predicted.unit.title for predicted in units):
        of_task = {p.unit.origin: p for p in units if p.unit.title == title}
        points = {origin: seed_points(p) for origin, p in of_task.items()}
        drawn = {origin: resampled_points(p, draws) for origin, p in of_task.items()}
        names = dict.fromkeys(name for by_column in points.values() for name in by_column)
        scores[title] = {
            name: _task_score(
                {origin: each[name] for origin, each in points.items() if name in each},
                {origin: each[name] for origin, each in drawn.items() if name in each},
            )
            for name in names
        }
    return scores


def _task_score(
    points: Mapping[int, Mapping[int, float]], drawn: Mapping[int, Values]
) -> TaskScore:
    by_origin = {origin: fmean(by_seed.values()) for origin, by_seed in points.items()}
    seeds = set.intersection(*(set(by_seed) for by_seed in points.values()))
    by_seed = tuple(fmean(each[seed] for each in points.values()) for seed in sorted(seeds))
    return TaskScore(fmean(by_origin.values()), by_seed, by_origin, drawn)


def score_entry(score: TaskScore, is_binary: bool) -> dict[str, Any]:
    """A column on a task, as JSON has it."""
    return {
        "points": round(score.points, 3),
        "spread": round(stdev(score.by_seed), 3) if len(score.by_seed) > 1 else 0.0,
        "score": round(raw_score(score.points, is_binary), 5),
        "seeds": len(score.by_seed),
        "origins": {str(origin): round(each, 3) for origin, each in score.by_origin.items()},
    }


def mean_ranks(scores: Scores, names: Sequence[str]) -> dict[str, float]:
    """The mean over tasks of each column's rank, 1 being best; columns without a score are last."""
    ranks: dict[str, list[float]] = {name: [] for name in names}
    for of_task in scores.values():
        values = [of_task[name].points if name in of_task else -np.inf for name in names]
        for name, value in zip(names, values):
            above = sum(other > value for other in values)
            ranks[name].append(above + (1 + sum(other == value for other in values)) / 2)
    return {name: fmean(each) for name, each in ranks.items() if each}


def mean_points(scores: Scores, names: Sequence[str]) -> dict[str, float]:
    """The mean over tasks of the columns that have a score on all of them."""
    return {
        name: fmean(of_task[name].points for of_task in scores.values())
        for name in names
        if scores and all(name in of_task for of_task in scores.values())
    }


def compare_columns(
    scores: Scores, datasets: Mapping[str, str], one: str, other: str
) -> dict[str, Any] | None:
    """One column less another, over the tasks and origins that both have; None where there are
    none.

    Args:
        scores: Of every task.
        datasets: The database of each task.
        one: A column.
        other: Another.
    """
    tasks, gaps, drawn = [], list[float](), list[Values]()
    for title, of_task in scores.items():
        if one not in of_task or other not in of_task:
            continue
        ours, theirs = of_task[one], of_task[other]
        origins = [origin for origin in ours.drawn if origin in theirs.drawn]
        if not origins:
            continue
        gaps.append(fmean(ours.by_origin[o] - theirs.by_origin[o] for o in origins))
        drawn.append(np.mean([ours.drawn[o] - theirs.drawn[o] for o in origins], axis=0))
        low, high = interval(drawn[-1])
        tasks.append(
            {
                "task": title,
                "difference": round(gaps[-1], 3),
                "low": round(low, 3),
                "high": round(high, 3),
                "shown": "win" if low > 0 else "loss" if high < 0 else "undecided",
            }
        )
    if not tasks:
        return None
    low, high = interval(np.mean(drawn, axis=0))
    of_databases = _over_databases([datasets[str(t["task"])] for t in tasks], np.array(gaps))
    return {
        "one": one,
        "other": other,
        "difference": round(fmean(gaps), 3),
        "entities": [round(low, 3), round(high, 3)],
        "databases": None if of_databases is None else [round(x, 3) for x in of_databases],
        "wins": sum(task["shown"] == "win" for task in tasks),
        "losses": sum(task["shown"] == "loss" for task in tasks),
        "tasks": tasks,
    }


def interval(drawn: Values) -> tuple[float, float]:
    """The middle 95 % of some draws."""
    low, high = np.quantile(drawn, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)


def _over_databases(datasets: Sequence[str], gaps: Values) -> tuple[float, float] | None:
    """The interval of the mean over tasks where databases are drawn with replacement, with all
    their tasks; None for a single one."""
    names = sorted(set(datasets))
    if len(names) < 2:
        return None
    place = np.array([names.index(name) for name in datasets])
    sums, sizes = np.bincount(place, gaps), np.bincount(place)
    generator = np.random.default_rng(0)
    counts: NDArray[np.int64] = generator.multinomial(
        len(names), np.full(len(names), 1 / len(names)), DATABASE_DRAWS
    )
    return interval((counts @ sums) / (counts @ sizes))
