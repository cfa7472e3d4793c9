"""`train_run`: from a database and a task to a run folder, with baselines beside every score."""

import hashlib
import json
import platform
import time
from collections.abc import Callable
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

from gelgt.config import Visibility
from gelgt.errors import GelgtError
from gelgt.nn import GelGTModel
from gelgt.nn.ensemble import Ensemble
from gelgt.presets import RunConfig
from gelgt.schema.manifest import yaml_text
from gelgt.sources.cache import hash_files
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.folder import manifest
from gelgt.tasks.times import duration_text, time_text
from gelgt.training.checkpoint import CHECKPOINT, State, check_key, checkpoint_path, load_checkpoint, save_tensors
from gelgt.training.data import TrainingData, in_regime
from gelgt.training.fit import Trainer, predict_seeds
from gelgt.training.metrics import score
from gelgt.training.profile import profile
from gelgt.training.progress import Progress
from gelgt.training.run_folder import SUCCESS, Run, finish_run, load_run, schema_to_json, write_file, write_json
from gelgt.training.table import key_table, label_column, prediction_columns, times_column
from gelgt.zoo import entity_mean, lightgbm_baseline

PACKAGES = ("gelgt", "torch", "torch_geometric", "pytorch-frame", "relbench", "lightgbm", "numpy", "pyarrow")
Predictions = dict[str, NDArray[Any]]  # by split


@dataclass(frozen=True)
class Options:
    """How a run is made, beside its configuration.

    Attributes:
        visibility: The regime; None is `frozen` for a RelBench folder and `seed-time` for everything else.
        as_of: Seconds since 1970 from which ages are measured at the latest, under `seed-time`.
        resume: Go on where a run in this folder was cut off.
        refit: After selection, train anew on all labelled windows for the chosen number of epochs.
        baseline_hops: Of LightGBM's aggregates: (1,), or (1, 2) for both.
        device: ``auto``, ``cpu``, ``cuda``, …
        command: What the user typed, for the report.
    """

    visibility: Visibility | None = None
    as_of: int | None = None
    resume: bool = False
    refit: bool = False
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
        stop: Asked after every step; true takes the best weights so far, and leaves a checkpoint to resume from.

    Returns:
        The run, as `load_run` reads it.

    Raises:
        GelgtError: the folder is taken, the task cannot be trained, or a checkpoint belongs to another run.
    """
    options, progress = options or Options(), progress or Progress()
    clock = _Clock(progress)
    config = in_regime(config or RunConfig.of("cpu", task.task_type), task, options.visibility, options.as_of)
    content_hash = hash_files([db.path(name) for name in db.table_names])
    key = _run_key(config, task, content_hash, options)
    if not _prepare(out, options, key):
        progress.notice(f"{out} holds a finished run; nothing is left to do.")
        return load_run(out)
    data = TrainingData.of(db, task, config)
    clock.done("data", _facts(data))
    for text in data.notices():
        progress.notice(text)
    device = choose_device(options.device)
    baselines = _baselines(data, config, options, clock)
    stop()  # whoever raises here ends it before anything is trained
    model, states = _train(data, config, device, out, key, progress, stop)
    state, parameters = _joined(states), sum(p.numel() for p in model.parameters())
    clock.done("training", _told(states))
    predictions = {split: predict_seeds(model, data, data.seeds[split], config.train, device) for split in ("val", "test")}
    shown = profile(model, data, device)
    clock.done("scoring")
    refit = None
    if options.refit and state.ended != "interrupted":
        again, refit = _refit(data, config, states, device, progress, stop)
        model = model if again is None else again
        clock.done("refit", "interrupted; the selected weights are kept" if again is None else "")
    metrics = _describe(data, config, options, state, clock, parameters, content_hash) | {
        "metrics": {split: score(data.target.task_type, data.labels(split), p) for split, p in predictions.items()},
        "baselines": {
            name: {split: score(data.target.task_type, data.labels(split), p) for split, p in found.items()}
            for name, found in baselines.items()
        },
        "members": [{"best_epoch": s.best_epoch, "epochs": len(s.history), "validation": s.best, "mixed": s.mixed} for s in states],
        "refit": refit,
        "key": key,
    }
    _write(out, data, config, model, metrics, shown, predictions, baselines)
    if state.ended not in ("interrupted", "time limit"):
        for member in range(len(states)):
            checkpoint_path(out, member).unlink(missing_ok=True)
    return load_run(out)


def _train(
    data: TrainingData, config: RunConfig, device: torch.device, out: Path, key: str, progress: Progress, stop: Callable[[], bool]
) -> tuple[GelGTModel | Ensemble, list[State]]:
    """One model, or several one after the other; fewer where time or the user ends it."""
    count = data.members(config.train)
    states: list[State] = []
    models: list[GelGTModel] = []
    for number in range(count):
        own = member_config(config, number, sum(state.seconds for state in states))
        model = make_model(data, own)
        trainer = Trainer(model, data, own.train, device, folder=out, key=key, member=number, progress=progress, stop=stop)
        if number == 0:
            size = sum(p.numel() for p in model.parameters())
            several = f"{count} models of " if count > 1 else ""
            progress.phase("model", f"{several}{size:,} parameters on {device}, attention by {model.backend}")
            if len(trainer.labels) > data.task.rows["train"]:
                progress.notice(f"train: {len(trainer.labels):,} labels of overlapping windows are learned from (train.windows)")
        if count > 1:
            progress.member(number + 1, count)
        states.append(trainer.run())
        models.append(model)
        if states[-1].ended in ("interrupted", "time limit"):
            break
    return (models[0] if len(models) == 1 else Ensemble(models)), states


def member_config(config: RunConfig, number: int, spent: float) -> RunConfig:
    """The configuration of one of several models: a seed of its own, and what is left of the time."""
    limit = config.train.time_limit
    left = None if limit is None else max(limit - spent, 1e-3)
    return config.with_values("derived", train__seed=(config.train.seed + 1_000_003 * number) % 2**31, train__time_limit=left)


def _joined(states: list[State]) -> State:
    """The first model's epochs, with the time of all and what ended the last."""
    return replace(states[0], seconds=sum(state.seconds for state in states), ended=states[-1].ended)


