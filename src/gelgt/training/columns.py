"""The columns network of a run: trained before the networks that look at subgraphs, which then
learn what it leaves open.

A network that reads columns and subgraphs at once learned the columns worse than one that reads
them alone (docs/research/quality.md). So the columns come first, and what a graph network learns
from is the error that is left. On the rows that the columns network has learned from, that error is
smaller than on any others; each training row is therefore judged by a *fold*: a network that has
not seen its entity.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import TrainConfig
from gelgt.history.seed_history import for_fitting
from gelgt.nn.columns import ColumnsNetwork
from gelgt.nn.target import Target
from gelgt.sampling import Seeds
from gelgt.training.data import TrainingData
from gelgt.training.examples import learnable
from gelgt.training.weights import MovingAverage, Weights

FOLDS = 4
STEPS, EVERY, PATIENCE = 4_000, 40, 600  # at most, between two scores, without a better one
BATCH, RATE, DECAY, WARMUP, AVERAGE = 256, 5e-4, 0.1, 50, 0.98
MOST_ROWS = 200_000  # labels that are learned from
FOLDS_SHARE = 0.6  # of the time that all of it may take


@dataclass(frozen=True)
class Columns:
    """A trained columns network, and the folds that judge its training rows.

    Attributes:
        network: Predicts.
        folds: Each has learned the entities of the other folds; none where time was short.
        steps: That were taken.
        is_cut_off: Time ended it.
    """

    network: ColumnsNetwork
    folds: tuple[ColumnsNetwork, ...]
    steps: int
    is_cut_off: bool = False

    def offsets(self, data: TrainingData, seeds: Seeds) -> Tensor:
        """(S, outputs) what the columns say of training seeds, by networks that have not seen
        their entities."""
        values = _values(data, seeds)
        if not self.folds:
            return self.network.outputs(values)
        place = _fold(seeds, len(self.folds))
        out = torch.zeros(len(seeds), data.target.outputs)
        for number, fold in enumerate(self.folds):
            inside = torch.from_numpy(np.flatnonzero(place == number))
            out[inside] = fold.outputs(values[inside])
        return out


@dataclass
class _Rows:
    """What one network learns from."""

    values: Tensor
    labels: Tensor

    def take(self, places: NDArray[np.int64]) -> "_Rows":
        index = torch.from_numpy(places)
        return _Rows(self.values[index], self.labels[index])

    def to(self, device: torch.device) -> "_Rows":
        return _Rows(self.values.to(device), self.labels.to(device))


@dataclass
class _Fit:
    """How columns networks are trained.

    Attributes:
        members: Of each.
        deadline: By `time.perf_counter`.
    """

    target: Target
    device: torch.device
    seed: int
    members: int
    deadline: float = np.inf
    stop: Callable[[], bool] = lambda: False
    is_cut_off: bool = field(default=False, init=False)

    def network(self, rows: _Rows, number: int) -> ColumnsNetwork:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed + 7_919 * number)
            network = ColumnsNetwork(
                rows.values.shape[1], self.target.outputs, self.members
            )
        network.start(rows.values, torch.tensor(self.target.start))
        return network.to(self.device)

    def best(self, rows: _Rows, held_out: _Rows) -> tuple[ColumnsNetwork, int]:
        """A network with the weights of the step that had the least loss on rows that were held
        out."""
        network, watched = self.network(rows, 0), held_out.to(self.device)
        best: Weights = {}
        least, at = np.inf, 0

        def is_enough(step: int) -> bool:
            nonlocal best, least, at
            loss = self._loss(network, watched)
            if loss < least:
                least, at = loss, step
                best = {name: p.detach().clone() for name, p in network.state_dict().items()}
            return step - at >= PATIENCE

        self._train(network, rows, STEPS, is_enough)
        network.load_state_dict(best)
        return network, at

    def fixed(self, rows: _Rows, steps: int, number: int) -> ColumnsNetwork:
        """A network after so many steps."""
        network = self.network(rows, number)
        self._train(network, rows, steps)
        return network

    def _is_over(self) -> bool:
        self.is_cut_off |= time.perf_counter() > self.deadline or self.stop()
        return self.is_cut_off

    @torch.no_grad()
    def _loss(self, network: ColumnsNetwork, rows: _Rows) -> float:
        out = network.outputs(rows.values).to(self.device)
        return float(self.target.loss(out, rows.labels))

    def _train(
        self,
        network: ColumnsNetwork,
        rows: _Rows,
        most: int,
        is_enough: Callable[[int], bool] | None = None,
    ) -> None:
        """Take steps, and leave the averaged weights. With these, `is_enough` is asked now and
        then, and when time is over."""
        rows, size = rows.to(self.device), len(rows.labels)
        order = torch.Generator().manual_seed(self.seed)
        optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
        average, places = MovingAverage(network, AVERAGE), torch.zeros(0, dtype=torch.int64)
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(self.seed)
            for step in range(1, most + 1):
                if len(places) < min(BATCH, size):
                    places = torch.randperm(size, generator=order)
                batch, places = places[:BATCH].to(self.device), places[BATCH:]
                for group in optimiser.param_groups:
                    group["lr"] = RATE * min(1.0, step / WARMUP)
                network.train()
                out = network.of_members(rows.values[batch])
                labels = rows.labels[batch]
                loss = torch.stack([self.target.loss(o, labels) for o in out]).mean()
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimiser.step()
                average.update(step)
                if is_enough is None:
                    continue
                is_over = self._is_over()
                if is_over or step % EVERY == 0:
                    with average.evaluated():
                        is_over |= is_enough(step)
                if is_over:
                    break
        average.keep()


def fit_columns(
    data: TrainingData,
    config: TrainConfig,
    device: torch.device,
    members: int,
    *,
    seconds: float | None = None,
    stop: Callable[[], bool] = lambda: False,
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
    deadline = np.inf if seconds is None else began + (1 - FOLDS_SHARE) * seconds
    fit = _Fit(data.target, device, config.seed, members, deadline, stop)
    network, steps = fit.best(rows, held_out)
    spent, taken = time.perf_counter() - began, max(steps, 1)
    folds = FOLDS if seconds is None or FOLDS * spent <= seconds - spent else 0
    return Columns(network, _folds(fit, rows, seeds, taken, folds), taken, fit.is_cut_off)


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
    fit = _Fit(data.target, device, config.seed, members)
    network = fit.fixed(rows, columns.steps, 0)
    folds = _folds(fit, rows, seeds, columns.steps, len(columns.folds))
    return Columns(network, folds, columns.steps, columns.is_cut_off)


def _folds(
    fit: _Fit, rows: _Rows, seeds: Seeds, steps: int, count: int
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
) -> tuple[_Rows, Seeds]:
    seeds, labels = learnable(data, splits, config)
    if len(seeds) > MOST_ROWS:
        some = np.random.default_rng(config.seed).choice(len(seeds), MOST_ROWS, replace=False)
        some.sort()
        seeds, labels = seeds.take(some), labels[some]
    values = for_fitting(_values(data, seeds), seeds, data.plan)
    return _Rows(values, data.target.encode(labels)), seeds


def _validation(data: TrainingData, config: TrainConfig) -> _Rows:
    """Validation rows with a label, at most `config.eval_rows`."""
    seeds, labels = data.seeds["val"], data.labels("val")
    is_known = np.isfinite(labels).reshape(len(labels), -1).all(1)
    usable = np.flatnonzero(is_known & data.exists(seeds))
    if len(usable) > config.eval_rows:
        usable = usable[np.linspace(0, len(usable) - 1, config.eval_rows).astype(np.int64)]
    seeds, labels = seeds.take(usable), labels[usable]
    return _Rows(_values(data, seeds), data.target.encode(labels))


def _values(data: TrainingData, seeds: Seeds) -> Tensor:
    values = data.history(seeds)
    return torch.zeros(len(seeds), 0) if values is None else values.float()
