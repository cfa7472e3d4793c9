"""The columns network of a run, beside the networks that look at subgraphs.

A network that reads columns and subgraphs at once learns both worse than two that read one each;
and one that learns from subgraphs what the columns leave open finds nothing, not even a planted
truth, because every easy step towards it is taken already (docs/research/quality.md). So each
learns the task by itself, and validation mixes them.
"""

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from gelgt.config import TrainConfig
from gelgt.history.seed_history import for_fitting
from gelgt.nn.columns import PREFIX, ColumnsNetwork
from gelgt.nn.target import Target
from gelgt.presets import RunConfig
from gelgt.runs.tensors import load_tensors, save_tensors
from gelgt.training.columns_fit import ColumnRows, ColumnsFit
from gelgt.training.data import TrainingData
from gelgt.training.examples import tabular

CHECKPOINT = "checkpoint-columns.safetensors"


@dataclass(frozen=True)
class Columns:
    """A trained columns network.

    Attributes:
        network: Predicts.
        steps: That were taken.
        is_cut_off: Time ended it.
        seconds: That it took.
    """

    network: ColumnsNetwork
    steps: int
    is_cut_off: bool = False
    seconds: float = 0.0

    def to(self, device: torch.device) -> "Columns":
        """The same on a device."""
        self.network.to(device)
        return self


def fit_columns(
    data: TrainingData,
    config: RunConfig,
    device: torch.device,
    *,
    seconds: float | None = None,
) -> Columns | None:
    """A columns network that stops by the validation loss; None where there are no columns, or
    nothing to stop by.

    Args:
        seconds: That it may take; None for no limit.
    """
    train, model = config.train, config.model
    rows = column_rows(data, config)
    held_out = _validation(data, train)
    if not rows.values.shape[1] or not len(held_out.labels):
        return None
    began = time.perf_counter()
    deadline = np.inf if seconds is None else began + seconds
    fit = ColumnsFit(data.target, device, train.seed, model.column_members, deadline)
    network, steps = fit.best(rows, held_out, train.epochs)
    return Columns(network, max(steps, 1), fit.is_cut_off, time.perf_counter() - began)


def refit_columns(
    columns: Columns,
    rows: ColumnRows,
    target: Target,
    config: RunConfig,
    device: torch.device,
) -> Columns:
    """The same with other rows, for as many steps."""
    fit = ColumnsFit(target, device, config.train.seed, len(columns.network.base))
    return replace(columns, network=fit.fixed(rows, columns.steps))


def column_rows(
    data: TrainingData, config: RunConfig, splits: tuple[str, ...] = ("train",)
) -> ColumnRows:
    """What a columns network learns of the labels of some splits."""
    seeds, labels = tabular(data, splits, config.train)
    values = for_fitting(data.columns_of(seeds), seeds, data.plan)
    rows = ColumnRows(values, data.target.encode(labels))
    if weight := config.model.futures:
        rows.futures, rows.weight = data.futures(seeds, splits), weight
    return rows


def _validation(data: TrainingData, config: TrainConfig) -> ColumnRows:
    """Validation rows with a label, at most `config.eval_rows`."""
    seeds, labels = data.seeds["val"], data.labels("val")
    is_known = np.isfinite(labels).reshape(len(labels), -1).all(1)
    usable = np.flatnonzero(is_known & data.exists(seeds))
    if len(usable) > config.eval_rows:
        usable = usable[np.linspace(0, len(usable) - 1, config.eval_rows).astype(np.int64)]
    seeds, labels = seeds.take(usable), labels[usable]
    return ColumnRows(data.columns_of(seeds), data.target.encode(labels))


def columns_key(key: str, data: TrainingData) -> str:
    """What a columns network depends on: the run, and the columns that it reads, in their order."""
    names = "\n".join(data.plan.columns or ())
    return f"{key}-{hashlib.blake2b(names.encode(), digest_size=8).hexdigest()}"


def save_columns(folder: Path, key: str, columns: Columns) -> None:
    """Write a columns network for a run that may be resumed; `drop_checkpoints` removes it."""
    tensors = {
        f"{PREFIX}{name}": tensor.detach().cpu().contiguous()
        for name, tensor in columns.network.state_dict().items()
    }
    facts = {
        "key": key,
        "steps": str(columns.steps),
        "cut_off": str(columns.is_cut_off),
        "seconds": str(columns.seconds),
    }
    save_tensors(folder / CHECKPOINT, tensors, facts)


def begun_columns(folder: Path, key: str) -> Columns | None:
    """What `save_columns` wrote for the same run; None where it did not."""
    if not (folder / CHECKPOINT).exists():
        return None
    tensors, meta = load_tensors(folder / CHECKPOINT)
    if meta.get("key") != key:
        return None
    with torch.random.fork_rng(devices=[]):
        network = ColumnsNetwork.shaped(tensors)
    assert network is not None
    network.load_state_dict({k.removeprefix(PREFIX): v for k, v in tensors.items()})
    is_cut_off, seconds = meta["cut_off"] == "True", float(meta["seconds"])
    return Columns(network, int(meta["steps"]), is_cut_off, seconds)
