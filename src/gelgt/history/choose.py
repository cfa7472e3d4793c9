"""Which history columns a run reads: the best of all that the schema proposes, within a budget.

A wide database proposes thousands of columns, most of which say nothing. They are computed for a
sample of training rows and judged there, a few tables at a time:

    constant     one value, or none, in the whole sample
    duplicate    the same values as a column before it
    gain         what a quick LightGBM gains from the column

As many of the best are kept as the budget allows. Only training rows are looked at: validation and
test decide nothing here.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.history.aggregates import proposals
from gelgt.history.task_data import TaskData
from gelgt.meter import Work

SAMPLE = 8_000  # training rows on which columns are judged
ROUND = 3_000  # columns that are judged at once, which bounds memory
RARE = 1e-3  # share of the sample below which another value does not count
CLASSES = 5  # of labels that are judged, where there are more
PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "bagging_fraction": 0.5,
    "bagging_freq": 1,
    "max_bin": 63,
    "deterministic": True,
    "force_col_wise": True,  # a tree reads few of the columns
    "num_threads": 1,  # trees this small wait for each other's threads, for long on a busy machine
    "verbosity": -1,
}
ROUNDS = 80
TRIED, TRIED_SHARE = 200, (0.2, 0.6)  # columns that a tree sees


@dataclass(frozen=True)
class ChosenColumn:
    """A history column that a run reads: its name, its share of the quick model's gain, and whether
    it numbers categories."""

    name: str
    gain: float
    is_code: bool = False


@dataclass(frozen=True)
class ColumnChoice:
    """What became of the proposed columns.

    Attributes:
        columns: Those that are read, in the order of the schema.
        proposed: How many there were.
        left_out: How many were left out, by reason.
        rows: Training rows on which they were judged.
    """

    columns: tuple[ChosenColumn, ...]
    proposed: int
    left_out: dict[str, int] = field(default_factory=dict)
    rows: int = 0

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the columns that do not number categories."""
        return tuple(column.name for column in self.columns if not column.is_code)


@dataclass
class _Candidates:
    """Columns that wait to be judged, with what was seen of all before."""

    names: list[str] = field(default_factory=list)
    values: list[NDArray[np.float32]] = field(default_factory=list)
    is_code: list[bool] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    proposed: int = 0
    _seen: set[bytes] = field(default_factory=set)

    def add(self, name: str, values: NDArray[np.float32], is_code: bool) -> None:
        self.proposed += 1
        values = np.ascontiguousarray(values)
        content = hashlib.blake2b(values.tobytes(), digest_size=16).digest()
        if _is_constant(values):
            self.leave_out("constant")
            return
        if content in self._seen:
            self.leave_out("duplicate")
            return
        self._seen.add(content)
        self.names.append(name)
        self.values.append(values)
        self.is_code.append(is_code)

    def leave_out(self, reason: str, count: int = 1) -> None:
        if count:
            self.left_out[reason] = self.left_out.get(reason, 0) + count

    def keep(self, places: NDArray[np.int64]) -> None:
        for values in (self.names, self.values, self.is_code):
            values[:] = [values[place] for place in places]


