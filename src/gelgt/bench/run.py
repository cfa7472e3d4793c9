"""Runs a study: trains the cells that are missing and compares all of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gelgt.bench.cells import Cell, CellContext
from gelgt.bench.compare import DRAWS
from gelgt.bench.plan import study_cells
from gelgt.bench.pool import OnEvent, Placed, make_cells
from gelgt.bench.study import Study, StudyConfig
from gelgt.bench.summary import summarise
from gelgt.errors import GelgtError
from gelgt.sources import Database
from gelgt.sources.cache import hash_files
from gelgt.tasks import Task
from gelgt.tasks.definition import read_definition
from gelgt.tasks.folder import task_names
from gelgt.training.data import TrainingData
from gelgt.training.progress import Progress


def study_tasks(db: Database, names: Sequence[str] | None) -> list[Task]:
    """The tasks that are named, or all trainable ones of the database's folder.

    Raises:
        GelgtError: ``no_tasks`` where none is named and the folder has none.
    """
    if names:
        return [db.task(read_definition(name)) for name in names]
    tasks = [
        task
        for task in map(db.task, task_names(db))
        if task.task_type != "recommendation" and task.time_col is not None
    ]
    if not tasks:
        raise GelgtError(
            "no_tasks",
            f"{db.source} has no task that can be trained.",
            hint="Name one with --task.",
        )
    return tasks


def run_study(
    study: Study,
    db: Database,
    tasks: Sequence[Task],
    config: StudyConfig,
    *,
    progress: Progress | None = None,
    on_event: OnEvent = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
    draws: int = DRAWS,
) -> dict[str, Any]:
    """Train every cell that is missing, and give the table.

    Cells that failed are listed with their reason. Those that are left when it is stopped are
    listed too; called again, it continues with them.

    Raises:
        GelgtError: a setting that no variant has, or a folder with runs of something else.
    """
    cells = study_cells(study, tasks, config)
    context, failed = make_missing(cells, db, tasks, config, progress, on_event, stop)
    return summarise(study, context, config, cells, failed, draws)


def make_missing(
    cells: Sequence[Cell],
    db: Database,
    tasks: Sequence[Task],
    config: StudyConfig,
    progress: Progress | None = None,
    on_event: OnEvent = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[CellContext, dict[Path, str]]:
    """Train the cells of a database that are not finished; gives what they share, and what went
    wrong, by the folder of the cell.

    Raises:
        GelgtError: a folder holds a run of something else.
    """
    context, missing = missing_cells(cells, db, tasks, config)
    failed = make_cells(
        [Placed(cell, context) for cell in missing],
        jobs=config.jobs,
        progress=progress,
        on_event=on_event,
        stop=stop,
    )
    return context, failed


def missing_cells(
    cells: Sequence[Cell], db: Database, tasks: Sequence[Task], config: StudyConfig
) -> tuple[CellContext, list[Cell]]:
    """What the cells of a database share, and those of them that are not finished.

    Raises:
        GelgtError: a folder holds a run of something else.
    """
    content_hash = hash_files(db.all_paths())
    missing = [cell for cell in cells if not cell.is_done(content_hash)]
    by_name = {task.name: task for task in tasks}
    if config.jobs > 1:
        # graph and features are computed once, not by every process
        for name in dict.fromkeys(cell.task for cell in missing):
            first = next(cell.config for cell in missing if cell.task == name)
            TrainingData.opened(db, by_name[name], first)
    return CellContext(db, by_name, content_hash, config.device, config.peer_python), missing
