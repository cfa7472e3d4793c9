"""`gelgt bench quality`: tasks × seeds, each model beside the baselines of the same run.

Every run is a run folder of `gelgt train`, so that the bench can be stopped and goes on where it was. A score is the mean over seeds, ±
its standard deviation. Its interval comes from a bootstrap over test rows: rows are drawn anew, the same ones for every model and seed, and
the scores of the seeds averaged. `beats` compares two models on the same draws: the interval of their difference lies on one side of 0.

Small test sets decide little: with 34 positives an AUC is known to ±0.04, whatever the seeds say.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.bench.machine import machine
from gelgt.config import Visibility
from gelgt.presets import RunConfig
from gelgt.sources import Database
from gelgt.tasks import Task
from gelgt.training.metrics import MAIN, SMALLER_IS_BETTER, roc_auc
from gelgt.training.progress import Progress
from gelgt.training.run import Options, train_run
from gelgt.training.run_folder import SUCCESS, Run, load_run

DRAWS = 1000
SHARE = 0.95
ANY = "any_auc"  # of a regression whose label is mostly 0: does a prediction tell rows above 0?


@dataclass(frozen=True)
class Runs:
    """The finished runs of one task, by seed."""

    task: str
    task_type: str
    regime: str
    runs: Sequence[Run]

    @property
    def metrics(self) -> tuple[str, ...]:
        """The main metric, and for counts that are mostly 0 the AUC of "any"."""
        if self.task_type != "regression":
            return (MAIN[self.task_type],)
        labels = self.tables()[0]["label"]
        is_rare = labels.min() == 0 and 0.5 < float(np.mean(labels == 0)) < 1
        return (MAIN["regression"], ANY) if is_rare else (MAIN["regression"],)

    def tables(self, split: str = "test") -> list[dict[str, NDArray[Any]]]:
        """For each seed, the predictions of a split: `label`, and one column a model."""
        found = []
        for run in self.runs:
            table = pq.read_table(run.folder / "predictions" / f"{split}.parquet")
            columns = {name.removeprefix("baseline:"): table.column(name).to_numpy() for name in table.column_names if ":" in name}
            chosen = "probability" if "probability" in table.column_names else "prediction"
            found.append({"label": table.column("label").to_numpy(), "gelgt": table.column(chosen).to_numpy(), **columns})
        if self.task_type == "regression":
            for columns, run in zip(found, self.runs):
                past = pq.read_table(run.folder / "labels" / "train.parquet").column(run.metrics["task"]["target"]).to_numpy()
                columns["constant"] = np.full(len(columns["label"]), np.median(past))
        return found


def bench_quality(
    db: Database,
    tasks: Sequence[Task],
    out: Path,
    *,
    preset: str = "cpu",
    seeds: Sequence[int] = (0, 1, 2),
    changes: Mapping[str, Any] | None = None,
    visibility: Visibility | None = None,
    device: str = "auto",
    progress: Progress | None = None,
    begin: Callable[[Task, RunConfig], None] = lambda task, config: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Train every task with every seed, or take the runs that are there, and compare.

    Args:
        db: The database.
        tasks: Its tasks.
        out: A folder; runs lie in it as TASK/VARIANT/seed-N, and finished ones are not trained again.
        preset: Of the models.
        seeds: One run each.
        changes: Settings such as ``{"train.time_limit": 300}``.
        visibility: The regime; the usual one if None.
        device: ``auto``, ``cpu``, ``cuda``, …
        progress: Is told of every run's phases.
        begin: Is told of every run that is trained.
        stop: Asked after every step; true ends the bench, which can go on later.
    """
    results, seconds = [], []
    for task in tasks:
        runs = []
        for seed in seeds:
            config = RunConfig.of(preset, task.task_type, {**(changes or {}), "train.seed": seed})
            folder = out / task.name / _variant(preset, visibility, changes) / f"seed-{seed}"
            if not (folder / SUCCESS).exists():
                begin(task, config)
                options = Options(visibility=visibility, resume=folder.exists(), device=device)
                if train_run(db, task, folder, config, options, progress=progress, stop=stop).metrics["ended"] == "interrupted":
                    (folder / SUCCESS).unlink()  # to be continued
                    raise KeyboardInterrupt
            runs.append(load_run(folder))
            seconds.append(float(runs[-1].metrics["seconds"]))
        results += compare(Runs(task.name, str(task.task_type), runs[0].metrics["regime"], runs))
    ratios = {"longest run, seconds": max(seconds), "mean run, seconds": round(fmean(seconds), 1)}
    return {"machine": machine(), "dataset": db.schema.name, "preset": preset, "seeds": list(seeds), "results": results, "ratios": ratios}


