"""What happened around a seed before its time, as columns: the history that the network, the trees
and the baselines read.

events.py        which rows an owner has, since when: lists along paths of foreign keys
aggregates.py    causal columns over such lists: counts, means, newest values, shares of categories
seed_history.py  the columns that a configuration asks for, with the calendar
kernels.py       their compiled loops
"""

from gelgt.history.aggregates import Aggregates, aggregates
from gelgt.history.seed_history import NO_HISTORY, HistoryPlan, for_fitting, seed_history

__all__ = ["NO_HISTORY", "Aggregates", "HistoryPlan", "aggregates", "for_fitting", "seed_history"]
