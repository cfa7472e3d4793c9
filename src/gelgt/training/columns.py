"""The columns network of a run: trained before the networks that look at subgraphs, which then
learn what it leaves open.

A network that reads columns and subgraphs at once learned the columns worse than one that reads
them alone (docs/research/quality.md). So the columns come first, and what a graph network learns
from is the error that is left. On the rows that the columns network has learned from, that error is
smaller than on any others; each training row is therefore judged by a *fold*: a network that has
not seen its entity.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import TrainConfig
from gelgt.history.seed_history import for_fitting
from gelgt.nn.columns import PREFIX, ColumnsNetwork
from gelgt.runs.tensors import load_tensors, save_tensors
from gelgt.sampling import Seeds
from gelgt.training.columns_fit import ColumnRows, ColumnsFit
from gelgt.training.data import TrainingData
from gelgt.training.examples import learnable

FOLDS = 4
MOST_ROWS = 200_000  # labels that are learned from
CHECKPOINT = "checkpoint-columns.safetensors"
ALONE = 0.8  # of the time that all of it may take, for the network before its folds


@dataclass(frozen=True)
class Columns:
    """A trained columns network, and the folds that judge its training rows.

    Attributes:
        network: Predicts.
        folds: Each has learned the entities of the other folds; none where time was short.
        steps: That were taken.
        is_cut_off: Time ended it.
        seconds: That it took.
    """

    network: ColumnsNetwork
    folds: tuple[ColumnsNetwork, ...]
    steps: int
    is_cut_off: bool = False
    seconds: float = 0.0

    def to(self, device: torch.device) -> "Columns":
        """The same networks on a device."""
        for network in (self.network, *self.folds):
            network.to(device)
        return self

    def offsets(self, data: TrainingData, seeds: Seeds) -> Tensor:
        """(S, outputs) what the columns say of training seeds, by networks that have not seen
        their entities."""
        values = data.columns_of(seeds)
        if not self.folds:
            return self.network.outputs(values)
        place = _fold(seeds, len(self.folds))
        out = torch.zeros(len(seeds), data.target.outputs)
        for number, fold in enumerate(self.folds):
            inside = torch.from_numpy(np.flatnonzero(place == number))
            out[inside] = fold.outputs(values[inside])
        return out


def fit_columns(
    data: TrainingData,
    config: TrainConfig,
    device: torch.device,
    members: int,
    *,
    seconds: float | None = None,
) -> Columns | None:
    """A columns network that stops by the validation loss; None where there are no columns, or
    nothing to stop by.

    Args:
        seconds: For all of it; None for no limit.
    """
    rows, seeds = _learned(data, ("train",), config)
    held_out = _validation(data, config)
    if not rows.values.shape[1] or not len(held_out.labels):
        return None
    began = time.perf_counter()
    deadline = np.inf if seconds is None else began + ALONE * seconds
    fit = ColumnsFit(data.target, device, config.seed, members, deadline)
    network, steps = fit.best(rows, held_out, config.epochs)
    spent, taken = time.perf_counter() - began, max(steps, 1)
    folds = FOLDS if seconds is None or FOLDS * spent <= seconds - spent else 0
    judges = _folds(fit, rows, seeds, taken, folds)
    return Columns(network, judges, taken, fit.is_cut_off, time.perf_counter() - began)


def refit_columns(
    columns: Columns,
    data: TrainingData,
    config: TrainConfig,
    device: torch.device,
    splits: tuple[str, ...],
) -> Columns:
    """The same with the labels of other splits, for as many steps."""
    rows, seeds = _learned(data, splits, config)
    members = len(columns.network.base)
    fit = ColumnsFit(data.target, device, config.seed, members)
    network = fit.fixed(rows, columns.steps, 0)
    folds = _folds(fit, rows, seeds, columns.steps, len(columns.folds))
    return replace(columns, network=network, folds=folds)


def _folds(
    fit: ColumnsFit, rows: ColumnRows, seeds: Seeds, steps: int, count: int
) -> tuple[ColumnsNetwork, ...]:
    place = _fold(seeds, max(count, 1))
    networks = []
    for number in range(count):
        others = np.flatnonzero(place != number)
        if not len(others) or len(others) == len(place):
            return ()
        networks.append(fit.fixed(rows.take(others), steps, 1 + number))
    return tuple(networks)


def _fold(seeds: Seeds, count: int) -> NDArray[np.int64]:
    """(S,) the fold of each seed's entity."""
    mixed = seeds.node.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    place: NDArray[np.int64] = ((mixed >> np.uint64(40)) % np.uint64(count)).astype(np.int64)
    return place


def _learned(
    data: TrainingData, splits: tuple[str, ...], config: TrainConfig
) -> tuple[ColumnRows, Seeds]:
    seeds, labels = learnable(data, splits, config)
    if len(seeds) > MOST_ROWS:
        some = np.random.default_rng(config.seed).choice(len(seeds), MOST_ROWS, replace=False)
        some.sort()
        seeds, labels = seeds.take(some), labels[some]
    values = for_fitting(data.columns_of(seeds), seeds, data.plan)
    return ColumnRows(values, data.target.encode(labels)), seeds


def _validation(data: TrainingData, config: TrainConfig) -> ColumnRows:
    """Validation rows with a label, at most `config.eval_rows`."""
    seeds, labels = data.seeds["val"], data.labels("val")
    is_known = np.isfinite(labels).reshape(len(labels), -1).all(1)
    usable = np.flatnonzero(is_known & data.exists(seeds))
    if len(usable) > config.eval_rows:
        usable = usable[np.linspace(0, len(usable) - 1, config.eval_rows).astype(np.int64)]
    seeds, labels = seeds.take(usable), labels[usable]
    return ColumnRows(data.columns_of(seeds), data.target.encode(labels))


def save_columns(folder: Path, key: str, columns: Columns) -> None:
    """Write a columns network and its folds for a run that may be resumed; `drop_checkpoints`
    removes them."""
    networks = (columns.network, *columns.folds)
    tensors = {
        f"{number}.{PREFIX}{name}": tensor.detach().cpu().contiguous()
        for number, network in enumerate(networks)
        for name, tensor in network.state_dict().items()
    }
    facts = {
        "key": key,
        "steps": str(columns.steps),
        "folds": str(len(columns.folds)),
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
    networks = []
    for number in range(1 + int(meta["folds"])):
        prefix = f"{number}."
        weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        with torch.random.fork_rng(devices=[]):
            network = ColumnsNetwork.shaped(weights)
        assert network is not None
        network.load_state_dict({k.removeprefix(PREFIX): v for k, v in weights.items()})
        networks.append(network)
    return Columns(
        networks[0],
        tuple(networks[1:]),
        int(meta["steps"]),
        meta["cut_off"] == "True",
        float(meta["seconds"]),
    )