def _variant(preset: str, visibility: Visibility | None, changes: Mapping[str, Any] | None) -> str:
    """A folder's name for what the runs in it have in common."""
    name = preset if visibility is None else f"{preset}-{visibility}"
    if not changes:
        return name
    return f"{name}-{hashlib.blake2b(json.dumps(dict(sorted(changes.items())), default=str).encode(), digest_size=4).hexdigest()}"


def compare(runs: Runs, draws: int = DRAWS) -> list[dict[str, Any]]:
    """One entry for each metric and model: scores over seeds, the interval of the test score, and whom gelgt beats.

    Intervals are for tasks with one number a row; others have their scores alone.
    """
    if runs.task_type not in ("binary_classification", "regression"):
        return _without_intervals(runs)
    val, test = runs.tables("val"), runs.tables("test")
    models, labels = [name for name in test[0] if name != "label"], test[0]["label"]
    found = []
    for metric in runs.metrics:
        measure = _MEASURES[metric]
        resampled = {name: _resampled(measure, [t[name] for t in test], labels, draws) for name in models}
        for name, drawn in resampled.items():
            low, high = _interval(drawn)
            entry = _entry(runs, metric, name, [measure(t["label"], t[name]) for t in val], [measure(labels, t[name]) for t in test])
            entry |= {"low": round(low, 4), "high": round(high, 4)}
            found.append(entry | {"gelgt beats it": "" if name == "gelgt" else _verdict(metric, resampled["gelgt"] - drawn)})
    return found


def _without_intervals(runs: Runs) -> list[dict[str, Any]]:
    metric = MAIN[runs.task_type]
    found = []
    for name in ("gelgt", *runs.runs[0].metrics["baselines"]):
        scores = [run.metrics["metrics"] if name == "gelgt" else run.metrics["baselines"][name] for run in runs.runs]
        found.append(_entry(runs, metric, name, [s["val"][metric] for s in scores], [s["test"][metric] for s in scores]))
    return found


def _entry(runs: Runs, metric: str, model: str, val: Sequence[float], test: Sequence[float]) -> dict[str, Any]:
    return {
        "task": runs.task,
        "regime": runs.regime,
        "metric": metric,
        "model": model,
        "validation": round(fmean(val), 4),
        "test": round(fmean(test), 4),
        "spread": round(stdev(test), 4) if len(test) > 1 else 0.0,
    }


def _auc(labels: NDArray[Any], predictions: NDArray[Any]) -> float:
    found = roc_auc(labels, predictions)
    return float("nan") if found is None else found


def _mae(labels: NDArray[Any], predictions: NDArray[Any]) -> float:
    return float(np.abs(labels - predictions).mean())


_MEASURES: dict[str, Callable[[NDArray[Any], NDArray[Any]], float]] = {
    "roc_auc": _auc,
    "mae": _mae,
    ANY: lambda labels, predictions: _auc((labels > 0).astype(np.int64), predictions),
}


def _resampled(
    measure: Callable[[NDArray[Any], NDArray[Any]], float], predictions: Sequence[NDArray[Any]], labels: NDArray[Any], draws: int
) -> NDArray[np.float64]:
    """(draws,) the mean score over seeds on rows drawn with replacement; the same rows whatever the model."""
    generator = np.random.default_rng(0)
    found = np.empty(draws)
    for draw in range(draws):
        rows = generator.integers(0, len(labels), len(labels))
        found[draw] = fmean(measure(labels[rows], p[rows]) for p in predictions)
    return found


def _interval(drawn: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.nanquantile(drawn, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return float(low), float(high)


def _verdict(metric: str, difference: NDArray[np.float64]) -> str:
    """Whether the interval of gelgt's score less another's lies on one side of 0."""
    low, high = _interval(-difference if metric in SMALLER_IS_BETTER else difference)
    return "yes" if low > 0 else "no, it is beaten" if high < 0 else "undecided"


def markdown(result: Mapping[str, Any]) -> str:
    """The table of a result, best test score of each task and metric in bold."""
    lines = ["| task | regime | metric | model | validation | test | 95 % interval | gelgt beats it |", "|---|---|---|---|---|---|---|---|"]
    for entry in result["results"]:
        rivals = [e for e in result["results"] if (e["task"], e["metric"]) == (entry["task"], entry["metric"])]
        better: Callable[..., float] = min if entry["metric"] in SMALLER_IS_BETTER else max
        mark = "**" if entry["test"] == better(e["test"] for e in rivals) else ""
        cells = [entry["task"], entry["regime"], entry["metric"], entry["model"], f"{entry['validation']:.4f}"]
        cells += [
            f"{mark}{entry['test']:.4f}{mark} ± {entry['spread']:.4f}",
            f"{entry['low']:.4f} to {entry['high']:.4f}" if "low" in entry else "",
        ]
        lines.append("| " + " | ".join([*cells, entry.get("gelgt beats it", "")]) + " |")
    return "\n".join(lines) + "\n"
