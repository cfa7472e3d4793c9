"""The baselines of a run that recommends: rankings by links, and LightGBM on candidates."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gelgt.baselines.ranking import (
    POPULAR,
    RECENT,
    SELDOM,
    LinkRankings,
    Ranker,
    RankRows,
    repeats,
)
from gelgt.candidates.find import Candidates
from gelgt.candidates.orders import LinkOrder
from gelgt.metrics import score
from gelgt.sampling import Seeds
from gelgt.tasks.build import DEFAULT_K
from gelgt.training.baselines import Baselines, Predictions
from gelgt.training.job import Job
from gelgt.training.recommend import RecommendData, is_positive

KIND = "recommendation"


def ranking_data(job: Job) -> RecommendData:
    """The data of a job that recommends."""
    assert isinstance(job.data, RecommendData)
    return job.data


def score_baselines(job: Job, choosing: Job, rankers: Sequence[Ranker]) -> Baselines:
    """What has to be beaten, on the same rows."""
    if not job.options.baselines:
        return Baselines()
    job.progress.plan("baselines", job.budget.baselines())
    baselines = rank_baselines(job, choosing, rankers)
    labels = ranking_data(job).labels("val")
    scores = {
        name: score(KIND, labels, of_splits["val"]).get("map", float("nan"))
        for name, of_splits in baselines.predictions.items()
    }
    job.progress.baselines("map", scores)
    job.clock.done("baselines")
    return baselines


def rank_baselines(job: Job, choosing: Job, rankers: Sequence[Ranker]) -> Baselines:
    """Rankings by links, and by LightGBM on candidates, for validation and test.

    Args:
        choosing: Whose validation chooses the windows of what is popular.
    """
    data, config = ranking_data(job), job.config
    finder, k = data.destinations.finder, data.task.eval_k or DEFAULT_K
    seeds, labels = data.some(*data.windows("train", config.train.windows))
    learned = finder.find(seeds)
    is_right = is_positive(learned, labels)
    share = repeats(finder, learned, is_right, max(1, int(np.count_nonzero(labels >= 0))))
    links = LinkRankings(finder, k, new_only=share < SELDOM)
    found = {split: finder.find(data.seeds[split]) for split in ("val", "test")}

    def ranked(by: Callable[[Seeds, Candidates], NDArray[np.int64]]) -> Predictions:
        return {
            split: _existing(data, data.seeds[split], by(data.seeds[split], found[split]))
            for split in found
        }

    asked = ranking_data(choosing)
    truth, candidates = asked.labels("val"), finder.find(asked.seeds["val"])

    def liked(order: LinkOrder) -> float:
        rows = links.by_order(asked.seeds["val"], candidates, order)
        return score(KIND, truth, _existing(data, asked.seeds["val"], rows)).get("map", 0.0)

    # the windows that validation likes best stand for all
    popular = max(POPULAR, key=liked)
    made = {
        "past": ranked(links.past),
        "recent": ranked(partial(links.by_order, order=RECENT)),
        "popular": ranked(partial(links.by_order, order=popular)),
    }
    if not rankers:
        return Baselines(made)
    made["lightgbm"] = {split: _by_lightgbm(job, rankers[0], split) for split in found}
    return Baselines(made, {"train": rankers[0].seeds})


def _by_lightgbm(job: Job, ranker: Ranker, split: str) -> NDArray[np.int64]:
    data = ranking_data(job)
    rows = rank_rows(data, data.seeds[split], data.labels(split))
    ranked = ranker.ranked(rows, data.task.eval_k or DEFAULT_K)
    return _existing(data, data.seeds[split], ranked)


def with_retrained(job: Job, baselines: Baselines, rankers: Sequence[Ranker]) -> Baselines:
    """The baseline on test by LightGBM that was retrained, as the model was."""
    if not rankers or "lightgbm" not in baselines.predictions:
        return baselines
    again = {**baselines.predictions["lightgbm"], "test": _by_lightgbm(job, rankers[0], "test")}
    labels = {**baselines.labels, "known": rankers[0].seeds}
    return replace(
        baselines, predictions={**baselines.predictions, "lightgbm": again}, labels=labels
    )


def rank_rows(data: RecommendData, seeds: Seeds, labels: NDArray[np.int64]) -> RankRows:
    candidates = data.destinations.finder.find(seeds)
    columns = data.destinations.reader.read(seeds, candidates).whole()
    return RankRows(candidates.row, columns, is_positive(candidates, labels))


def _existing(data: RecommendData, seeds: Seeds, ranking: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nothing for entities that do not exist yet."""
    return np.where(data.exists(seeds)[:, None], ranking, -1)