def _told(states: list[State]) -> str:
    first = states[0]
    mixed = f"; the mean of epochs {', '.join(map(str, first.mixed))} is taken" if first.mixed else ""
    several = f"; {len(states)} models predict together" if len(states) > 1 else ""
    return f"best epoch {first.best_epoch} of {len(first.history)}{mixed}{several}; ended by: {states[-1].ended}"


def make_model(data: TrainingData, config: RunConfig) -> GelGTModel:
    """A fresh model: weights from the seed, μ and σ from the training ages, the head from the base rates."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        model = GelGTModel(config.model, data.graph, data.features, data.target.outputs, data.hide, noise_seed=config.sampling.seed)
    model.start_times(data.ages())
    last = model.head[-1]
    assert isinstance(last, torch.nn.Linear)
    with torch.no_grad():
        last.bias.copy_(torch.tensor(data.target.start))
    return model


def choose_device(name: str) -> torch.device:
    """The device that a name means; `auto` takes CUDA where it is."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise GelgtError("no_device", f"There is no device '{name}'.", hint="Use auto, cpu or cuda.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise GelgtError("no_device", "There is no CUDA device here.", hint="Use --device cpu.")
    return device


def _prepare(out: Path, options: Options, key: str) -> bool:
    """Make room for a run; false where a finished one is to be resumed."""
    is_done, is_begun = (out / SUCCESS).exists(), (out / CHECKPOINT).exists()
    if options.resume:
        load_checkpoint(out, key)  # one of another run is refused before any work
        if is_done and not is_begun:
            check_key(load_run(out).metrics.get("key"), key, out)
            return False
        (out / SUCCESS).unlink(missing_ok=True)  # what follows changes the folder: it is not whole until the end
    elif is_done or is_begun:
        what = "a finished run" if is_done else "a run that was cut off"
        hint = "Choose another --out." if is_done else "Go on with --resume, or choose another --out."
        raise GelgtError("run_exists", f"{out} holds {what}.", hint=hint)
    elif out.exists() and any(out.iterdir()) and not (out / "config.json").exists():
        raise GelgtError("not_empty", f"The folder {out} holds something else.", hint="Choose another --out.")
    out.mkdir(parents=True, exist_ok=True)
    return True


