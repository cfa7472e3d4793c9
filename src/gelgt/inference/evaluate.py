"""`evaluate_run`: the scores of a run on its own task, in its own regime, beside its baselines.

On the data of the training run the label tables of the run folder are used and the scores are those
of `metrics.json`, bit for bit. On other data labels are made again from the task's definition, and
the baselines, which were scored on the old ones, are left out.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.inference.source import open_for
from gelgt.inference.task import given_task, run_definition, run_task
from gelgt.metrics import score
from gelgt.runs.folder import Run
from gelgt.scoring.load import run_data, run_scorer
from gelgt.scoring.parts import TREES, Parts, part_scores
from gelgt.scoring.scorer import choose_device
from gelgt.sources.readable import read_parquet
from gelgt.tasks import Task
from gelgt.tasks.times import seconds, timestamp
from gelgt.training import TrainingData


@dataclass(frozen=True)
class Scored:
    """The seeds of a split, what a run says about them, and what is true.

    Attributes:
        data: Database, task and seeds.
        labels: As `metrics.score` takes them.
        parts: Predictions, in the order of the label table, and those of the network and the trees
            alone.
        is_own: The labels are those that the run was trained and scored with.
        learned: How many of them the model has learned from.
        seconds: That the predictions took, without opening the source and loading the model.
        notices: What the user should know.
    """

    data: TrainingData
    labels: NDArray[Any]
    parts: Parts
    is_own: bool
    learned: int
    seconds: float
    notices: tuple[str, ...]


def evaluate_run(
    run: Run,
    source: Any = None,
    split: str = "test",
    *,
    task: Task | str | None = None,
    device: str = "auto",
    namespace: str | None = None,
) -> dict[str, Any]:
    """Score a run, in the shape that ``gelgt evaluate --json`` prints.

    Args:
        run: The run.
        source: Where its database is; by default where it was trained on.
        split: ``train``, ``val`` or ``test``.
        task: Another task with the same kind of answer, such as one with later split times; by
            default the run's own.
        device: ``auto``, ``cpu``, ``cuda``, …
        namespace: The schema of a SQL database.

    Raises:
        GelgtError: there is no such split, the source lacks what the model knows, or labels that
            were given belong to other data.
    """
    scored = score_split(run, source, split, task=task, device=device, namespace=namespace)
    baselines = {
        name: {split: scores[split]}
        for name, scores in run.record.baselines.items()
        if split in scores
    }
    return {
        "regime": run.config.sampling.visibility,
        "seed": run.config.train.seed,
        "metrics": {split: score(run.target.task_type, scored.labels, scored.parts.together)},
        "parts": _parts(run, split, scored),
        "tree_share": scored.parts.share,
        "baselines": baselines if scored.is_own else {},
        "baseline_labels": run.record.baseline_labels if scored.is_own else {},
        "intervals": _coverage(run, split, scored),
        "rows": len(scored.labels),
        "rows_per_second": round(len(scored.labels) / max(scored.seconds, 1e-9)),
        "run": str(run.folder),
        "notices": list(scored.notices),
    }


def _coverage(run: Run, split: str, scored: Scored) -> dict[str, Any]:
    """How the run's prediction intervals do on the split, by level; none for other tasks."""
    intervals = run.intervals() if run.target.task_type == "regression" else None
    if intervals is None:
        return {}
    seeds = scored.data.seeds[split]  # all of them: values have no class that training never saw
    measured = intervals.coverage(scored.parts.together, scored.labels, seeds.time, seeds.key)
    return {level: each.to_dict() for level, each in measured.items()}


def _parts(run: Run, split: str, scored: Scored) -> dict[str, Any]:
    """The scores of each part alone. Trees that validation took nothing of are not in the weights:
    their stored score stands for them."""
    scores = part_scores(run.target.task_type, {split: scored.labels}, {split: scored.parts})
    stored = run.record.parts.get(TREES, {}).get(split)
    if TREES not in scores and scored.is_own and stored is not None:
        scores[TREES] = {split: stored}
    return scores


def score_split(
    run: Run,
    source: Any,
    split: str,
    *,
    task: Task | str | None = None,
    device: str = "auto",
    namespace: str | None = None,
) -> Scored:
    """Predictions and labels of a split, in the run's regime."""
    opened = open_for(run, source, namespace=namespace)
    labelled, is_own = (
        run_task(run, opened.db) if task is None else given_task(run, opened.db, task, split)
    )
    labelled.table(split)  # is there such a split?
    seed_data = run_data(run, opened.db, run_definition(run, opened.db), run.config.sampling)
    data = TrainingData.labelled(seed_data, labelled)
    labels, places = _labels(run, labelled, split)
    scorer = run_scorer(run, data, choose_device(device))
    began = time.perf_counter()
    parts = scorer.predict(data.seeds[split].take(places))
    taken = time.perf_counter() - began
    late = (
        [text for text in data.notices() if text.startswith(f"{split}:")]
        if split != "train"
        else []
    )
    learned = int(np.count_nonzero(_is_learned(run, labelled, data.seeds[split].time[places])))
    about = _about(
        split,
        is_own,
        learned if split != "train" else 0,
        len(places),
        len(labelled.table(split)) - len(places),
    )
    notices = (*opened.notices, *late, *about)
    return Scored(data, labels, parts, is_own, learned, taken, notices)


def _labels(run: Run, task: Task, split: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Labels as the run numbers its classes, and the rows they belong to: those of classes that it
    never saw are left out."""
    labels = run.target.labels(task, split)
    places = np.arange(len(labels))
    if (
        run.target.task_type == "multiclass_classification"
        and task.classes != run.target.space.labels
    ):
        number = {name: place for place, name in enumerate(run.target.space.labels)}
        ours = np.array([number.get(name, -1) for name in task.classes], np.int64)[labels]
        places = np.flatnonzero(ours >= 0)
        labels = ours[places]
    return labels, places


def _is_learned(run: Run, task: Task, times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(S,) whether a run has learned labels like these: their windows end by the time up to which
    it knows labels."""
    ours, retrained = run.task.get("gelgt") or {}, run.record.retrain
    if retrained is not None and retrained.labels == "all":
        path = run.folder / "labels" / "test.parquet"
        test_times = read_parquet(path).column(run.task["time_col"])
        return np.asarray(times <= seconds(pc.max(test_times).as_py()), np.bool_)
    end = ours.get("test_timestamp" if retrained else "val_timestamp")
    if end is None:
        return np.zeros(len(times), np.bool_)
    until = seconds(timestamp(end, "split time"))
    length = 0 if task.timedelta is None else int(task.timedelta.total_seconds())
    return np.asarray(times + length <= until if length else times < until, np.bool_)


def _about(split: str, is_own: bool, learned: int, rows: int, unseen: int) -> Iterator[str]:
    if learned:
        part = (
            f"the labels of '{split}'"
            if learned == rows
            else f"{learned:,} of the {rows:,} labels of '{split}'"
        )
        yield f"The model has learned {part}: this is no score for the future."
    if not is_own:
        yield (
            "The labels are not those of the training run; its baselines were scored on others "
            "and are left out."
        )
    if unseen:
        yield f"{unseen:,} rows have a class that training never saw; they are left out."
