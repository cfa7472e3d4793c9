"""One cell of a study: a variant of a model on a task with a seed, and the folder of its run.

A folder is a run folder of `gelgt train`, or for a baseline its predictions and scores in the same
form, so that every cell is read alike. Finished cells are not trained again. A folder with a run on
other rows or with other settings is refused, never shown as if it were the one that was asked for.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.bench.peers import Peer, peer_predictions
from gelgt.errors import GelgtError
from gelgt.metrics import score
from gelgt.presets import RunConfig
from gelgt.runs.folder import SUCCESS, finish_run, read_json, write_file, write_json
from gelgt.runs.predictions import entity_numbers
from gelgt.runs.record import FORMAT, DataFacts, RunRecord, TaskFacts, read_record
from gelgt.sources import Database
from gelgt.tasks import Task
from gelgt.training.baselines import Pace, lightgbm_predictions, past_predictions
from gelgt.training.checkpoint import drop_checkpoints
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN, learnable
from gelgt.training.job import Options
from gelgt.training.progress import Progress
from gelgt.training.run import train_run
from gelgt.training.write import scored_table

BASELINES = ("lightgbm", "lightgbm-2hop", "entity-mean", "constant")
PEERS = ("featuretools", "getml")  # other libraries, in processes of their own (`peers/`)
NOT_MODELS = (*BASELINES, *PEERS)
SEEDLESS = ("entity-mean", "constant")  # computed once: they draw nothing at random
# The settings that decide which labels a model and the baselines beside it learn, and whether they
# see the calendar; the folders of baselines are named by them.
LABEL_SETTINGS = ("train.windows", "train.stale", "train.retrain", "model.calendar")


@dataclass(frozen=True)
class Cell:
    """What is to be trained, and where.

    Attributes:
        task: The task's name.
        variant: What the table calls it.
        kind: A registered model, or one of `NOT_MODELS`.
        seed: Of the run.
        config: Complete, in its regime.
        folder: Where it goes.
        limit: Seconds for a baseline or a peer; models have theirs in their configuration.
    """

    task: str
    variant: str
    kind: str
    seed: int
    config: RunConfig
    folder: Path
    limit: float | None = None

    @property
    def name(self) -> str:
        """For people: 'driver-dnf, gelgt, seed 0'."""
        return f"{self.task}, {self.variant}" + (
            "" if self.kind in SEEDLESS else f", seed {self.seed}"
        )

    @property
    def error_file(self) -> Path:
        """Where the traceback of a failed run goes: beside its folder, which the next try fills."""
        return self.folder.with_name(f"{self.folder.name}.error.txt")

    def is_done(self, content_hash: str) -> bool:
        """Whether the folder holds what this cell asks for.

        Raises:
            GelgtError: it holds a finished run of other rows or other settings.
        """
        if not (self.folder / SUCCESS).is_file():
            return False
        metrics = read_json(self.folder / "metrics.json")
        if metrics["data"]["hash"] != content_hash:
            raise GelgtError(
                "other_run",
                f"{self.folder} holds a run on other rows.",
                hint="Choose another --out.",
            )
        if self.kind in NOT_MODELS:
            # older ones are computed again
            return bool(metrics.get("format", 1) >= FORMAT) and "task" in metrics
        wanted, stored = _values(self.config.model_dump(mode="json")), _values(metrics["config"])
        changed = sorted(
            path for path in wanted.keys() & stored.keys() if wanted[path] != stored[path]
        )
        if changed:
            shown = ", ".join(
                f"{path} = {stored[path]}, not {wanted[path]}" for path in changed[:3]
            )
            raise GelgtError(
                "other_run",
                f"{self.folder} holds a run with {shown}.",
                hint="Choose another --out.",
            )
        return True


def _values(config: Mapping[str, Any]) -> dict[str, Any]:
    """Every setting by its path; lists and tuples alike."""
    values = {"kind": config.get("kind", "gelgt")}
    for section in ("model", "sampling", "train"):
        for key, value in config[section].items():
            values[f"{section}.{key}"] = list(value) if isinstance(value, (tuple, list)) else value
    return values


@dataclass(frozen=True)
class CellContext:
    """What all cells of a study share.

    Attributes:
        db: The database.
        tasks: By name.
        content_hash: Of the database's rows.
        device: ``auto``, ``cpu``, ``cuda``, …
        peer_python: The Python that peers run in.
    """

    db: Database
    tasks: Mapping[str, Task]
    content_hash: str
    device: str = "auto"
    peer_python: str = sys.executable


def make_cell(
    cell: Cell,
    context: CellContext,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train a cell, or compute a baseline; false where it was interrupted and can be resumed."""
    if cell.kind in NOT_MODELS:
        is_whole = _make_baseline(cell, context, progress or Progress(), stop)
        if is_whole:
            cell.error_file.unlink(missing_ok=True)
        return is_whole
    options = Options(
        visibility=cell.config.sampling.visibility,
        resume=cell.folder.exists(),
        baselines=False,
        device=context.device,
    )
    task = context.tasks[cell.task]
    run = train_run(
        context.db, task, cell.folder, cell.config, options, progress=progress, stop=stop
    )
    if run.record.ended == "interrupted":
        (cell.folder / SUCCESS).unlink()
        return False
    # after a time limit there is one left: another limit has another folder, nobody resumes it
    drop_checkpoints(cell.folder)
    cell.error_file.unlink(missing_ok=True)
    return True


