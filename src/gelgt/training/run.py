"""`train_run`: from a database and a task to a run folder, with baselines beside every score."""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.config import GelGTConfig, Visibility
from gelgt.errors import GelgtError
from gelgt.files import write_text
from gelgt.metrics import score
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.presets import RunConfig
from gelgt.registry import find_model
from gelgt.schema.manifest import yaml_text
from gelgt.sources.cache import hash_files
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.folder import manifest
from gelgt.tasks.task import SPLITS
from gelgt.tasks.times import duration_text, time_text
from gelgt.training.baselines import Baselines, Predictions, make_baselines
from gelgt.training.checkpoint import (
    CHECKPOINT,
    State,
    check_key,
    drop_checkpoints,
    load_checkpoint,
    save_tensors,
)
from gelgt.training.claim import claimed
from gelgt.training.data import KNOWN, TrainingData, in_regime
from gelgt.training.members import joined_state, retrain_members, told, train_members
from gelgt.training.parts import Parts, in_parts, network_outputs, part_scores
from gelgt.training.profile import profile
from gelgt.training.progress import Progress
from gelgt.training.run_folder import (
    SUCCESS,
    Run,
    finish_run,
    load_run,
    schema_to_json,
    write_file,
    write_json,
)
from gelgt.training.table import key_table, label_column, prediction_columns, times_column
from gelgt.training.trees import (
    Partner,
    about_rows,
    choose_partner,
    regrown,
    wants_trees,
    with_partner,
)

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
class Options:
    """How a run is made, beside its configuration.

    Attributes:
        visibility: The regime; None is `frozen` for a RelBench folder and `seed-time` for
            everything else.
        as_of: Seconds since 1970 from which ages are measured at the latest, under `seed-time`.
        resume: Go on where a run in this folder was cut off.
        retrain_all: After the test score is known, retrain on all labels, those of test too, for the
            epochs that validation chose.
        baselines: Whether LightGBM and the entity's past labels are scored beside the model; a
            bench makes them once for many runs.
        baseline_hops: Of LightGBM's aggregates: (1,), or (1, 2) for both.
        device: ``auto``, ``cpu``, ``cuda``, …
        command: What the user typed, for the report.
    """

    visibility: Visibility | None = None
    as_of: int | None = None
    resume: bool = False
    retrain_all: bool = False
    baselines: bool = True
    baseline_hops: tuple[int, ...] = (1,)
    device: str = "auto"
    command: str | None = None


@dataclass
class _Clock:
    """Seconds of each phase."""

    progress: Progress
    phases: dict[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.perf_counter)

    def done(self, name: str, facts: str = "") -> None:
        now = time.perf_counter()
        self.phases[name] = round(now - self.since, 2)
        self.since = now
        self.progress.phase(name, facts)


