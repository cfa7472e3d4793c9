"""Writes the run folder: the record, the weights, the labels and the scored rows."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray

from gelgt.files import write_text
from gelgt.history.column_origins import columns_read
from gelgt.metrics import score
from gelgt.runs.folder import INTERVALS, finish_run, schema_to_json, write_file, write_json
from gelgt.runs.record import (
    DataFacts,
    Epoch,
    FindingFacts,
    HistoryColumn,
    HistoryFacts,
    Member,
    RankingFacts,
    RunRecord,
    TaskFacts,
    TimeFacts,
    TreeFacts,
)
from gelgt.runs.tensors import save_tensors
from gelgt.schema.manifest import yaml_text
from gelgt.scoring.parts import Parts, part_scores
from gelgt.scoring.table import (
    key_lists,
    key_table,
    label_column,
    prediction_columns,
    times_column,
)
from gelgt.tasks.manifest import manifest
from gelgt.tasks.task import SPLITS
from gelgt.tasks.times import duration_text, time_text
from gelgt.training.baselines import Baselines
from gelgt.training.calibrate import Calibration
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import Trained
from gelgt.training.job import Job

PACKAGES = (
    "gelgt",
    "torch",
    "torch_geometric",
    "pytorch-frame",
    "relbench",
    "lightgbm",
    "numpy",
    "pyarrow",
)


@dataclass(frozen=True)
class Result:
    """What the stages of a run have found.

    Attributes:
        parts: Predictions of each split.
        shown: What the model attends to (`profile.py`).
        ranking: What it chooses from, where it recommends.
        calibration: What validation says about how sure predictions are.
    """

    trained: Trained
    parts: Mapping[str, Parts]
    baselines: Baselines
    shown: Mapping[str, Any]
    ranking: RankingFacts | None = None
    calibration: Calibration = field(default_factory=Calibration)


def write_run(job: Job, result: Result) -> None:
    """Write a run folder; it is whole once its last file, the list of checksums, is there."""
    out, data = job.out, job.data
    record = run_record(job, result)
    write_json(out / "config.json", job.config.model_dump())
    write_text(out / "task.yaml", yaml_text(manifest(data.task)))
    for split in SPLITS:
        write = partial(pq.write_table, data.task.table(split))
        write_file(out / "labels" / f"{split}.parquet", write)
    write_json(out / "target.json", data.target.to_dict())
    write_json(out / "schema.json", schema_to_json(data.db.schema))
    write_json(out / "features.json", data.features.statistics.to_dict())
    weights = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in result.trained.model.state_dict().items()
    }
    save_tensors(out / "model.safetensors", weights, {"gelgt": record.versions["gelgt"]})
    for split, of_split in result.parts.items():
        baselines = {name: p[split] for name, p in result.baselines.predictions.items()}
        if data.target.task_type == "recommendation":
            table = ranked_table(data, split, of_split.together, baselines)
        else:
            table = scored_table(data, split, of_split.together, baselines, of_split.alone)
        write_file(out / "predictions" / f"{split}.parquet", partial(pq.write_table, table))
    if result.calibration.intervals is not None:
        write_json(out / INTERVALS, result.calibration.intervals.to_dict())
    write_json(out / "profile.json", result.shown)
    write_json(out / "metrics.json", record.to_json())
    finish_run(out)


def run_record(job: Job, result: Result) -> RunRecord:
    """Everything about a run, with its scores."""
    data, config, trained = job.data, job.config, result.trained
    first, states, trees = trained.states[0], trained.states, trained.trees
    kind, parts = data.target.task_type, result.parts
    labels = {split: data.labels(split) for split in parts}
    horizon = data.sampling.horizon
    share = 0.0 if trees is None else trees.share
    return RunRecord(
        run=job.out.name,
        command=job.options.command,
        model=config.kind,
        preset=config.preset,
        seed=config.train.seed,
        regime=data.sampling.visibility,
        horizon=None if horizon is None else str(np.datetime64(horizon, "s")),
        task=_task_facts(data),
        data=_data_facts(job),
        metric=data.target.metric,
        metrics={split: dict(score(kind, labels[split], p.together)) for split, p in parts.items()},
        parts=part_scores(kind, labels, parts),
        tree_share=share,
        baselines={
            name: {split: dict(score(kind, labels[split], p)) for split, p in of_splits.items()}
            for name, of_splits in result.baselines.predictions.items()
        },
        baseline_labels=dict(result.baselines.labels),
        intervals=result.calibration.coverage(data, parts),
        probabilities=result.calibration.probabilities,
        epochs=[Epoch(**epoch) for epoch in first.history],
        best_epoch=first.best_epoch,
        averaged_epochs=first.averaged,
        ended=trained.ended,
        members=[
            Member(
                best_epoch=state.best_epoch,
                epochs=len(state.history),
                validation=state.best,
                averaged_epochs=state.averaged,
            )
            for state in states
        ],
        trees=TreeFacts(share=share, rounds=list(trees.rounds)) if trees and share else None,
        history=_history_facts(data),
        findings=_finding_facts(job),
        ranking=result.ranking,
        time=TimeFacts(limit=job.budget.limit, cut_off=job.budget.cut_off),
        retrain=trained.retrained,
        seconds=round(sum(job.clock.phases.values()), 2),
        training_seconds=round(sum(state.seconds for state in states), 2),
        phases=job.clock.phases,
        parameters=sum(p.numel() for p in trained.network.parameters()),
        machine={
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "system": platform.system(),
        },
        versions=_versions(),
        config=config.model_dump(mode="json", exclude={"origins"}),
        key=job.key,
    )


def _task_facts(data: TrainingData) -> TaskFacts:
    task = data.task
    return TaskFacts(
        name=task.name,
        task_type=str(task.task_type),
        entity_table=task.entity_table,
        target=task.label_col,
        sentence=task.sentence,
        sql=task.sql,
        timedelta=None if task.timedelta is None else duration_text(task.timedelta),
        val_timestamp=None if task.val_timestamp is None else time_text(task.val_timestamp),
        test_timestamp=None if task.test_timestamp is None else time_text(task.test_timestamp),
        rows=dict(task.rows),
        classes=list(data.target.space.labels),
    )


def _history_facts(data: TrainingData) -> HistoryFacts | None:
    if data.chosen is None:
        return None
    chosen = data.chosen
    return HistoryFacts(
        columns=[HistoryColumn(**vars(column)) for column in chosen.columns],
        proposed=chosen.proposed,
        left_out=chosen.left_out,
        rows=chosen.rows,
    )


def _finding_facts(job: Job) -> list[FindingFacts]:
    """The findings of the run, suspected leaks with their share of the trees' gain."""
    data, chosen = job.data, job.data.chosen
    start, columns = data.task.dst_entity_table or data.task.entity_table, chosen and chosen.columns
    leaks = {f.handle for f in job.findings if f.severity == "leak"}
    read = [
        (columns_read(data.db.schema, start, column.name), column.gain)
        for column in (columns or ()) * bool(leaks)
    ]
    return [
        FindingFacts(
            **finding.to_dict(),
            is_accepted=finding.handle in job.options.accept,
            share=sum(gain for pairs, gain in read if (finding.table, finding.column) in pairs)
            if read and finding.handle in leaks
            else None,
        )
        for finding in job.findings
    ]


