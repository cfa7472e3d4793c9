"""A run that recommends: the stages of `train_run` for a table of destinations.

candidates and their columns → trees → baselines → networks → validation chooses the mix →
retrain on known labels → test score

Where labels are learned once more behind it, the last training seed times join a small validation
(`RecommendData.with_held`) in everything that is chosen; the validation score is that of its own
rows.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.baselines.ranking import (
    POPULAR,
    RECENT,
    Ranker,
    grow_ranker,
    repeats,
)
from gelgt.candidates.orders import LinkOrder
from gelgt.candidates.paths import path_names
from gelgt.errors import GelgtError
from gelgt.metrics import is_among, score
from gelgt.nn.trees import Trees
from gelgt.runs.folder import Run, load_run
from gelgt.runs.record import RankingFacts
from gelgt.scoring.parts import Parts
from gelgt.scoring.recommend import ALONE, Mix
from gelgt.tasks.build import DEFAULT_K
from gelgt.training.checkpoint import drop_checkpoints
from gelgt.training.ensemble import Trained, fit_ensemble, retrain_ensemble
from gelgt.training.examples import KNOWN
from gelgt.training.job import Job
from gelgt.training.profile import profile
from gelgt.training.rank_baselines import (
    KIND,
    rank_rows,
    ranking_data,
    score_baselines,
    with_retrained,
)
from gelgt.training.recommend import RecommendData, is_positive
from gelgt.training.trees import GrownTrees
from gelgt.training.write import Result, write_run

FORESTS = 3  # whose mean is a part of the model
SHARES = (0.25, 0.5, 0.75)  # of the trees
WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of an order by links that may be added to the scores
MOST_RANKED = 8_000  # training seeds whose candidates LightGBM learns


def train_ranking(job: Job) -> Run:
    """The stages of a run, one after the other."""
    job, choosing, facts = _with_candidates(job)
    rankers = _grow_rankers(choosing)
    baselines = score_baselines(job, choosing, rankers)
    job.stop()  # whoever raises here ends it before anything is trained
    trained = replace(fit_ensemble(choosing), trees=_as_trees(job, rankers))
    job.clock.done("training", trained.summary())
    trained, mix = _choose_mix(choosing, trained)
    parts = {"val": _parts(job, trained, "val", mix)}
    if job.config.train.retrain:
        trees = trained.trees
        trained = replace(
            retrain_ensemble(job, replace(trained, trees=None), (KNOWN,)), trees=trees
        )
        if trained.is_whole:
            again = _regrown(job, rankers)
            trees = _as_trees(job, again, mix.share)
            trained = replace(trained, trees=trees)
            baselines = with_retrained(job, baselines, again)
    parts["test"] = _parts(job, trained, "test", mix)
    if job.options.retrain_all:
        trees = trained.trees
        trained = retrain_ensemble(job, replace(trained, trees=None), ("train", "val", "test"))
        trained = replace(trained, trees=trees)
    shown = profile(trained.model, job.data, job.device)
    job.clock.done("scoring")
    facts = facts.model_copy(update={"prior": mix.windows, "prior_weight": mix.weight})
    write_run(job, Result(trained, parts, baselines, shown, facts))
    if trained.is_whole and trained.ended != "time limit":
        drop_checkpoints(job.out)
    return load_run(job.out)


def _with_candidates(job: Job) -> tuple[Job, Job, RankingFacts]:
    """The job with the history columns of destinations chosen, the same with the validation that
    everything is chosen by, and what candidates cover of the labels."""
    data = ranking_data(job)
    if not data.destinations.size:
        raise GelgtError(
            "no_destinations",
            f"'{data.destinations.table}' has no rows, so there is nothing to recommend.",
            hint="Check the table.",
        )
    held = data.with_held() if job.config.train.retrain else data
    held = held.with_columns(job.config)
    data = replace(data, names=held.names, chosen=held.chosen)
    facts = locality(data, job)
    shares = ", ".join(f"{path} {share:.0%}" for path, share in facts.locality.items())
    job.clock.done(
        "candidates",
        f"{facts.covered:.0%} of what is right is among them (by path: {shares or 'none'}; "
        f"popular lately {facts.popular:.0%})",
    )
    if held.held_since is not None:
        joined = len(held.seeds["val"]) - len(data.seeds["val"])
        job.progress.notice(f"{joined} rows of the last training times join validation")
    return replace(job, data=data), replace(job, data=held), facts


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
            name: float(np.count_nonzero(right & (candidates.count[:, :, place] > 0)) / total)
            for place, name in enumerate(path_names(finder.paths))
        },
        popular=float(np.count_nonzero(is_among(labels, popular)) / total),
        covered=float(np.count_nonzero(right) / total),
        repeats=repeats(finder, candidates, right, total),
    )


def _grow_rankers(job: Job) -> list[Ranker]:
    """Forests that rank candidates: the first is the baseline, their mean a part of the model."""
    data, seed = ranking_data(job), job.config.train.seed
    if not has_lightgbm() or not (job.config.model.trees or job.options.baselines):
        return []
    limit = job.budget.trees()
    job.progress.plan("trees", limit)
    began = time.perf_counter()
    rows = rank_rows(
        data, *data.some(*data.windows("train", job.config.train.windows), MOST_RANKED)
    )
    stop = rank_rows(data, data.seeds["val"], data.labels("val"))
    rankers: list[Ranker] = []
    forests = FORESTS if job.config.model.trees else 1
    for number in range(forests):
        left = None if limit is None else limit - (time.perf_counter() - began)
        if left is not None and rankers and left < 0:
            break
        seconds = None if left is None else max(left, 1.0) / (forests - number)
        ranker = grow_ranker(rows, stop, seed + 1_000 * number, seconds=seconds)
        if ranker is None:
            break
        rankers.append(ranker)
    if any(ranker.is_cut_off for ranker in rankers):
        job.budget.cut_off.append("the trees were cut off")
    rounds = ", ".join(f"{ranker.rounds:,}" for ranker in rankers)
    job.clock.done("trees", f"{rounds} rounds" if rankers else "none can be grown")
    return rankers


def _regrown(job: Job, rankers: Sequence[Ranker]) -> list[Ranker]:
    """The same on every label known at the test time, for as many rounds."""
    data, seed = ranking_data(job), job.config.train.seed
    if not rankers:
        return []
    rows = rank_rows(data, *data.some(*data.windows(KNOWN, job.config.train.windows), MOST_RANKED))
    again = [
        grow_ranker(rows, None, seed + 1_000 * number, rounds=max(1, ranker.rounds))
        for number, ranker in enumerate(rankers)
    ]
    return [ranker for ranker in again if ranker is not None]


def _as_trees(job: Job, rankers: Sequence[Ranker], share: float = 0.0) -> GrownTrees | None:
    """The forests as a part of the model; None where none are asked for or there are none."""
    if not rankers or not job.config.model.trees:
        return None
    dumps = [ranker.booster.dump_model(num_iteration=ranker.rounds) for ranker in rankers]
    return GrownTrees(Trees.of(dumps, 1), share, tuple(ranker.rounds for ranker in rankers))


def _choose_mix(job: Job, trained: Trained) -> tuple[Trained, Mix]:
    """The share of the trees, and then how much of an order by everyone's links is added: what
    validation likes best, the least of it among equals."""
    data = ranking_data(job)
    seeds, labels = data.seeds["val"], data.labels("val")
    mix = ALONE
    if not len(seeds):
        return trained, mix
    scorer = data.scorer(trained.with_trees, job.device, job.config.train.precision)
    for tried in (
        [ALONE, *(Mix(share) for share in SHARES if trained.trees is not None)],
        [ALONE, *(Mix(0.0, o.windows, w) for w in WEIGHTS for o in (RECENT, *POPULAR))],
    ):
        tried = [Mix(each.share or mix.share, each.windows, each.weight) for each in tried]
        values = [
            score(KIND, labels, rows).get("map", 0.0) for rows in scorer.compared(seeds, tried)
        ]
        mix = tried[int(np.argmax(values))]
    if trained.trees is not None:
        trained = replace(trained, trees=replace(trained.trees, share=mix.share))
    order = f" and {mix.weight:g} of the order '{LinkOrder(mix.windows)}'" if mix.weight else ""
    job.progress.notice(f"trees make up {mix.share:.0%} of the score{order}")
    return trained, mix


def _parts(job: Job, trained: Trained, split: str, mix: Mix) -> Parts:
    """What is recommended to the seeds of a split."""
    data = ranking_data(job)
    scorer = data.scorer(trained.with_trees, job.device, job.config.train.precision, mix)
    return scorer.predict(data.seeds[split])