def _run_key(config: RunConfig, task: Task, content_hash: str, options: Options) -> str:
    """What the steps of a run depend on; limits of time and patience may change when it is resumed."""
    content = config.model_dump(exclude={"origins": True, "train": {"time_limit", "checkpoint_seconds", "epochs", "patience"}})
    labels = hashlib.blake2b(digest_size=16)
    for split in ("train", "val"):
        for column in task.table(split).columns:
            labels.update(repr(column.to_pylist()).encode() if pa.types.is_list(column.type) else _bytes(column))
    text = json.dumps([content, content_hash, labels.hexdigest(), options.refit], default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _bytes(column: pa.ChunkedArray) -> bytes:
    return np.ascontiguousarray(column.to_numpy()).tobytes()


def _baselines(data: TrainingData, config: RunConfig, options: Options, clock: _Clock) -> dict[str, Predictions]:
    """What has to be beaten, on the same rows: LightGBM, and the entity's own past labels."""
    found: dict[str, Predictions] = {}
    for hops in options.baseline_hops:
        made = lightgbm_baseline(data.db, data.graph, data.features, data.task, data.sampling, hops=hops, seed=config.train.seed)
        found["lightgbm" if hops == 1 else f"lightgbm-{hops}hop"] = dict(made.predictions)
        for text in made.notices:
            clock.progress.notice(text)
    horizon = data.sampling.horizon if data.sampling.visibility == "frozen" else None
    found["entity-median" if data.target.task_type == "regression" else "entity-mean"] = entity_mean(data.task, horizon)
    metric, labels = data.target.metric, data.labels("val")
    scores = {name: score(data.target.task_type, labels, p["val"]).get(metric) for name, p in found.items()}
    told = ", ".join(f"{name} {value:.4f}" for name, value in scores.items() if value is not None)
    clock.done("baselines", f"validation {metric}: {told}")
    return found


def _refit(
    data: TrainingData, config: RunConfig, states: list[State], device: torch.device, progress: Progress, stop: Callable[[], bool]
) -> tuple[GelGTModel | Ensemble | None, dict[str, Any] | None]:
    """Models trained anew on every labelled window, for as many epochs as validation chose; none where it was interrupted."""
    splits = ("train", "val", "test")
    models = []
    for number, state in enumerate(states):
        own = member_config(config, number, 0.0)
        again = own.train.model_copy(update={"epochs": max(1, state.best_epoch), "time_limit": None})
        model = make_model(data, own)
        done = Trainer(model, data, again, device, splits=splits, watch=False, progress=progress, stop=stop).run()
        if done.ended == "interrupted":
            return None, None
        models.append(model)
    made = models[0] if len(models) == 1 else Ensemble(models)
    return made, {"rows": sum(data.task.rows[s] for s in splits), "epochs": states[0].best_epoch}


def _describe(
    data: TrainingData, config: RunConfig, options: Options, state: State, clock: _Clock, parameters: int, content_hash: str
) -> dict[str, Any]:
    """Everything about a run but its scores."""
    task, sampling = data.task, data.sampling
    horizon = None if sampling.horizon is None else str(np.datetime64(sampling.horizon, "s"))
    return {
        "format": 1,
        "model": "gelgt",
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
            "test_timestamp": None if task.test_timestamp is None else time_text(task.test_timestamp),
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
    model: GelGTModel | Ensemble,
    metrics: dict[str, Any],
    shown: dict[str, Any],
    predictions: Predictions,
    baselines: dict[str, Predictions],
) -> None:
    write_json(out / "config.json", config.model_dump())
    write_file(out / "task.yaml", lambda path: path.write_text(yaml_text(manifest(data.task)), encoding="utf-8"))
    for split in ("train", "val", "test"):
        write_file(out / "labels" / f"{split}.parquet", partial(pq.write_table, data.task.table(split)))
    write_json(out / "target.json", data.target.to_dict())
    write_json(out / "schema.json", schema_to_json(data.db.schema))
    write_json(out / "features.json", data.features.statistics.to_dict())
    weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    save_tensors(out / "model.safetensors", weights, {"gelgt": metrics["versions"]["gelgt"]})
    for split, values in predictions.items():
        table = scored_table(data, split, values, {name: found[split] for name, found in baselines.items()})
        write_file(out / "predictions" / f"{split}.parquet", partial(pq.write_table, table))
    write_json(out / "profile.json", shown)
    write_json(out / "metrics.json", {"run": out.name} | metrics)
    finish_run(out)


def scored_table(data: TrainingData, split: str, predictions: NDArray[Any], baselines: Predictions | None = None) -> pa.Table:
    """The predictions of a split with its labels, and the baselines' scores where they are one number a row."""
    seeds, task = data.seeds[split], data.task
    rows = seeds.node - data.graph.offsets[data.graph.table_number(task.entity_table)]
    table = key_table(data.db, task.entity_table, rows)
    columns = {"time": times_column(seeds.time), **prediction_columns(data.target, predictions)}
    columns["label"] = label_column(data.target, data.labels(split))
    columns |= {f"baseline:{name}": pa.array(values) for name, values in (baselines or {}).items() if values.ndim == 1}
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table


def _facts(data: TrainingData) -> str:
    rows = ", ".join(f"{split} {count:,}" for split, count in data.task.rows.items())
    return f"{data.graph.num_nodes:,} rows in {len(data.graph.tables)} tables; labels: {rows}; {data.sampling.visibility}"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # a source tree that is not installed
            from gelgt import __version__

            found[name] = __version__ if name == "gelgt" else "?"
    return found
