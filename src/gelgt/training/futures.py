"""Futures: what an entity's rows say in the window of its label, learned beside the label.

A label is often one bit of what happens in its window: whether a driver retired at least once. The
rows of that window say much more (where he started, how far he got, how often), and a network that
has to predict them too overfits the bit less. For each table whose timed rows name the entity:

    count    of its rows in the window
    mean     of each number
    share    of each frequent category

They are targets, never inputs. Their windows are those of the labels, and end by the time until
which labels are learned from; the layer that predicts them is there while a network is trained, and
no longer.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.history.columns import TOP
from gelgt.history.events import View, children, taken
from gelgt.history.keys import Key, keys_of
from gelgt.history.task_data import TaskData
from gelgt.nn.history import normal_places, quantiles
from gelgt.sampling import Seeds

MOST = 200  # targets; those that most windows have a value of


def future_targets(data: TaskData, seeds: Seeds, until: int | None) -> Tensor:
    """(S, A) the contents of the windows of seeds on a normal scale, NaN where a window has nothing
    to say; (S, 0) where the task has no windows, or nothing in them differs.

    Args:
        data: The database, of which only the columns that the task may see are read.
        seeds: That are learned from.
        until: The second by which windows have to end: what ends later is not known yet. None where
            all labels are learned.
    """
    values = torch.from_numpy(_window_values(data, seeds, until))
    if not values.shape[1]:
        return values
    edges = quantiles(values)
    differs = torch.isfinite(edges).all(1) & (edges[:, 0] < edges[:, -1])
    filled = torch.isfinite(values).sum(0) * differs
    chosen = torch.sort(torch.argsort(-filled, stable=True)[: min(MOST, int(differs.sum()))])[0]
    values, edges = values[:, chosen], edges[chosen]
    return torch.where(torch.isnan(values), torch.nan, normal_places(values, edges))


def _window_values(data: TaskData, seeds: Seeds, until: int | None) -> NDArray[np.float32]:
    """(S, A) counts, means and shares of windows, NaN where there is nothing to count, or where a
    window ends too late."""
    task = data.task
    length = 0 if task.timedelta is None else int(task.timedelta.total_seconds())
    first = data.graph.offsets[data.graph.table_number(task.entity_table)]
    rows = seeds.node - first
    parts = [np.zeros((len(seeds), 0), np.float32)]
    for key in keys_of(data.graph, data.hidden) if length else ():
        if key.parent == task.entity_table and data.is_timed(key.child):
            events = children(data.graph, key, np.unique(rows))
            if until is not None:  # what is filled in afterwards is not known yet
                read = data.features.rows_at(key.child, events.row, until + 1)
                events = replace(events, version=read)
            by_the_end = events.view(rows, seeds.asked + length + 1)
            first, last = by_the_end.first_from(seeds.asked + 1), by_the_end.last
            order = np.lexsort((last, first))
            view = View(events, first, last, order, by_the_end.place, by_the_end.limits)
            parts.extend(_contents(data, key, view, by_the_end.first))
    values = np.concatenate(parts, 1)
    if until is not None:
        values[seeds.asked + length > until] = np.nan
    return values


def _contents(
    data: TaskData, key: Key, view: View, owned: NDArray[np.int64]
) -> Iterator[NDArray[np.float32]]:
    """The columns of one table's rows in the windows, (S, …) each.

    Args:
        owned: (S,) where all events of each seed begin, from which sums are taken: they never reach
            over another entity's rows, so that these change no bit.
    """
    from gelgt.history.kernels import block_sums, sweep_codes, window_means

    count, since = (view.last - view.first).astype(np.float32), view.first[None]
    yield count[:, None]
    for _, values in data.columns(key.child, "numerical"):
        numbers = taken(values, view.events.read, np.nan).astype(np.float32, copy=False)
        sums, counts = block_sums(numbers, view.events.starts)
        yield window_means(numbers, sums, counts, owned, since, np.arange(1), view.last).T
    for name, codes in data.columns(key.child, "categorical"):
        categories = data.categories(key.child, name)[:TOP]
        shares = np.empty((len(count), len(categories) + 1), np.float32)
        sweep_codes(taken(codes, view.events.read, -1), view.first, view.last, view.order, shares)
        yield shares[:, :-1]  # behind them the newest category, which is a number without order