def train_run(
    db: Database,
    task: Task,
    out: Path,
    config: RunConfig | None = None,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Train a model on a task and leave a run folder.

    Args:
        db: The database.
        task: What to predict.
        out: The run folder.
        config: The preset `cpu` if None.
        options: See `Options`.
        progress: Is told of phases, steps and epochs.
        stop: Asked after every step; true takes the best weights so far, and leaves a checkpoint to
            resume from.

    Returns:
        The run, as `load_run` reads it.

    Raises:
        GelgtError: the folder is taken, the task cannot be trained, or a checkpoint belongs to
            another run.
    """
    options, progress = options or Options(), progress or Progress()
    config = in_regime(
        config or RunConfig.of("cpu", task.task_type), task, options.visibility, options.as_of
    )
    find_model(config.kind).check(config.model)
    with claimed(out, options.resume):
        return _train_claimed(db, task, out, config, options, progress, stop)


def _train_claimed(
    db: Database,
    task: Task,
    out: Path,
    config: RunConfig,
    options: Options,
    progress: Progress,
    stop: Callable[[], bool],
) -> Run:
    """`train_run`, in a folder that is held."""
    clock = _Clock(progress)
    content_hash = hash_files([db.path(name) for name in db.table_names])
    key = _run_key(config, task, content_hash, options)
    if not _prepare(out, options, key):
        progress.notice(f"{out} holds a finished run; nothing is left to do.")
        return load_run(out)
    data = TrainingData.of(db, task, config)
    clock.done("data", _facts(data))
    for text in data.notices(config.train.windows, config.train.retrain):
        progress.notice(text)
    if config.train.retrain:
        # labels that cannot be made are better known now than after training
        data.windows(KNOWN, config.train.windows)
    device = choose_device(options.device)
    baselines = _baselines(data, config, options, clock) if options.baselines else Baselines()
    stop()  # whoever raises here ends it before anything is trained
    network, states = train_members(data, config, device, out, key, progress, stop)
    state, parameters = joined_state(states), sum(p.numel() for p in network.parameters())
    clock.done("training", told(states))
    retrain, is_whole = None, state.ended != "interrupted"
    outputs = network_outputs(network, data, data.seeds["val"], config.train, device)
    partner = _grow_trees(outputs, data, config, clock) if is_whole else None
    trees, share = (None, 0.0) if partner is None else (partner.trees.to(device), partner.share)
    parts = {"val": in_parts(data, data.seeds["val"], outputs, trees, share)}
    # the test split is scored before its labels may be learned
    for splits in wanted_retrains(config, options):
        if splits != (KNOWN,):
            parts["test"] = _test_parts(network, data, config, device, partner)
        if is_whole:
            again, done = retrain_members(data, config, states, splits, device, progress, stop)
            if again is None:
                is_whole = False
            else:
                partner = None if partner is None else regrown(partner, data, config, splits)
                network, retrain = again, done
            clock.done("retrain", _retrained(done))
    if "test" not in parts:
        parts["test"] = _test_parts(network, data, config, device, partner)
    model = with_partner(network, partner)
    shown = profile(model, data, device)
    clock.done("scoring")
    state = state if is_whole else replace(state, ended="interrupted")
    labels, task_type = {split: data.labels(split) for split in parts}, data.target.task_type
    metrics = _describe(data, config, options, state, clock, parameters, content_hash) | {
        "metrics": {
            split: score(task_type, labels[split], found.together) for split, found in parts.items()
        },
        "parts": part_scores(task_type, labels, parts),
        "tree_share": 0.0 if partner is None else partner.share,
        "baselines": {
            name: {split: score(task_type, labels[split], p) for split, p in found.items()}
            for name, found in baselines.predictions.items()
        },
        "baseline_labels": baselines.labels,
        "members": [
            {
                "best_epoch": s.best_epoch,
                "epochs": len(s.history),
                "validation": s.best,
                "mixed": s.mixed,
            }
            for s in states
        ],
        "trees": None
        if partner is None or not partner.share
        else {"share": partner.share, "rounds": list(partner.rounds)},
        "retrain": retrain,
        "key": key,
    }
    _write(out, data, config, model, metrics, shown, parts, baselines.predictions)
    if is_whole and state.ended != "time limit":
        drop_checkpoints(out)
    return load_run(out)


def wanted_retrains(config: RunConfig, options: Options) -> list[tuple[str, ...]]:
    """Which labels are learned once validation has chosen, one after the other."""
    known: list[tuple[str, ...]] = [(KNOWN,)] if config.train.retrain else []
    return known + ([("train", "val", "test")] if options.retrain_all else [])


def _retrained(done: dict[str, Any] | None) -> str:
    return (
        "interrupted; the weights before are kept"
        if done is None
        else f"{done['rows']:,} labels, {done['epochs']} epochs"
    )


def choose_device(name: str) -> torch.device:
    """The device that a name means; `auto` takes CUDA where it is."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise GelgtError(
            "no_device", f"There is no device '{name}'.", hint="Use auto, cpu or cuda."
        ) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise GelgtError("no_device", "There is no CUDA device here.", hint="Use --device cpu.")
    return device


def _prepare(out: Path, options: Options, key: str) -> bool:
    """Ready a folder that is held for its run; false where a finished one is to be resumed."""
    if options.resume:
        load_checkpoint(out, key)  # one of another run is refused before any work
        if (out / SUCCESS).exists() and not (out / CHECKPOINT).exists():
            check_key(load_run(out).metrics.get("key"), key, out)
            return False
        # what follows changes the folder: it is not whole until the end
        (out / SUCCESS).unlink(missing_ok=True)
    return True


def _run_key(config: RunConfig, task: Task, content_hash: str, options: Options) -> str:
    """What a run depends on; limits of time and patience may change when it is resumed."""
    content = config.model_dump(
        exclude={
            "origins": True,
            "train": {"time_limit", "epochs", "patience"},
        }
    )
    labels = hashlib.blake2b(digest_size=16)
    for split in SPLITS:
        for column in task.table(split).columns:
            labels.update(
                repr(column.to_pylist()).encode()
                if pa.types.is_list(column.type)
                else _bytes(column)
            )
    times = [str(task.val_timestamp), str(task.test_timestamp)]
    text = json.dumps(
        [content, content_hash, times, labels.hexdigest(), options.retrain_all], default=str
    )
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _bytes(column: pa.ChunkedArray) -> bytes:
    return np.ascontiguousarray(column.to_numpy()).tobytes()


def _baselines(data: TrainingData, config: RunConfig, options: Options, clock: _Clock) -> Baselines:
    """What has to be beaten, on the same rows, with its scores on validation as a line of
    progress."""
    found = make_baselines(data, config, options.baseline_hops, clock.progress)
    metric, labels = data.target.metric, data.labels("val")
    scores = {
        name: score(data.target.task_type, labels, p["val"]).get(metric)
        for name, p in found.predictions.items()
    }
    told = ", ".join(f"{name} {value:.4f}" for name, value in scores.items() if value is not None)
    clock.done("baselines", f"validation {metric}: {told}")
    return found


