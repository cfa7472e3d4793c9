"""A study: variants × tasks × seeds → run folders → one table. Every table of the paper that needs
training is one.

OUT/TASK/VARIANT/seed-N     a run each; VARIANT says what was changed, so that studies in one folder
                            share their runs
OUT/STUDY.json              what was run, on what, with which scores, and what failed
OUT/STUDY.md                the same as tables
OUT/STUDY-TASK.svg          the same as charts
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from gelgt.bench.cells import BASELINES, LABEL_SETTINGS, SEEDLESS, Cell, Outcome
from gelgt.bench.compare import DRAWS, compare
from gelgt.bench.machine import machine
from gelgt.bench.paper import is_published, published
from gelgt.bench.pool import Tell, make_cells
from gelgt.bench.tables import portable
from gelgt.config import Visibility
from gelgt.errors import GelgtError
from gelgt.presets import RunConfig
from gelgt.runs.folder import SUCCESS
from gelgt.sources import Database
from gelgt.sources.cache import hash_files
from gelgt.tasks import Task
from gelgt.training.data import TrainingData
from gelgt.training.progress import Progress
from gelgt.training.regime import in_regime

Settings = Callable[[RunConfig], Mapping[str, Any]]


@dataclass(frozen=True)
class Variant:
    """One column of a table.

    Attributes:
        name: As the table calls it.
        kind: A registered model, or a baseline.
        settings: What differs from the preset, given the preset's own values.
        tasks: The types of task it is for; empty for all.
        against: The variant that it is compared with, if not the study's reference.
    """

    name: str
    kind: str = "gelgt"
    settings: Settings = lambda base: {}
    tasks: tuple[str, ...] = ()
    against: str = ""


@dataclass(frozen=True)
class Study:
    """What is compared, and with what.

    Attributes:
        name: Of the command and its files.
        title: What it asks.
        variants: The columns.
        reference: The variant that the others are compared with.
        axis: What numbers the variants stand for, where they are points of a curve.
        points: Those numbers, one for each variant.
    """

    name: str
    title: str
    variants: tuple[Variant, ...]
    reference: str
    axis: str = ""
    points: tuple[float, ...] = ()

    @property
    def against(self) -> dict[str, str]:
        """For each variant, the one that it is compared with."""
        return {variant.name: variant.against or self.reference for variant in self.variants}


@dataclass(frozen=True)
class Wish:
    """How the user wants a study to be run; the same options for all of them."""

    out: Path
    preset: str = "cpu"
    seeds: Sequence[int] = (0, 1, 2)
    changes: Mapping[str, Any] = field(default_factory=dict)
    budget: float | None = None
    visibility: Visibility | None = None
    device: str = "auto"
    jobs: int = 1
    command: str = ""


def run_study(
    study: Study,
    db: Database,
    tasks: Sequence[Task],
    wish: Wish,
    *,
    progress: Progress | None = None,
    tell: Tell = lambda news: None,
    stop: Callable[[], bool] = lambda: False,
    draws: int = DRAWS,
) -> dict[str, Any]:
    """Train every cell that is not there yet, and give the table.

    Cells that failed are listed with their reason, and the table marks them. So it does with those
    that are left when it is stopped; called again, it goes on.

    Raises:
        GelgtError: a setting that no variant knows, or a folder with runs of something else.
    """
    cells = plan(study, tasks, wish)
    content_hash = hash_files([db.path(name) for name in db.table_names])
    missing = [cell for cell in cells if not cell.is_done(content_hash)]
    by_name = {task.name: task for task in tasks}
    if wish.jobs > 1:
        # graph and features are made once, not by every process
        for name in dict.fromkeys(cell.task for cell in missing):
            TrainingData.of(db, by_name[name], next(c.config for c in missing if c.task == name))
    failed = make_cells(
        missing,
        db,
        by_name,
        content_hash,
        device=wish.device,
        jobs=wish.jobs,
        progress=progress,
        tell=tell,
        stop=stop,
    )
    return _result(study, db, tasks, wish, cells, failed, draws)


def plan(study: Study, tasks: Sequence[Task], wish: Wish) -> list[Cell]:
    """Every cell of a study. All seeds of one variant come after each other, tasks one by one."""
    check_settings(study, wish)
    cells: list[Cell] = []
    for task in tasks:
        for variant in study.variants:
            if variant.tasks and task.task_type not in variant.tasks:
                continue
            config, changed = _config(study, variant, task, wish)
            for seed in wish.seeds if variant.kind not in SEEDLESS else wish.seeds[:1]:
                own = in_regime(config.with_values("set", train__seed=seed), task, wish.visibility)
                folder = (
                    wish.out / task.name / _folder(variant, changed, own, wish) / f"seed-{seed}"
                )
                if any(cell.folder == folder for cell in cells):
                    # it removes what this preset does not have: the same run under another name
                    # would look like a finding
                    continue
                cells.append(Cell(task.name, variant.name, variant.kind, seed, own, folder))
    return cells


def _config(
    study: Study, variant: Variant, task: Task, wish: Wish
) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration of a variant, and what of it is the variant's own. A baseline learns the
    labels that the first model learns."""
    is_baseline = variant.kind in BASELINES
    kind = (
        next((v.kind for v in study.variants if v.kind not in BASELINES), "gelgt")
        if is_baseline
        else variant.kind
    )
    given = _known(wish.changes, kind)
    if is_baseline:
        given = {path: value for path, value in given.items() if path in LABEL_SETTINGS}
    if wish.budget is not None:
        given["train.time_limit"] = wish.budget
    base = RunConfig.of(wish.preset, task.task_type, given, kind)
    # A value that the preset has already is no change: such a run is shared with other studies.
    changed = {
        path: value for path, value in variant.settings(base).items() if _value(base, path) != value
    }
    return RunConfig.of(wish.preset, task.task_type, given | changed, kind), changed


