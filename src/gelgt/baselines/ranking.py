"""Baselines of a recommendation: what has to be beaten, from the same links and candidates.

past       what the entity has had, most often first, then the newest
recent     what anyone has had, the newest first
popular    what everyone has had in the last windows, most often first
lightgbm   trees on the columns of candidates

Where labels hardly ever name what the entity has had before, `recent` and `popular` leave it out.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.candidates.find import CandidateFinder, Candidates
from gelgt.candidates.orders import LinkOrder
from gelgt.graph import TIMELESS
from gelgt.sampling import Seeds

RECENT = LinkOrder(0)
POPULAR = tuple(LinkOrder(windows) for windows in (1, 2, 4, 16))
SELDOM = 0.02  # of labels that were had before: fewer, and what was had is left out
ROUNDS, STOP_AFTER = 600, 40
OTHERS = 60  # candidates that are no positives beside each seed, in LightGBM's rows
PARAMETERS = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 12,
    "min_data_in_leaf": 50,
    "feature_fraction": 0.5,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "verbosity": -1,
}


@dataclass(frozen=True)
class LinkRankings:
    """Rankings by links alone.

    Attributes:
        finder: Of links and candidates.
        k: Rows of a ranking.
        new_only: Leave out what the entity has had.
    """

    finder: CandidateFinder
    k: int
    new_only: bool

    def past(self, seeds: Seeds, candidates: Candidates) -> NDArray[np.int64]:
        """(S, k) what each entity has had."""
        links = self.finder.link_paths
        count = candidates.count[:, :, links].sum(2)
        newest = candidates.newest[:, :, links].max(2, initial=TIMELESS)
        order = np.lexsort((candidates.row, -newest.astype(np.float64), -count), axis=1)
        row = np.take_along_axis(np.where(count > 0, candidates.row, -1), order, 1)
        return self._cut(row)

    def by_order(self, seeds: Seeds, candidates: Candidates, order: LinkOrder) -> NDArray[np.int64]:
        """(S, k) the first of an order, without what each entity has had where that is left out."""
        finder = self.finder
        out = np.full((len(seeds), self.k), -1, np.int64)
        limits, references = finder.limits(seeds), finder.references(seeds)
        had = candidates.count[:, :, finder.link_paths].sum(2) > 0
        for seed in range(len(seeds)):
            rows = order.rows(finder, int(limits[seed]), int(references[seed]))
            if self.new_only:
                rows = rows[~np.isin(rows, candidates.row[seed][had[seed]])]
            out[seed, : min(self.k, len(rows))] = rows[: self.k]
        return out

    def _cut(self, row: NDArray[np.int64]) -> NDArray[np.int64]:
        out = np.full((len(row), self.k), -1, np.int64)
        width = min(self.k, row.shape[1])
        out[:, :width] = row[:, :width]
        return out


def repeats(
    finder: CandidateFinder, candidates: Candidates, is_positive: NDArray[np.bool_], labels: int
) -> float:
    """The share of labels that name what the entity has had before."""
    had = candidates.count[:, :, finder.link_paths].sum(2) > 0
    return float(np.count_nonzero(had & is_positive) / max(labels, 1))


@dataclass(frozen=True)
class RankRows:
    """Candidates of seeds as LightGBM reads them.

    Attributes:
        row: (S, M) destinations, -1 behind the last.
        columns: (S, M, F)
        is_positive: (S, M)
    """

    row: NDArray[np.int64]
    columns: NDArray[np.float32]
    is_positive: NDArray[np.bool_]

    def sampled(self, others: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Positives, and some of the other candidates of each seed: (n, F), (n,)."""
        draw = np.random.default_rng(seed).random(self.row.shape)
        is_other = (self.row >= 0) & ~self.is_positive
        rank = np.argsort(np.argsort(np.where(is_other, draw, 2.0), 1), 1)
        taken = self.is_positive | (is_other & (rank < others))
        return self.columns[taken], self.is_positive[taken].astype(np.float32)


@dataclass(frozen=True)
class Ranker:
    """LightGBM that ranks candidates, the rounds that it took, and the seeds whose candidates it
    learned."""

    booster: Any
    rounds: int
    seeds: int
    is_cut_off: bool = False

    def scores(self, rows: RankRows) -> NDArray[np.float64]:
        """(S, M) raw scores of candidates; -inf behind the last."""
        score = np.full(rows.row.shape, -np.inf)
        is_there = rows.row >= 0
        if is_there.any():
            score[is_there] = self.booster.predict(rows.columns[is_there], raw_score=True)
        return score

    def ranked(self, rows: RankRows, k: int) -> NDArray[np.int64]:
        """(S, k) candidates, the best first."""
        order = np.argsort(-self.scores(rows), 1, kind="stable")[:, :k]
        best = np.full((len(rows.row), k), -1, np.int64)
        best[:, : order.shape[1]] = np.take_along_axis(rows.row, order, 1)
        return best


def grow_ranker(
    train: RankRows,
    stop: RankRows | None,
    seed: int = 0,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
) -> Ranker | None:
    """LightGBM on the candidates of training seeds; None where there is nothing to tell apart.

    Args:
        stop: Candidates whose loss ends it; None: it takes all of its rounds.
        rounds: At most so many.
        seconds: Likewise.
    """
    import lightgbm

    columns, labels = train.sampled(OTHERS, seed)
    if len(np.unique(labels)) < 2:
        return None
    parameters = PARAMETERS | {"seed": seed, "deterministic": True}
    data = lightgbm.Dataset(columns, labels, params=parameters, free_raw_data=True)
    began, is_cut_off = time.perf_counter(), False

    def until(env: Any) -> None:
        nonlocal is_cut_off
        if seconds is not None and time.perf_counter() - began > seconds:
            is_cut_off = True
            raise lightgbm.callback.EarlyStopException(env.iteration, env.evaluation_result_list)

    watched, callbacks = [], [until]
    if stop is not None and stop.is_positive.any():
        watched = [data.create_valid(*stop.sampled(OTHERS, seed))]
        callbacks.append(lightgbm.early_stopping(STOP_AFTER, verbose=False))
    booster = lightgbm.train(
        parameters, data, rounds or ROUNDS, valid_sets=watched or None, callbacks=callbacks
    )
    taken = booster.best_iteration or booster.current_iteration()
    return Ranker(booster, taken, len(train.row), is_cut_off)
