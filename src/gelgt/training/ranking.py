"""A run that recommends: the stages of `train_run` for a table of destinations.

candidates and their columns → baselines → networks → validation score → retrain on known labels
→ test score
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.baselines.ranking import (
    SELDOM,
    WINDOWS,
    LinkRankings,
    RankRows,
    lightgbm_ranking,
    repeats,
)
from gelgt.errors import GelgtError
from gelgt.metrics import is_among, score
from gelgt.runs.folder import Run, load_run
from gelgt.runs.record import RankingFacts
from gelgt.sampling import Seeds
from gelgt.scoring.parts import Parts
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
MOST_RANKED = 8_000  # training seeds whose candidates LightGBM learns


def train_ranking(job: Job) -> Run:
    """The stages of a run, one after the other."""
    job, facts = _with_candidates(job)
    baselines = _score_baselines(job)
    job.stop()  # whoever raises here ends it before anything is trained
    trained = fit_ensemble(job)
    job.clock.done("training", trained.summary())
    parts = {"val": _parts(job, trained, "val")}
    if job.config.train.retrain:
        trained = retrain_ensemble(job, trained, (KNOWN,))
    parts["test"] = _parts(job, trained, "test")
    if job.options.retrain_all:
        trained = retrain_ensemble(job, trained, ("train", "val", "test"))
    shown = profile(trained.model, job.data, job.device)
    job.clock.done("scoring")
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


def _parts(job: Job, trained: Trained, split: str) -> Parts:
    """What is recommended to the seeds of a split."""
    data = ranking_data(job)
    scorer = data.scorer(trained.network, job.device, job.config.train.precision)
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
    made: dict[str, Predictions] = {}
    rank = {
        "past": links.past,
        "recent": links.recent,
        **{
            f"popular in {n}": lambda s, c, n=n: links.popular(s, c, n)  # type: ignore[misc]
            for n in WINDOWS
        },
    }
    for name, ranked in rank.items():
        made[name] = {
            split: _existing(data, data.seeds[split], ranked(data.seeds[split], found[split]))
            for split in found
        }
    # the windows that validation likes best stand for all
    truth = data.labels("val")
    best = max(
        WINDOWS,
        key=lambda n: score(KIND, truth, made[f"popular in {n}"]["val"]).get("map", 0.0),
    )
    popular = made[f"popular in {best}"]
    made = {name: each for name, each in made.items() if not name.startswith("popular in")}
    made["popular"] = popular
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