def _data_facts(job: Job) -> DataFacts:
    db, graph = job.data.db, job.data.graph
    return DataFacts(
        source=db.source,
        name=db.schema.name,
        hash=job.content_hash,
        tables={name: db.num_rows(name) for name in db.table_names},
        nodes=graph.num_nodes,
        edges=len(graph.indices) // 2,
    )


def scored_table(
    data: TrainingData,
    split: str,
    predictions: NDArray[Any],
    baselines: Mapping[str, NDArray[Any]] | None = None,
    parts: Mapping[str, NDArray[Any]] | None = None,
) -> pa.Table:
    """The predictions of a split with its labels; where they are one number a row, also those of
    each part alone, and of baselines."""
    seeds, task = data.seeds[split], data.task
    rows = seeds.node - data.graph.offsets[data.graph.table_number(task.entity_table)]
    table = key_table(data.db, task.entity_table, rows)
    columns = {"time": times_column(seeds.time), **prediction_columns(data.target, predictions)}
    columns["label"] = label_column(data.target, data.labels(split))
    others: dict[str, NDArray[Any]] = {}
    if parts is not None and len(parts) > 1:
        others = {f"part:{name}": values for name, values in parts.items()}
    others |= {f"baseline:{name}": values for name, values in (baselines or {}).items()}
    columns |= {name: pa.array(values) for name, values in others.items() if values.ndim == 1}
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def ranked_table(
    data: TrainingData,
    split: str,
    ranked: NDArray[np.int64],
    baselines: Mapping[str, NDArray[np.int64]],
) -> pa.Table:
    """What is recommended to the seeds of a split, a list of keys each, with what was right, and
    what baselines recommend."""
    seeds, task = data.seeds[split], data.task
    rows = seeds.node - data.graph.offsets[data.graph.table_number(task.entity_table)]
    table = key_table(data.db, task.entity_table, rows)
    lists = {"prediction": ranked, "label": data.labels(split)}
    lists |= {f"baseline:{name}": each for name, each in baselines.items()}
    table = table.append_column("time", times_column(seeds.time))
    for name, each in lists.items():
        table = table.append_column(name, key_lists(data.db, str(task.dst_entity_table), each))
    return table


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # a source tree that is not installed
            from gelgt import __version__

            versions[name] = __version__ if name == "gelgt" else "?"
    return versions
