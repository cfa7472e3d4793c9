"""The result of a study: its finished cells compared, and what it was run on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from gelgt.bench.cells import BASELINES, LABEL_SETTINGS, Cell, CellContext, Outcome
from gelgt.bench.compare import compare
from gelgt.bench.machine import machine
from gelgt.bench.paper import is_published, published
from gelgt.bench.plan import setting
from gelgt.bench.study import Study, StudyConfig
from gelgt.bench.tables import portable
from gelgt.runs.folder import SUCCESS


def summarise(
    study: Study,
    context: CellContext,
    config: StudyConfig,
    cells: Sequence[Cell],
    failed: Mapping[Path, str],
    draws: int,
) -> dict[str, Any]:
    """What a study's JSON file holds.

    Args:
        study: The study.
        context: Its database and tasks.
        config: How it was run.
        cells: All its cells.
        failed: What went wrong, by the folder of a cell.
        draws: Of the bootstrap.
    """
    db, tasks = context.db, list(context.tasks.values())
    done = [cell for cell in cells if (cell.folder / SUCCESS).is_file()]
    left = [cell for cell in cells if cell not in done and cell.folder not in failed]
    outcomes = [Outcome.of(cell) for cell in done]
    trained = [outcome.record for outcome in outcomes if outcome.cell.kind not in BASELINES]
    return {
        "machine": machine_facts(config.device),
        "study": study.name,
        "title": study.title,
        "dataset": db.schema.name,
        "rows": sum(db.num_rows(name) for name in db.table_names),
        "tasks": {task.name: {"type": task.task_type, "rows": task.rows} for task in tasks},
        "models": list(dict.fromkeys(cell.variant for cell in cells)),
        "reference": study.reference,
        "axis": study.axis,
        "points": list(study.points),
        "preset": config.preset,
        "seeds": list(config.seeds),
        "regime": cells[0].config.sampling.visibility if cells else config.visibility,
        "budget_seconds": config.budget,
        "settings": dict(config.settings),
        "baseline_labels": _baseline_labels(cells),
        "command": portable(config.command),
        "runs": [
            {**_names(cell), "folder": str(cell.folder.relative_to(config.out))} for cell in done
        ],
        "versions": trained[0].versions if trained else {},
        "results": _results(study, context, outcomes, draws),
        "failed": [
            {**_names(cell), "error": failed[cell.folder]}
            for cell in cells
            if cell.folder in failed
        ],
        "left": [_names(cell) for cell in left],
        "ratios": run_seconds([record.seconds or 0.0 for record in trained]),
    }


def _results(
    study: Study, context: CellContext, outcomes: Sequence[Outcome], draws: int
) -> list[dict[str, Any]]:
    """An entry for each task, metric and variant, with the published score where there is one."""
    dataset = context.db.schema.name
    results: list[dict[str, Any]] = []
    for task in context.tasks.values():
        of_task = [outcome for outcome in outcomes if outcome.cell.task == task.name]
        by_variant = {
            variant.name: [o for o in of_task if o.cell.variant == variant.name]
            for variant in study.variants
        }
        entries = compare(task.name, str(task.task_type), by_variant, study.against, draws)
        is_real = is_published(dataset, task.name, task.rows["train"])
        for entry in entries:
            cell = (study.name, dataset, task.name, entry["model"], entry["metric"])
            figure = published(*cell) if is_real else None
            entry["paper"] = None if figure is None else figure.to_dict()
        results += entries
    return results


def _names(cell: Cell) -> dict[str, Any]:
    return {"task": cell.task, "model": cell.variant, "seed": cell.seed}


def run_seconds(seconds: Sequence[float]) -> dict[str, float]:
    """How long runs took."""
    if not seconds:
        return {}
    return {
        "longest run, seconds": max(seconds),
        "mean run, seconds": round(fmean(seconds), 1),
    }


def _baseline_labels(cells: Sequence[Cell]) -> dict[str, Any]:
    """The settings that decide which labels the baselines learned: those of the model beside
    them."""
    config = next((cell.config for cell in cells if cell.kind in BASELINES), None)
    return {} if config is None else {path: setting(config, path) for path in LABEL_SETTINGS}


def machine_facts(device: str) -> dict[str, Any]:
    """The machine, with its GPU where models may be trained on it."""
    about = machine()
    if device != "cpu":
        import torch

        if torch.cuda.is_available():
            about["gpu"] = torch.cuda.get_device_name()
    return about