def _value(config: RunConfig, path: str) -> Any:
    section, _, key = path.partition(".")
    return getattr(getattr(config, section), key, None)


def _known(changes: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Those changes that a kind of model has: settings of one model need not exist in another."""
    origins = RunConfig.of("cpu", None, {}, kind).origins
    return {path: value for path, value in changes.items() if path in origins}


def check_settings(study: Study, wish: Wish) -> None:
    """A setting that no variant knows is a typing error."""
    kinds = [
        kind for kind in dict.fromkeys(v.kind for v in study.variants) if kind not in BASELINES
    ] or ["gelgt"]
    for path in wish.changes:
        if not any(path in _known(wish.changes, kind) for kind in kinds):
            # raises, with a word for the right one
            RunConfig.of(wish.preset, None, {path: wish.changes[path]}, kinds[0])
    if "train.seed" in wish.changes:
        raise GelgtError("bad_option", "train.seed is what --seeds counts.", hint="Leave it out.")


def _folder(variant: Variant, changed: Mapping[str, Any], config: RunConfig, wish: Wish) -> str:
    """A folder's name that says what the runs in it have in common, and no other runs."""
    if variant.kind in BASELINES:
        labels = (
            []
            if variant.kind == "entity-mean"
            else [
                f"{path.partition('.')[2]}={_word(_value(config, path))}" for path in LABEL_SETTINGS
            ]
        )
        return "-".join([variant.kind, config.sampling.visibility, *labels])
    parts = [
        variant.kind,
        *(f"{path.partition('.')[2]}={_word(value)}" for path, value in sorted(changed.items())),
    ]
    parts += [config.preset, config.sampling.visibility]
    if wish.budget is not None:
        parts.append(f"{wish.budget:g}s")
    if wish.changes:
        text = json.dumps(dict(sorted(wish.changes.items())), default=str)
        parts.append(hashlib.blake2b(text.encode(), digest_size=4).hexdigest())
    return "-".join(parts)


def _word(value: Any) -> str:
    return re.sub(r"[^\w.]+", "_", "none" if value is None else str(value))


def _result(
    study: Study,
    db: Database,
    tasks: Sequence[Task],
    wish: Wish,
    cells: Sequence[Cell],
    failed: Mapping[Path, str],
    draws: int,
) -> dict[str, Any]:
    done = [cell for cell in cells if (cell.folder / SUCCESS).is_file()]
    left = [cell for cell in cells if cell not in done and cell.folder not in failed]
    outcomes = {(c.task, c.variant, c.seed): Outcome.of(c) for c in done}
    results: list[dict[str, Any]] = []
    for task in tasks:
        of_task = {
            v.name: [o for (t, n, _), o in outcomes.items() if (t, n) == (task.name, v.name)]
            for v in study.variants
        }
        results += compare(task.name, str(task.task_type), of_task, study.against, draws)
    real = {
        task.name for task in tasks if is_published(db.schema.name, task.name, task.rows["train"])
    }
    for entry in results:
        cell = (study.name, db.schema.name, entry["task"], entry["model"], entry["metric"])
        figure = published(*cell) if entry["task"] in real else None
        entry["paper"] = None if figure is None else figure.to_dict()
    seconds = [
        float(o.metrics["seconds"]) for o in outcomes.values() if o.cell.kind not in BASELINES
    ]
    some = next((o.metrics for o in outcomes.values() if o.cell.kind not in BASELINES), {})
    return {
        "machine": _machine(wish.device),
        "study": study.name,
        "title": study.title,
        "dataset": db.schema.name,
        "rows": sum(db.num_rows(name) for name in db.table_names),
        "tasks": {task.name: {"type": task.task_type, "rows": task.rows} for task in tasks},
        "models": list(dict.fromkeys(cell.variant for cell in cells)),
        "reference": study.reference,
        "axis": study.axis,
        "points": list(study.points),
        "preset": wish.preset,
        "seeds": list(wish.seeds),
        "regime": cells[0].config.sampling.visibility if cells else wish.visibility,
        "budget_seconds": wish.budget,
        "settings": dict(wish.changes),
        "baseline_labels": _baseline_labels(cells),
        "command": portable(wish.command),
        "runs": [
            {
                "task": c.task,
                "model": c.variant,
                "seed": c.seed,
                "folder": str(c.folder.relative_to(wish.out)),
            }
            for c in done
        ],
        "versions": some.get("versions", {}),
        "results": results,
        "failed": [
            {"task": c.task, "model": c.variant, "seed": c.seed, "error": failed[c.folder]}
            for c in cells
            if c.folder in failed
        ],
        "left": [{"task": c.task, "model": c.variant, "seed": c.seed} for c in left],
        "ratios": {
            "longest run, seconds": max(seconds),
            "mean run, seconds": round(fmean(seconds), 1),
        }
        if seconds
        else {},
    }


def _baseline_labels(cells: Sequence[Cell]) -> dict[str, Any]:
    """The settings that decide which labels the baselines learned: those of the model beside
    them."""
    config = next((cell.config for cell in cells if cell.kind in BASELINES), None)
    return {} if config is None else {path: _value(config, path) for path in LABEL_SETTINGS}


def _machine(device: str) -> dict[str, Any]:
    found = machine()
    if device != "cpu":
        import torch

        if torch.cuda.is_available():
            found["gpu"] = torch.cuda.get_device_name()
    return found