def _grow_trees(
    outputs: Tensor, data: TrainingData, config: RunConfig, clock: _Clock
) -> Partner | None:
    """Trees beside the network, where they are asked for and can be grown; `outputs` are the
    network's on validation."""
    if not wants_trees(data, config):
        if isinstance(config.model, GelGTConfig) and config.model.trees and not has_lightgbm():
            clock.progress.notice(
                "model.trees = false: LightGBM, which would predict beside the network, is not "
                "installed"
            )
        return None
    text = about_rows(data, config.train)
    if text is not None:
        clock.progress.notice(text)
    partner = choose_partner(outputs, data, config)
    is_used = partner is not None and partner.share
    clock.done(
        "trees",
        f"{partner.share:.0%} of the prediction"
        if partner is not None and is_used
        else "validation takes none of them",
    )
    return partner


def _test_parts(
    network: RelationalModel | Ensemble,
    data: TrainingData,
    config: RunConfig,
    device: torch.device,
    partner: Partner | None,
) -> Parts:
    seeds = data.seeds["test"]
    outputs = network_outputs(network, data, seeds, config.train, device)
    trees, share = (None, 0.0) if partner is None else (partner.trees.to(device), partner.share)
    return in_parts(data, seeds, outputs, trees, share)


def _describe(
    data: TrainingData,
    config: RunConfig,
    options: Options,
    state: State,
    clock: _Clock,
    parameters: int,
    content_hash: str,
) -> dict[str, Any]:
    """Everything about a run but its scores."""
    task, sampling = data.task, data.sampling
    horizon = None if sampling.horizon is None else str(np.datetime64(sampling.horizon, "s"))
    return {
        "format": 1,
        "model": config.kind,
        "preset": config.preset,
        "seed": config.train.seed,
        "regime": sampling.visibility,
        "horizon": horizon,
        "task": {
            "name": task.name,
            "task_type": task.task_type,
            "entity_table": task.entity_table,
            "target": task.label_col,
            "sentence": task.sentence,
            "sql": task.sql,
            "timedelta": None if task.timedelta is None else duration_text(task.timedelta),
            "val_timestamp": None if task.val_timestamp is None else time_text(task.val_timestamp),
            "test_timestamp": None
            if task.test_timestamp is None
            else time_text(task.test_timestamp),
            "rows": task.rows,
            "classes": list(data.target.space.labels),
        },
        "data": {
            "source": data.db.source,
            "name": data.db.schema.name,
            "hash": content_hash,
            "tables": {name: data.db.num_rows(name) for name in data.db.table_names},
            "nodes": data.graph.num_nodes,
            "edges": len(data.graph.indices) // 2,
        },
        "metric": data.target.metric,
        "epochs": state.history,
        "best_epoch": state.best_epoch,
        "mixed_epochs": state.mixed,
        "ended": state.ended,
        "seconds": round(sum(clock.phases.values()), 2),
        "training_seconds": round(state.seconds, 2),
        "phases": clock.phases,
        "parameters": parameters,
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "threads": torch.get_num_threads(),
            "system": platform.system(),
        },
        "versions": _versions(),
        "config": config.model_dump(exclude={"origins"}),
        "command": options.command,
    }


def _write(
    out: Path,
    data: TrainingData,
    config: RunConfig,
    model: RelationalModel | Ensemble,
    metrics: dict[str, Any],
    shown: dict[str, Any],
    parts: Mapping[str, Parts],
    baselines: Mapping[str, Predictions],
) -> None:
    write_json(out / "config.json", config.model_dump())
    write_text(out / "task.yaml", yaml_text(manifest(data.task)))
    for split in ("train", "val", "test"):
        write_file(
            out / "labels" / f"{split}.parquet", partial(pq.write_table, data.task.table(split))
        )
    write_json(out / "target.json", data.target.to_dict())
    write_json(out / "schema.json", schema_to_json(data.db.schema))
    write_json(out / "features.json", data.features.statistics.to_dict())
    weights = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in model.state_dict().items()
    }
    save_tensors(out / "model.safetensors", weights, {"gelgt": metrics["versions"]["gelgt"]})
    for split, found in parts.items():
        table = scored_table(
            data,
            split,
            found.together,
            {name: values[split] for name, values in baselines.items()},
            found.alone,
        )
        write_file(out / "predictions" / f"{split}.parquet", partial(pq.write_table, table))
    write_json(out / "profile.json", shown)
    write_json(out / "metrics.json", {"run": out.name} | metrics)
    finish_run(out)


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
    if parts is not None and len(parts) > 1:
        columns |= {
            f"part:{name}": pa.array(values) for name, values in parts.items() if values.ndim == 1
        }
    columns |= {
        f"baseline:{name}": pa.array(values)
        for name, values in (baselines or {}).items()
        if values.ndim == 1
    }
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def _facts(data: TrainingData) -> str:
    rows = ", ".join(f"{split} {count:,}" for split, count in data.task.rows.items())
    return (
        f"{data.graph.num_nodes:,} rows in {len(data.graph.tables)} tables; labels: {rows}; "
        f"{data.sampling.visibility}"
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that is not installed
            from gelgt import __version__

            found[name] = __version__ if name == "gelgt" else "?"
    return found
