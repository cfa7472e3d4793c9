"""What happened around a seed before its time, as columns: the history that the network, the trees
and the baselines read.

events.py        the rows that belong to an entity along a path of foreign keys, sorted by time
columns.py       columns over single rows and over such lists: counts, means, newest values, shares
aggregates.py    the paths around the entity table, and their columns
seed_history.py  the columns that a configuration asks for, with the calendar
keys.py          the foreign keys that are followed
lists.py         how they are followed
kernels.py       their compiled loops
"""

from gelgt.history.aggregates import Aggregates, aggregates
from gelgt.history.seed_history import NO_HISTORY, HistoryPlan, for_fitting, seed_history
from gelgt.history.task_data import TaskData

__all__ = [
    "NO_HISTORY",
    "Aggregates",
    "HistoryPlan",
    "TaskData",
    "aggregates",
    "for_fitting",
    "seed_history",
]
