"""Futures: what an entity's rows say in the window of its label, learned beside the label.

A label is often one bit of what happens in its window: whether a driver retired at least once. The
rows of that window say much more (where he started, how far he got, how often), and a network that
has to predict them too overfits the bit less. For each table whose rows name the entity:

    count       of its rows in the window
    mean        of each number
    share       of each frequent category

brought to a normal scale by their training quantiles. They are targets, not inputs: a window begins
at the time that is asked about and is as long as the task's, and one that ends after the time until
which labels are learned teaches nothing. The layer that predicts them is there while a model is
trained, and no longer.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gelgt.history.aggregates import TOP, take, visible_columns
from gelgt.history.events import View, children, keys_of, row_times
from gelgt.nn import GelGTModel, RelationalModel
from gelgt.nn.history import normal_places, quantiles
from gelgt.sampling import Seeds
from gelgt.training.data import KNOWN, TrainingData
from gelgt.training.target import Target


@dataclass(frozen=True)
class Objective:
    """What a network is trained for.

    Attributes:
        target: Of the task.
        labels: (S,) or (S, L), encoded, of all the seeds that are learned from.
        futures: (S, A) on a normal scale, NaN where nothing happens or is known; None where they
            are not asked for.
        weight: Of their loss.
    """

    target: Target
    labels: Tensor
    futures: Tensor | None = None
    weight: float = 0.0

    def losses(self, out: Tensor, index: Tensor) -> Tensor:
        """The loss of each row of a batch: (B, outputs + A), (B,) places among the seeds → (B,)."""
        found = self.target.losses(
            out[:, : self.target.outputs], self.labels.index_select(0, index)
        )
        if self.futures is None:
            return found
        wanted = self.futures.index_select(0, index)
        known = ~torch.isnan(wanted)
        gaps = (
            functional.smooth_l1_loss(
                out[:, self.target.outputs :].float(), wanted.nan_to_num(), reduction="none"
            )
            * known
        )
        return found + self.weight * gaps.sum(1) / known.sum(1).clamp(min=1)

    def loss(self, out: Tensor, index: Tensor) -> Tensor:
        """The mean loss of a batch: ()."""
        return self.losses(out, index).mean()


def make_objective(
    model: RelationalModel,
    data: TrainingData,
    seeds: Seeds,
    labels: NDArray[np.generic],
    splits: tuple[str, ...],
    device: torch.device,
) -> Objective:
    """The objective of a model on the labels of some splits; a model that learns futures is given
    the layer that predicts them."""
    encoded = data.target.encode(labels).to(device)
    weight = model.config.futures if isinstance(model, GelGTModel) else 0.0
    if not weight:
        return Objective(data.target, encoded)
    assert isinstance(model, GelGTModel)
    values = torch.from_numpy(future_values(data, seeds, known_until(data, splits)))
    edges = quantiles(values)
    # what never differs teaches nothing
    told = torch.isfinite(edges).all(1) & (edges[:, 0] < edges[:, -1])
    if not told.any():
        return Objective(data.target, encoded)
    values, edges = values[:, told], edges[told]
    wanted = torch.where(torch.isnan(values), torch.nan, normal_places(values, edges))
    model.expect(wanted.shape[1])
    return Objective(data.target, encoded, wanted.to(device), weight)


def known_until(data: TrainingData, splits: tuple[str, ...]) -> int | None:
    """The time up to which windows may reach, in seconds: where only training labels are learned
    the validation time, where all known ones are the test time, and any where the test labels are
    learned too."""
    if "test" in splits:
        return None
    end = data.task.test_timestamp if splits == (KNOWN,) else data.task.val_timestamp
    if end is not None:
        return int(np.datetime64(end, "s").astype(np.int64))
    # labels that came without split times
    later = data.seeds["test" if splits == (KNOWN,) else "val"].time
    return int(later.min()) if len(later) else None


def future_values(data: TrainingData, seeds: Seeds, until: int | None) -> NDArray[np.float32]:
    """(S, A) counts, means and shares of the windows of seeds, NaN where there is nothing to count
    or a window ends after `until`."""
    from gelgt.history.kernels import first_from, sweep_codes, sweep_numbers

    task, graph = data.task, data.graph
    length = 0 if task.timedelta is None else int(task.timedelta.total_seconds())
    hidden = frozenset((table, column) for table, column in task.remove_columns)
    end = seeds.asked + length
    rows = seeds.node - graph.offsets[graph.table_number(task.entity_table)]
    wanted = np.zeros(len(row_times(graph, task.entity_table)), np.bool_)
    wanted[rows] = True
    parts: list[NDArray[np.float32]] = []
    for key in keys_of(graph, hidden) if length else ():
        if key.parent != task.entity_table or not data.db.table(key.child).has_time:
            continue
        events = children(graph, key, wanted)
        # with fractions, some rows of the last second lie after it
        until_end = events.view(rows, end + (end < graph.first_fraction))
        first = first_from(events.time, until_end.first, until_end.last, seeds.asked + 1)
        view = View(events, first, until_end.last, np.lexsort((until_end.last, first)))
        parts.append((view.last - view.first).astype(np.float32)[:, None])
        for _, values in visible_columns(data.features, key.child, "numerical", hidden):
            means = np.empty((len(seeds), 5), np.float32)
            sweep_numbers(
                take(values, events.row, np.nan), view.first, view.last, view.order, means
            )
            parts.append(means[:, :1].copy())
        for _, codes in visible_columns(data.features, key.child, "categorical", hidden):
            shares = np.empty((len(seeds), TOP + 1), np.float32)
            sweep_codes(take(codes, events.row, -1), view.first, view.last, view.order, shares)
            parts.append(shares[:, :TOP].copy())
    found = np.concatenate(parts, 1) if parts else np.zeros((len(seeds), 0), np.float32)
    if until is not None:
        found[end > until] = np.nan
    return found
