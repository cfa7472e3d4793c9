"""Training steps and predictions of the columns network, beside the same network by PyTorch's own
operations in float32, in the same run."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gelgt.nn.columns import ColumnsNetwork
from gelgt.nn.pieces import plain_numbers
from gelgt.presets import RunConfig
from gelgt.training.columns import column_rows
from gelgt.training.columns_fit import AVERAGE, PLAN, ColumnRows, ColumnsFit
from gelgt.training.columns_step import ColumnsStep
from gelgt.training.data import TrainingData
from gelgt.training.weights import MovingAverage

OWN, PLAIN = "columns network", "columns network, plain"
MOST = 4_096  # rows that are learned and predicted
WARM = 5  # steps that are not counted; on CUDA the first of them are not recorded

Stretches = Callable[[Callable[[], Any], int], dict[str, float]]


class _PlainNetwork(ColumnsNetwork):
    """The same formula without loops of our own and without bf16."""

    def _numbers(self, values: Tensor) -> Tensor:
        return plain_numbers(values, self.edges, self.piece_weights, self.kept(values))

    def _product(self, x: Tensor, factors: Tensor, weight: Tensor) -> Tensor:
        return (x * factors) @ weight


def column_steps(
    data: TrainingData, config: RunConfig, device: torch.device, steps: int, stretches: Stretches
) -> list[dict[str, Any]]:
    """Milliseconds of a step, and of a prediction of all rows; none where no columns are read.

    Args:
        steps: Of each stretch.
        stretches: Times some work, divided by a number of items.
    """
    rows = column_rows(data, config) if config.model.column_members and data.plan.hops else None
    if rows is None or not rows.values.shape[1] or not len(rows.labels):
        return []
    rows = _first(rows)
    fit = ColumnsFit(data.target, device, config.train.seed, config.model.column_members)
    network = fit.network(rows)
    results = []
    for path, each in ((OWN, network), (PLAIN, _plain(network))):
        results += _measured(path, each, fit, rows.to(device), steps, stretches)
    return results


def _plain(network: ColumnsNetwork) -> _PlainNetwork:
    """The same weights."""
    members, _, outputs = network.head.shape
    plain = _PlainNetwork(len(network.edges), outputs, members)
    plain.expect(0 if network.futures is None else network.futures.shape[1])
    plain.load_state_dict(network.state_dict())
    return plain.to(network.edges.device)


def _first(rows: ColumnRows) -> ColumnRows:
    futures = None if rows.futures is None else rows.futures[:MOST]
    return ColumnRows(rows.values[:MOST], rows.labels[:MOST], futures, rows.weight)


def _measured(
    path: str,
    network: ColumnsNetwork,
    fit: ColumnsFit,
    rows: ColumnRows,
    steps: int,
    stretches: Stretches,
) -> list[dict[str, Any]]:
    futures = rows.values[:, :0] if rows.futures is None else rows.futures
    learned = (rows.values, rows.labels, fit.target, PLAN, futures, rows.weight)
    take = ColumnsStep(network, MovingAverage(network, AVERAGE), *learned)

    def stretch(count: int = steps) -> None:
        for _ in range(count):
            if take.is_used_up:
                take.shuffle(torch.randperm(len(rows.labels)))
            take()

    stretch(WARM)
    training = stretches(stretch, steps)
    values = rows.values.cpu()
    network.outputs(values)
    scoring = stretches(lambda: network.outputs(values), 1)
    per_second = {"seeds_per_second": round(1e3 * len(values) / scoring["ms"])}
    return [
        {"what": "training", "path": path, **training},
        {"what": "inference", "path": path, **scoring, **per_second},
    ]
