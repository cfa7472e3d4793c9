"""Runs a suite: trains what is missing on every database, and compares all columns over all tasks.

OUT/FOLDER/TASK/VARIANT/seed-N             a run each, as studies have them
OUT/FOLDER/TASK@origin-K/VARIANT/seed-N    the same, replayed
OUT/suite.json, OUT/suite.md               the tables of the test; suite-origins.* of origins
OUT/looks.md                               every time that the test was scored
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gelgt.bench.cells import Cell, Outcome
from gelgt.bench.plan import check_settings, study_cells
from gelgt.bench.pool import OnEvent, Placed, make_cells
from gelgt.bench.run import missing_cells
from gelgt.bench.study import Study, StudyConfig
from gelgt.bench.suite.columns import BASE, pairs, suite_columns, suite_study
from gelgt.bench.suite.folders import TEST, Folder, Unit
from gelgt.bench.suite.looks import log_look
from gelgt.bench.suite.scores import DRAWS, Predicted, read_predictions
from gelgt.bench.suite.summary import (
    compare_columns,
    mean_points,
    mean_ranks,
    score_entry,
    task_scores,
)
from gelgt.bench.summary import machine_facts, run_seconds
from gelgt.bench.tables import portable
from gelgt.runs.folder import SUCCESS
from gelgt.training.progress import Progress

Events = Callable[[Folder], OnEvent]


@dataclass(frozen=True)
class SuiteConfig:
    """How a suite is run.

    Attributes:
        runs: Folder, preset, seeds, settings, budget, regime, jobs.
        variants: Settings of the model's variants, by name.
        peers: Other libraries that get a column.
        origins: Earlier origins that each task is replayed at; 0 scores the test.
    """

    runs: StudyConfig
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    peers: Sequence[str] = ()
    origins: int = 0

    @property
    def study(self) -> Study:
        return suite_study(self.variants, self.peers)

    def check(self) -> None:
        """Raises for a setting that no model has, also one of a variant."""
        for settings in ({}, *self.variants.values()):
            check_settings(
                self.study, replace(self.runs, settings={**self.runs.settings, **settings})
            )


def run_suite(
    folders: Sequence[Folder],
    config: SuiteConfig,
    *,
    left_out: Sequence[str] = (),
    progress: Progress | None = None,
    on_event: Events = lambda folder: lambda event: None,
    stop: Callable[[], bool] = lambda: False,
    draws: int = DRAWS,
) -> dict[str, Any]:
    """Train every cell that is missing, and give the tables.

    Args:
        folders: As `open_folders` gives them.
        config: How it is run.
        left_out: What the tables say about tasks that are not scored.
        progress: Receives the events of every run where there is one job.
        on_event: For each database, receives what happens to its cells.
        stop: Asked all the time; true stops everything, to be resumed later.
        draws: Of the bootstrap over entities.

    Raises:
        GelgtError: a bad setting, or a folder with runs of something else.
    """
    study, cells = config.study, dict[str, list[Cell]]()
    for folder in folders:
        runs = replace(config.runs, out=config.runs.out / folder.name, limits_all=True)
        cells[folder.name] = study_cells(study, [unit.task for unit in folder.units], runs)
    before = _finished(cells)
    missing: list[Placed] = []
    hears: dict[Path, OnEvent] = {}  # by the folder of a cell
    for folder in folders:
        if stop():  # graph and features of a database may take long
            break
        tasks = [unit.task for unit in folder.units]
        context, of_folder = missing_cells(cells[folder.name], folder.db, tasks, config.runs)
        missing += [Placed(cell, context) for cell in of_folder]
        hears |= dict.fromkeys((cell.folder for cell in of_folder), on_event(folder))
    failed = make_cells(
        [] if stop() else _in_line(missing, config.runs.jobs),
        jobs=config.runs.jobs,
        progress=progress,
        on_event=lambda event: hears[event.cell.folder](event),
        stop=stop,
    )
    return _Suite(folders, config, study, cells, failed).result(
        left_out, len(_finished(cells)) - len(before), draws
    )


def _in_line(cells: Sequence[Placed], jobs: int) -> list[Placed]:
    """The order in which cells are trained: several at once seed by seed, so that a suite that is
    stopped has something of every task, and those of many labels first, so that none is left alone
    at the end."""
    if jobs == 1:
        return list(cells)

    def place(placed: Placed) -> tuple[int, int]:
        cell, context = placed
        return cell.seed, -context.tasks[cell.task].rows["train"]

    return sorted(cells, key=place)


def _finished(cells: Mapping[str, Sequence[Cell]]) -> list[Cell]:
    return [cell for each in cells.values() for cell in each if (cell.folder / SUCCESS).is_file()]


@dataclass(frozen=True)
class _Suite:
    """A suite whose runs are as finished as they get."""

    folders: Sequence[Folder]
    config: SuiteConfig
    study: Study
    cells: Mapping[str, Sequence[Cell]]
    failed: Mapping[Path, str]

    def result(self, left_out: Sequence[str], trained: int, draws: int) -> dict[str, Any]:
        """What the suite's JSON file holds."""
        runs, done = self.config.runs, _finished(self.cells)
        units = {folder.name: folder.units for folder in self.folders}
        return {
            "machine": machine_facts(runs.device),
            "study": "suite-origins" if self.config.origins else "suite",
            "title": self.study.title,
            "datasets": {
                f.name: sum(f.db.num_rows(name) for name in f.db.table_names) for f in self.folders
            },
            "preset": runs.preset,
            "seeds": list(runs.seeds),
            "regime": runs.visibility,
            "budget_seconds": runs.budget,
            "settings": dict(runs.settings),
            "variants": {name: dict(each) for name, each in self.config.variants.items()},
            "origins": self.config.origins,
            "command": portable(runs.command),
            "left_out": [*left_out, *self._unchanged()],
            **self._scores(draws),
            "look": self._look(trained),
            "failed": [
                {**_names(name, cell), "error": self.failed[cell.folder]}
                for name in units
                for cell in self.cells[name]
                if cell.folder in self.failed
            ],
            "left": [
                _names(name, cell)
                for name in units
                for cell in self.cells[name]
                if cell not in done and cell.folder not in self.failed
            ],
            "ratios": run_seconds(
                [Outcome.of(cell).record.seconds or 0.0 for cell in done if cell.kind == BASE]
            ),
        }

    def _predicted(self) -> list[Predicted]:
        columns, done = suite_columns(self.study), _finished(self.cells)
        read = [
            read_predictions(
                unit,
                columns,
                [c for c in self.cells[folder.name] if c.task == unit.task.name and c in done],
            )
            for folder in self.folders
            for unit in folder.units
        ]
        return [predicted for predicted in read if predicted is not None]

    def _scores(self, draws: int) -> dict[str, Any]:
        columns = suite_columns(self.study)
        scores = task_scores(self._predicted(), draws)
        by_title: dict[str, Unit] = {u.title: u for f in self.folders for u in f.units}
        datasets = {title: unit.dataset for title, unit in by_title.items()}
        names = [c.name for c in columns if any(c.name in of_task for of_task in scores.values())]
        ranks, means = mean_ranks(scores, names), mean_points(scores, names)
        compared = [compare_columns(scores, datasets, *pair) for pair in pairs(columns)]
        return {
            "columns": [column.name for column in columns],
            "results": [
                {
                    "task": title,
                    "dataset": unit.dataset,
                    "type": unit.task.task_type,
                    "metric": "AUC" if _is_binary(unit) else "MAE / constant",
                    "rows": {
                        str(u.origin): u.task.rows
                        for f in self.folders
                        for u in f.units
                        if u.title == title
                    },
                    "columns": {
                        name: score_entry(score, _is_binary(unit))
                        for name, score in scores.get(title, {}).items()
                    },
                }
                for title, unit in by_title.items()
            ],
            "mean_rank": {name: round(rank, 3) for name, rank in ranks.items()},
            "mean_points": {name: round(points, 3) for name, points in means.items()},
            "comparisons": [each for each in compared if each is not None],
        }

    def _unchanged(self) -> list[str]:
        """Variants whose settings a task's preset has anyway: their runs would be the base's."""
        lines = []
        for folder in self.folders:
            for name in self.config.variants:
                trained = {cell.task for cell in self.cells[folder.name] if cell.variant == name}
                same = [u.task.name for u in folder.units if u.task.name not in trained]
                if same:
                    lines.append(
                        f"{folder.name}: the variant {name} changes nothing for {', '.join(same)}"
                    )
        return lines

    def _look(self, trained: int) -> int | None:
        """Log that the test was scored; gives how many times it was in this folder."""
        units = [unit for folder in self.folders for unit in folder.units if unit.origin == TEST]
        if not units or not _finished(self.cells):
            return None
        tasks = [f"{unit.dataset}/{unit.name}" for unit in units]
        return log_look(self.config.runs.out, tasks, trained, portable(self.config.runs.command))


def _names(dataset: str, cell: Cell) -> dict[str, Any]:
    return {"dataset": dataset, "task": cell.task, "model": cell.variant, "seed": cell.seed}


def _is_binary(unit: Unit) -> bool:
    return unit.task.task_type == "binary_classification"
