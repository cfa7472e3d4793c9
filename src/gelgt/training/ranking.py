"""A run that recommends: the stages of `train_run` for a table of destinations.

candidates and their columns → baselines → networks → validation score → retrain on known labels
→ test score
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.baselines.ranking import (
    POPULAR,
    RECENT,
    SELDOM,
    LinkRankings,
    RankRows,
    lightgbm_ranking,
    repeats,
)
from gelgt.candidates.find import Candidates
from gelgt.candidates.orders import LinkOrder
from gelgt.errors import GelgtError
from gelgt.metrics import is_among, score
from gelgt.runs.folder import Run, load_run
from gelgt.runs.record import RankingFacts
from gelgt.sampling import Seeds
from gelgt.scoring.parts import Parts
from gelgt.scoring.recommend import NO_PRIOR, Prior
from gelgt.tasks.build import DEFAULT_K
from gelgt.training.baselines import Baselines, Predictions
from gelgt.training.checkpoint import drop_checkpoints
from gelgt.training.ensemble import Trained, fit_ensemble, retrain_ensemble
from gelgt.training.examples import KNOWN
from gelgt.training.job import Job
from gelgt.training.profile import profile
from gelgt.training.recommend import RecommendData, is_positive
from gelgt.training.write import Result, write_run

KIND = "recommendation"
WEIGHTS = (0.5, 1.0, 2.0, 4.0)  # of an order by links that may be added to the scores
MOST_RANKED = 8_000  # training seeds whose candidates LightGBM learns


def train_ranking(job: Job) -> Run:
    """The stages of a run, one after the other."""
    job, facts = _with_candidates(job)
    baselines = _score_baselines(job)
    job.stop()  # whoever raises here ends it before anything is trained
    trained = fit_ensemble(job)
    job.clock.done("training", trained.summary())
    prior = _choose_prior(job, trained)
    parts = {"val": _parts(job, trained, "val", prior)}
    if job.config.train.retrain:
        trained = retrain_ensemble(job, trained, (KNOWN,))
    parts["test"] = _parts(job, trained, "test", prior)
    if job.options.retrain_all:
        trained = retrain_ensemble(job, trained, ("train", "val", "test"))
    shown = profile(trained.model, job.data, job.device)
    job.clock.done("scoring")
    facts = facts.model_copy(update={"prior": prior.windows, "prior_weight": prior.weight})
    write_run(job, Result(trained, parts, baselines, shown, facts))
    if trained.is_whole and trained.ended != "time limit":
        drop_checkpoints(job.out)
    return load_run(job.out)


def ranking_data(job: Job) -> RecommendData:
    """The data of a job that recommends."""
    assert isinstance(job.data, RecommendData)
    return job.data


def _with_candidates(job: Job) -> tuple[Job, RankingFacts]:
    """The history columns of destinations chosen, and what candidates cover of the labels."""
    data = ranking_data(job)
    if not data.destinations.size:
        raise GelgtError(
            "no_destinations",
            f"'{data.destinations.table}' has no rows, so there is nothing to recommend.",
            hint="Check the table.",
        )
    data = data.with_columns(job.config)
    facts = locality(data, job)
    shares = ", ".join(f"{path} {share:.0%}" for path, share in facts.locality.items())
    job.clock.done(
        "candidates",
        f"{facts.covered:.0%} of what is right is among them (by path: {shares or 'none'}; "
        f"popular lately {facts.popular:.0%})",
    )
    return replace(job, data=data), facts


def locality(data: RecommendData, job: Job) -> RankingFacts:
    """The share of training positives among the candidates: by path, by popularity, in all."""
    seeds, labels = data.some(*data.windows("train", job.config.train.windows))
    finder = data.destinations.finder
    candidates = finder.find(seeds)
    right, total = is_positive(candidates, labels), max(1, int(np.count_nonzero(labels >= 0)))
    lists = [
        finder.popular(int(limit), int(reference))
        for limit, reference in zip(finder.limits(seeds), finder.references(seeds))
    ]
    width = max((len(each) for each in lists), default=0)
    popular = np.full((len(seeds), width), -1, np.int64)
    for place, each in enumerate(lists):
        popular[place, : len(each)] = each
    return RankingFacts(
        table=data.destinations.table,
        k=data.task.eval_k or DEFAULT_K,
        size=data.destinations.size,
        locality={
            str(path): float(np.count_nonzero(right & (candidates.count[:, :, place] > 0)) / total)
            for place, path in enumerate(finder.paths)
        },
        popular=float(np.count_nonzero(is_among(labels, popular)) / total),
        covered=float(np.count_nonzero(right) / total),
        repeats=repeats(finder, candidates, right, total),
    )


def _choose_prior(job: Job, trained: Trained) -> Prior:
    """How much of an order by everyone's links is added to the networks' scores: what validation
    likes best, the least of it among equals."""
    data = ranking_data(job)
    seeds, labels = data.seeds["val"], data.labels("val")
    if not len(seeds):
        return NO_PRIOR
    scorer = data.scorer(trained.network, job.device, job.config.train.precision)
    tried = [NO_PRIOR, *(Prior(o.windows, w) for w in WEIGHTS for o in (RECENT, *POPULAR))]
    values = [score(KIND, labels, rows).get("map", 0.0) for rows in scorer.compared(seeds, tried)]
    best = tried[int(np.argmax(values))]
    if best.weight:
        job.progress.notice(
            f"the order '{LinkOrder(best.windows)}' of everyone's links is added to the networks' "
            f"scores with the weight {best.weight:g}: validation map {values[0]:.4f} → "
            f"{max(values):.4f}"
        )
    return best


def _parts(job: Job, trained: Trained, split: str, prior: Prior) -> Parts:
    """What is recommended to the seeds of a split."""
    data = ranking_data(job)
    scorer = data.scorer(trained.network, job.device, job.config.train.precision, prior)
    return scorer.predict(data.seeds[split])


def _score_baselines(job: Job) -> Baselines:
    """What has to be beaten, on the same rows."""
    if not job.options.baselines:
        return Baselines()
    job.progress.plan("baselines", job.budget.baselines())
    baselines = rank_baselines(job)
    labels = ranking_data(job).labels("val")
    scores = {
        name: score(KIND, labels, of_splits["val"]).get("map", float("nan"))
        for name, of_splits in baselines.predictions.items()
    }
    job.progress.baselines("map", scores)
    job.clock.done("baselines")
    return baselines


def rank_baselines(job: Job) -> Baselines:
    """Rankings by links, and by LightGBM on candidates, for validation and test."""
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

    by_order = {order: ranked(partial(links.by_order, order=order)) for order in (RECENT, *POPULAR)}
    truth = data.labels("val")
    # the windows that validation likes best stand for all
    popular = max(
        POPULAR, key=lambda order: score(KIND, truth, by_order[order]["val"]).get("map", 0.0)
    )
    made = {
        "past": ranked(links.past),
        "recent": by_order[RECENT],
        "popular": by_order[popular],
    }
    if not has_lightgbm():
        job.progress.notice("LightGBM, a baseline, is not installed")
        return Baselines(made)
    some, of_some = data.some(seeds, labels, MOST_RANKED)
    rows = {"train": _rank_rows(data, some, of_some)}
    for split in found:
        rows[split] = _rank_rows(data, data.seeds[split], data.labels(split))
    rankings, _ = lightgbm_ranking(
        rows["train"], rows["val"], [rows["val"], rows["test"]], k, config.train.seed
    )
    made["lightgbm"] = {
        split: _existing(data, data.seeds[split], ranking)
        for split, ranking in zip(("val", "test"), rankings, strict=True)
    }
    return Baselines(made, {"train": len(some)})


def _rank_rows(data: RecommendData, seeds: Seeds, labels: NDArray[np.int64]) -> RankRows:
    candidates = data.destinations.finder.find(seeds)
    columns = data.destinations.reader.read(seeds, candidates).whole()
    return RankRows(candidates.row, columns, is_positive(candidates, labels))


def _existing(data: RecommendData, seeds: Seeds, ranking: NDArray[np.int64]) -> NDArray[np.int64]:
    """Nothing for entities that do not exist yet."""
    return np.where(data.exists(seeds)[:, None], ranking, -1)
