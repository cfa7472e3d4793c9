"""The databases of a suite, and their tasks: as they are, or replayed at earlier origins."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gelgt.errors import GelgtError, TaskError, did_you_mean
from gelgt.sources import Database, open
from gelgt.sources.relbench_folder import is_relbench_folder
from gelgt.tasks import Task
from gelgt.tasks.folder import task_names
from gelgt.tasks.origins import replayed
from gelgt.tasks.task import SPLITS

TEST = 0  # the origin of a task that is not replayed
SCORED_TYPES = ("binary_classification", "regression")


@dataclass(frozen=True)
class Unit:
    """A task at one origin.

    Attributes:
        dataset: The name of its folder.
        name: Of the task.
        origin: `TEST`, or how many blocks earlier its test lies.
        task: Replayed where it is at an earlier origin.
    """

    dataset: str
    name: str
    origin: int
    task: Task

    @property
    def title(self) -> str:
        """As tables call the task."""
        return f"{self.dataset} / {self.name}"


@dataclass(frozen=True)
class Folder:
    """A database with the units that are scored on it."""

    name: str
    db: Database
    units: tuple[Unit, ...]


def check_folders(folders: Sequence[Path]) -> dict[str, Path]:
    """The folders by their names, each once.

    Raises:
        GelgtError: one is no database folder, or two have the same name.
    """
    paths: dict[str, Path] = {}
    for folder in folders:
        path = folder.expanduser().resolve()
        if not is_relbench_folder(path):
            lacks = "is no database folder: it lacks a manifest.yaml or a folder db"
            raise GelgtError(
                "not_a_folder",
                f"{folder} {lacks if path.exists() else 'does not exist'}.",
                hint="Make one with: gelgt import SOURCE FOLDER, then gelgt task FOLDER TASK.",
            )
        if paths.setdefault(path.name, path) != path:
            raise GelgtError(
                "same_name",
                f"{paths[path.name]} and {path} have the same name, by which runs are filed.",
                hint="Rename one of the folders, or link to it under another name.",
            )
    return paths


def open_folders(
    folders: Sequence[Path], names: Sequence[str], origins: int
) -> tuple[list[Folder], list[str]]:
    """The databases with their tasks, and a sentence for each task or origin that is left out.

    Args:
        folders: RelBench folders with tasks.
        names: Only these tasks, ``TASK`` or ``FOLDER/TASK``; empty for all.
        origins: How many earlier origins each task is replayed at; 0 for its test.

    Raises:
        GelgtError: a bad folder, or a task that no folder has.
    """
    databases = {name: open(str(path)) for name, path in check_folders(folders).items()}
    available = {name: task_names(db) for name, db in databases.items()}
    _check_names(names, available)
    opened, left_out = [], list[str]()
    for dataset, db in databases.items():
        units: list[Unit] = []
        for name in available[dataset]:
            if not names or name in names or f"{dataset}/{name}" in names:
                units += _units(dataset, db, name, origins, left_out)
        if units:
            opened.append(Folder(dataset, db, tuple(units)))
        elif not names:
            left_out.append(f"{dataset}: no task of it can be scored")
    if not opened:
        reasons = "".join(f" {reason}." for reason in left_out)
        raise GelgtError(
            "no_tasks",
            f"No task can be scored.{reasons}",
            hint="Make one with: gelgt task FOLDER TASK, or replay fewer origins.",
        )
    return opened, left_out


def _check_names(names: Sequence[str], available: dict[str, list[str]]) -> None:
    short = [task for tasks in available.values() for task in tasks]
    full = [f"{dataset}/{task}" for dataset, tasks in available.items() for task in tasks]
    for name in names:
        if name not in short and name not in full:
            raise GelgtError(
                "unknown_task",
                f"No folder has a task '{name}'.",
                hint=did_you_mean(name, full if "/" in name else sorted(set(short))),
            )
    for dataset, tasks in available.items():
        if not tasks:
            raise GelgtError(
                "no_tasks",
                f"The folder {dataset} has no tasks.",
                hint="Make one with: gelgt task FOLDER TASK, or leave the folder out.",
            )


def _units(dataset: str, db: Database, name: str, origins: int, left_out: list[str]) -> list[Unit]:
    """The origins of a task that can be scored; reasons for the others are added to `left_out`."""
    try:
        task = db.task(name)
    except GelgtError as error:  # a broken task does not end the suite
        left_out.append(f"{dataset}/{name}: {error.message}")
        return []
    if task.task_type not in SCORED_TYPES or task.time_col is None:
        kind = str(task.task_type).replace("_", " ")
        left_out.append(f"{dataset}/{name}: the suite scores no {kind}")
        return []
    units = []
    for origin in range(1, origins + 1) if origins else (TEST,):
        try:
            at = replayed(task, origin) if origins else task
        except TaskError as error:
            left_out.append(f"{dataset}/{error.message[:-1].replace(chr(39), '')}")
            break  # earlier origins have less history still
        if (reason := _unscorable(at)) is not None:
            where = f" at origin {origin}" if origins else ""
            left_out.append(f"{dataset}/{name}{where}: {reason}")
            continue
        units.append(Unit(dataset, name, origin, at))
    return units


def _unscorable(task: Task) -> str | None:
    """Why a task has no score: a split with one class, or values that are all the same."""
    for split in SPLITS:
        labels = task.table(split).column(task.label_col).to_numpy().astype(np.float64)
        labels = labels[np.isfinite(labels)]
        if not len(labels):
            return f"{split} has no labels"
        if (labels == labels[0]).all() and (split != "val" or task.task_type != "regression"):
            return f"all {len(labels):,} labels of {split} are {labels[0]:g}"
    return None
