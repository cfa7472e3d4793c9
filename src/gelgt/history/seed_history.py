"""What a network reads of a seed besides its subgraph: aggregates over all the rows that the seed
may see, and the calendar.

aggregates   `gelgt.history.aggregates` without the columns that number categories; with siblings
             where the plan asks for them
calendar     sine and cosine of the year and the half year at the seed time, and the days from the
             newest time that the seed may see to its seed time
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import ModelConfig, SamplingConfig
from gelgt.graph import Graph
from gelgt.history.aggregates import aggregates
from gelgt.history.lists import Lists
from gelgt.history.task_data import TaskData
from gelgt.sampling import Sampler, Seeds

DAY = 86_400
YEAR = 365.2425 * DAY
CALENDAR_NAMES = (
    "sine of the year",
    "cosine of the year",
    "sine of half a year",
    "cosine of half a year",
    "days ahead",
)
CALENDAR = len(CALENDAR_NAMES)  # columns, behind the aggregates
SPAN = 2 * YEAR  # training times that span less have not seen each season twice


@dataclass(frozen=True)
class HistoryPlan:
    """What a model asks for: the hops of the aggregates (0 for none), whether it reads the calendar
    and the aggregates of siblings, and the names of the aggregates that were chosen (None: all)."""

    hops: int = 0
    has_calendar: bool = False
    has_siblings: bool = False
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, config: ModelConfig, columns: Sequence[str] | None = None) -> "HistoryPlan":
        """What a model's settings ask for, with the columns that its training chose."""
        if columns is None:
            return cls(config.history, config.calendar, config.history > 0)
        hops = config.history if columns else 0
        return cls(hops, config.calendar, hops > 0, tuple(columns))

    def __bool__(self) -> bool:
        return bool(self.hops) or self.has_calendar


NO_HISTORY = HistoryPlan()


def seed_history(
    data: TaskData, seeds: Seeds, plan: HistoryPlan, lists: Lists | None = None
) -> Tensor:
    """(S, F) the columns that a plan asks for, NaN for what is missing.

    Args:
        lists: Follows foreign keys; by default to every row that the seeds may see.
    """
    further = calendar(data.graph, data.sampling, seeds) if plan.has_calendar else None
    if not plan.hops:
        return torch.zeros(len(seeds), 0) if further is None else torch.from_numpy(further)
    first = data.graph.offsets[data.graph.table_number(data.task.entity_table)]
    compute = partial(
        aggregates,
        data,
        seeds.node - first,
        seeds.time,
        hops=plan.hops,
        siblings=plan.has_siblings,
        lists=lists,
    )
    if plan.columns is None:
        values = compute().numbers
        values = values if further is None else np.concatenate([values, further], 1)
        return torch.from_numpy(np.ascontiguousarray(values))
    # The calendar stands behind the aggregates, in a table that is written once.
    count = len(plan.columns)
    table = np.empty((len(seeds), count + (CALENDAR if plan.has_calendar else 0)), np.float32)
    compute(names=plan.columns, out=table[:, :count])
    if further is not None:
        table[:, count:] = further
    return torch.from_numpy(table)


def calendar(graph: Graph, sampling: SamplingConfig, seeds: Seeds) -> NDArray[np.float32]:
    """(S, 5) the columns `CALENDAR_NAMES`."""
    turn = 2 * np.pi * ((seeds.asked / YEAR) % 1)
    lag = (seeds.asked - Sampler(graph, sampling).references(seeds.time)) / DAY
    return np.stack(
        [np.sin(turn), np.cos(turn), np.sin(2 * turn), np.cos(2 * turn), lag], 1
    ).astype(np.float32)


def for_fitting(history: Tensor, seeds: Seeds, plan: HistoryPlan) -> Tensor:
    """The history from which a model takes quantiles, or trees are grown: the seasons are set to 0
    where the training times span less than two years, because nothing can be learned of them."""
    if plan.has_calendar and len(seeds) and np.ptp(seeds.asked) < SPAN:
        history = history.clone()
        history[:, -CALENDAR:-1] = 0.0
    return history