def choose_columns(
    data: TaskData,
    rows: NDArray[np.int64],
    times: NDArray[np.int64],
    labels: NDArray[Any],
    *,
    hops: int,
    budget: int,
    siblings: bool = False,
    seed: int = 0,
    threads: int = 1,
) -> ColumnChoice:
    """The best columns of training rows.

    Args:
        data: What the rows may see.
        rows: (S,) rows of the entity table.
        times: (S,) seed times in seconds since 1970.
        labels: (S,) values, classes or 0 and 1; (S, L) for several labels; NaN for none.
        hops: Of the proposed columns.
        budget: Columns that are kept at most.
        siblings: As `aggregates` has it.
        seed: Of the sample and of the quick model.
        threads: That divide values into bins, a column each; more than one only where no other
            LightGBM grows at the same time, which has as many.
    """
    some = _sample(labels, seed)
    goals = list(_goals(labels[some]))
    candidates = _Candidates()
    gains, fixed = np.zeros(0), PARAMETERS | {"seed": seed}
    work = Work("judging columns", unit="columns")
    for proposal in proposals(data, rows[some], times[some], hops, siblings):
        candidates.add(*proposal)
        work(1)
        if len(candidates.names) >= ROUND:
            gains = _judge(candidates, goals, ROUND // 2, fixed, threads)
    if candidates.names:
        gains = _judge(candidates, goals, budget, fixed, threads)
    share = gains / max(gains.sum(), 1e-12)
    columns = tuple(map(ChosenColumn, candidates.names, share.tolist(), candidates.is_code))
    return ColumnChoice(columns, candidates.proposed, candidates.left_out, len(some))


def _sample(labels: NDArray[Any], seed: int) -> NDArray[np.int64]:
    """Rows with a label, at most `SAMPLE`."""
    has_label = np.isfinite(labels)
    usable = np.flatnonzero(has_label.all(axis=1) if has_label.ndim > 1 else has_label)
    if len(usable) <= SAMPLE:
        return usable
    return np.sort(np.random.default_rng(seed).choice(usable, SAMPLE, replace=False))


def _goals(labels: NDArray[Any]) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """What quick models learn, with their objective: the labels, or the most frequent of many."""
    if labels.ndim > 1:
        frequent = np.argsort(-labels.sum(axis=0), kind="stable")[:CLASSES]
        yield from (("binary", labels[:, place].astype(np.float64)) for place in frequent)
        return
    if labels.dtype.kind in "iu" and len(classes := np.unique(labels)) > 2:
        counts = np.array([np.count_nonzero(labels == c) for c in classes])
        frequent = classes[np.argsort(-counts, kind="stable")[:CLASSES]]
        yield from (("binary", (labels == c).astype(np.float64)) for c in frequent)
        return
    is_binary = np.isin(labels, (0, 1)).all()
    yield "binary" if is_binary else "l1", labels.astype(np.float64)


def _judge(
    candidates: _Candidates,
    goals: Sequence[tuple[str, NDArray[np.float64]]],
    keep: int,
    fixed: dict[str, Any],
    threads: int,
) -> NDArray[np.float64]:
    """Keep the candidates with the largest gains, in the order of the schema, and return these."""
    gains = _gains(candidates, goals, fixed, threads)
    order = np.argsort(-gains, kind="stable")
    candidates.leave_out("too little gain", max(0, len(order) - keep))
    kept = np.sort(order[:keep])
    candidates.keep(kept)
    return gains[kept]


def _gains(
    candidates: _Candidates,
    goals: Sequence[tuple[str, NDArray[np.float64]]],
    fixed: dict[str, Any],
    threads: int,
) -> NDArray[np.float64]:
    """The gain of each column for models of some parameters; without LightGBM, how far its ranks go
    with those of the labels."""
    gains = np.zeros(len(candidates.names))
    matrix = np.stack(candidates.values, 1)
    try:
        import lightgbm
    except ImportError:
        for _, labels in goals:
            gains += [_rank_correlation(values, labels) for values in candidates.values]
        return gains
    binned = {name: value for name, value in fixed.items() if name != "seed"}
    table, binned = None, binned | {"num_threads": threads}
    for objective, labels in goals:
        if len(np.unique(labels)) < 2:
            continue
        # Each tree sees a part of the columns, so that one does not hide others that say the same.
        share = float(np.clip(TRIED / matrix.shape[1], *TRIED_SHARE))
        parameters = fixed | {"objective": objective, "feature_fraction": share}
        if table is None:  # whose columns are binned once for all labels
            table = lightgbm.Dataset(matrix, labels, params=binned, free_raw_data=False)
            table.construct()
        model = lightgbm.train(parameters, table.set_label(labels), ROUNDS)
        gains += model.feature_importance("gain")
    return gains


def _rank_correlation(values: NDArray[np.float32], labels: NDArray[np.float64]) -> float:
    has_value = np.isfinite(values)
    if np.count_nonzero(has_value) < 3:
        return 0.0
    ranks = [np.argsort(np.argsort(x[has_value])) for x in (values.astype(np.float64), labels)]
    correlation = np.corrcoef(ranks[0], ranks[1])[0, 1]
    return float(abs(correlation)) if np.isfinite(correlation) else 0.0


def _is_constant(values: NDArray[np.float32]) -> bool:
    """Whether nearly every row has the same value, or none."""
    if not len(values):
        return True
    middle = values[len(values) // 2]
    is_same = np.isnan(values) if np.isnan(middle) else values == middle
    return bool(np.count_nonzero(~is_same) <= RARE * len(values))