def _make_baseline(
    cell: Cell, context: CellContext, progress: Progress, stop: Callable[[], bool]
) -> bool:
    start = time.perf_counter()
    task = context.tasks[cell.task]
    if cell.kind in PEERS:
        data = TrainingData.opened(context.db, task, cell.config)
        peer = Peer(cell.kind, context.peer_python, cell.limit)
        if (predictions := peer_predictions(peer, data, cell.config, stop)) is None:
            return False
        label_counts: dict[str, int] = {}
    else:
        data = TrainingData.of(context.db, task, cell.config)
        predictions, label_counts = _baseline_predictions(cell, data, progress)
    for split, values in predictions.items():
        table = scored_table(data, split, values)
        write_file(cell.folder / "predictions" / f"{split}.parquet", partial(pq.write_table, table))
    scores = {
        split: score(data.target.task_type, data.labels(split), values)
        for split, values in predictions.items()
    }
    metric = data.target.metric
    record = RunRecord(
        model=cell.kind,
        regime=cell.config.sampling.visibility,
        task=TaskFacts(name=task.name, task_type=str(task.task_type), rows=task.rows),
        data=DataFacts(hash=context.content_hash),
        metric=metric,
        metrics={split: dict(values) for split, values in scores.items()},
        seconds=round(time.perf_counter() - start, 2),
        baseline_labels=label_counts,
        ended="done",
        config=cell.config.model_dump(mode="json", exclude={"origins"}),
    )
    write_json(cell.folder / "metrics.json", record.to_json())
    finish_run(cell.folder)
    shown = ", ".join(
        f"{split} {value:.4f}"
        for split in scores
        if (value := scores[split].get(metric)) is not None
    )
    progress.phase("baselines", f"{cell.kind}: {metric} {shown}")
    return True


def _baseline_predictions(
    cell: Cell, data: TrainingData, progress: Progress
) -> tuple[dict[str, NDArray[Any]], dict[str, int]]:
    """What a baseline predicts, and how many labels it has learned where it learns."""
    if cell.kind == "entity-mean":
        return past_predictions(data), {}
    if cell.kind == "constant":
        return _constant(data, cell.config), {}
    hops = 1 if cell.kind == "lightgbm" else 2
    predictions, fitted = lightgbm_predictions(data, cell.config, hops, Pace(cell.limit))
    for text in fitted.notices:
        progress.notice(text)
    if fitted.is_cut_off:
        progress.notice(f"{cell.kind} was cut off after {fitted.rounds:,} rounds")
    counts = {"train": fitted.train_rows}
    if fitted.known_rows is not None:
        counts["known"] = fitted.known_rows
    return predictions, counts


def _constant(data: TrainingData, config: RunConfig) -> dict[str, NDArray[Any]]:
    """The median of the labels that a model learns: the constant with the least absolute error."""
    learned = {"val": "train", "test": KNOWN if config.train.retrain else "train"}
    middle = {
        split: float(np.median(learnable(data, (labels,), config.train)[1]))
        for split, labels in learned.items()
    }
    return {split: np.full(len(data.seeds[split]), value) for split, value in middle.items()}


@dataclass(frozen=True)
class Outcome:
    """A finished cell, as its folder holds it."""

    cell: Cell
    record: RunRecord

    @classmethod
    def of(cls, cell: Cell) -> "Outcome":
        return cls(cell, read_record(cell.folder / "metrics.json", RunRecord))

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the model that are scored alone: its network, and its trees where it has
        some; none for older runs and baselines."""
        return tuple(self.record.parts)

    def predictions(self, split: str, part: str = "") -> tuple[NDArray[Any], NDArray[Any]]:
        """Labels and predictions of a split, one number a row; those of a part alone where it is
        named."""
        table = self._table(split)
        chosen = "probability" if "probability" in table.column_names else "prediction"
        if f"part:{part}" in table.column_names:
            chosen = f"part:{part}"
        return table.column("label").to_numpy(), table.column(chosen).to_numpy()

    def entities(self, split: str) -> NDArray[np.int64] | None:
        """(S,) a number for the entity of each row; None where no entity comes twice."""
        return entity_numbers(self._table(split))

    def _table(self, split: str) -> pa.Table:
        return pq.read_table(self.cell.folder / "predictions" / f"{split}.parquet")
