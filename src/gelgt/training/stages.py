"""The stages of a run, from data to the run folder:

    history columns → baselines → trees → columns network → networks over subgraphs →
    validation score → calibration → retrain on known labels → test score →
    retrain on all labels → run folder

Validation chooses the epochs and the share of each part, and calibrates. The test split is scored
before its labels may be learned. Where a GPU trains beside idle cores, the networks over subgraphs
come first: the history columns, which they do not read, are computed meanwhile, and so is all that
is learned from these. Elsewhere one stage follows the other.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
from torch import Tensor

from gelgt.meter import leaving
from gelgt.metrics import score
from gelgt.runs.folder import Run, load_run
from gelgt.scoring.parts import COLUMNS, NETWORK, TREES, Parts, decoded
from gelgt.scoring.scorer import tree_outputs
from gelgt.training.aside import Aside, has_room, is_idle, short_turns
from gelgt.training.baselines import Baselines, Pace, make_baselines
from gelgt.training.budget import RESERVE
from gelgt.training.calibrate import calibrate
from gelgt.training.checkpoint import drop_checkpoints
from gelgt.training.columns import (
    Columns,
    begun_columns,
    columns_key,
    fit_columns,
    save_columns,
)
from gelgt.training.columns_fit import ColumnsFit
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import (
    Trained,
    fit_ensemble,
    known_share,
    retrain_ensemble,
    retraining_seconds,
)
from gelgt.training.examples import KNOWN, learnable, tabular
from gelgt.training.job import Job
from gelgt.training.profile import profile
from gelgt.training.shares import with_shares
from gelgt.training.trees import (
    GrownTrees,
    about_rows,
    forest_threads,
    grow_trees,
    wants_trees,
)
from gelgt.training.write import Result, write_run


def train_stages(job: Job) -> Run:
    """Everything that is learned and scored, as a run folder."""
    has_columns = _has_columns_network(job)
    is_first = has_columns and is_idle(job.device) and job.workers is None
    with (
        short_turns() if has_room() else nullcontext(),
        _starting(job) as started,
        Aside(partial(_with_history, job), is_first) as read,
    ):
        if is_first:
            _foresee(job, job.data, "train")  # while the device starts
        else:
            job = _told(read.result())
        started.result()
        return _learned(job, read, has_columns, is_first)


def _has_columns_network(job: Job) -> bool:
    """Whether a columns network reads the history, and networks over subgraphs leave it to that: it
    is asked for, and there are labels to stop it by."""
    data, model = job.data, job.config.model
    is_usable = np.isfinite(data.labels("val")).reshape(len(data.seeds["val"]), -1).all(1)
    is_usable &= data.exists(data.seeds["val"])
    is_asked = model.column_members and model.history_columns and data.plan.hops
    return bool(is_asked and is_usable.any())


def _learned(job: Job, read: Aside[Job], has_columns: bool, is_first: bool) -> Run:
    """The stages that learn.

    Args:
        read: Gives the job with its history columns; where nothing is beside, this one.
        has_columns: Whether there is a columns network.
        is_first: Whether networks over subgraphs are trained while columns are computed.
    """
    has_forests, is_late = wants_trees(job.data, job.config), is_idle(job.device)
    with (
        Aside(partial(_forests, read), has_forests and has_room(), read) as forests,
        Aside(partial(_baselines, read, forests.is_beside), is_late, read) as baselines,
    ):
        if not is_late:
            _tell_baselines(job, baselines)
        job.stop()  # whoever raises here ends it before anything is trained
        again = 0.0  # seconds that retraining the networks takes, where they come first
        if is_first:
            trained, again = _networks_first(job, read)
            job = _told(read.result())
            trained = replace(trained, columns=_fit_columns(job, again))
        else:
            trees = None if is_late else _grow_trees(job, forests)
            columns = _fit_columns(job) if has_columns else None
            spent = sum(part.seconds for part in (trees, columns) if part is not None)
            # What reads columns is retrained in any case, networks where time is left: trained
            # twice for half as long they would be worse (docs/research/quality.md).
            is_alone = trees is None and columns is None
            trained = fit_ensemble(
                job, reads_history=not has_columns, before=spent, spares_retraining=is_alone
            )
            trained = replace(trained, trees=trees, columns=columns)
            job.clock.done("training", trained.summary())
        if not trained.is_whole:  # nobody waits for the rest of them after Ctrl-C
            forests.leave()
            baselines.leave()
        if is_late:
            trained = replace(trained, trees=_grow_trees(job, forests))
        trained, outputs = with_shares(job, trained)
        before = _parts(job, trained, "val", outputs)
        calibration = calibrate(job, before)
        parts = {"val": calibration.applied(before)}
        if job.config.train.retrain and again > job.budget.left:
            job.budget.cut_off.append("nothing was retrained on the labels that were held out")
        elif job.config.train.retrain:
            has_time = is_first or _has_time(job, trained)
            trained = retrain_ensemble(job, trained, (KNOWN,), has_time)
        outputs = job.outputs(trained.network, "test")
        parts["test"] = calibration.applied(_parts(job, trained, "test", outputs))
        if job.options.retrain_all:
            trained = retrain_ensemble(job, trained, ("train", "val", "test"))
        shown = profile(trained.model, job.data, job.device)
        job.clock.done("scoring")
        if not trained.is_whole:  # it may have come while something was retrained
            baselines.leave()
        if is_late:
            _tell_baselines(job, baselines)
        beside = baselines.result()
    write_run(job, Result(trained, parts, beside, shown, calibration=calibration))
    if trained.is_whole and trained.ended != "time limit":
        drop_checkpoints(job.out)
    return load_run(job.out)


def _networks_first(job: Job, read: Aside[Job]) -> tuple[Trained, float]:
    """Networks over subgraphs, while the history is computed, and the seconds that retraining them
    will take. They end early where the history cannot be computed."""
    began, spared = time.perf_counter(), job.budget.spared()
    heard = replace(job, stop=lambda: read.has_failed or job.stop())
    trained = fit_ensemble(heard, reads_history=False, after=spared)
    job.clock.done("training", trained.summary())
    took = time.perf_counter() - began
    return trained, known_share(job.data, job.config.train) * took


def _has_time(job: Job, trained: Trained) -> bool:
    """Whether networks over subgraphs can be retrained; said where they cannot."""
    if trained.trees is None and trained.columns is None:  # nothing else is
        return True
    has_time = retraining_seconds(job, trained) <= (1 - RESERVE) * job.budget.left
    if not has_time and trained.graph:
        job.budget.cut_off.append("networks over subgraphs were not retrained")
    return has_time


def _starting(job: Job) -> Aside[None]:
    """Loads what a device loads at its first use, which can take many seconds."""
    start = ColumnsFit(job.data.target, job.device, 0, 1).starter()
    return Aside(lambda _: start(), has_room())


def _forests(read: Aside[Job], is_left: Callable[[], bool]) -> GrownTrees | None:
    """Trees, within what the budget has for them when they begin."""
    job = read.result()
    if not wants_trees(job.data, job.config):  # no column was worth reading
        return None
    return grow_trees(job.data, job.config, _tree_seconds(job), is_left)


def _tree_seconds(job: Job) -> float | None:
    limit = job.budget.trees(is_idle(job.device))
    if limit is not None and job.config.train.retrain:  # they are grown once more
        limit /= 1 + known_share(job.data, job.config.train)
    return limit


def _grow_trees(job: Job, forests: Aside[GrownTrees | None]) -> GrownTrees | None:
    """Trees that will predict beside the networks: before them, so that what they do not take of
    their time goes to the networks."""
    if not wants_trees(job.data, job.config):
        return None
    text = about_rows(job.data, job.config.train)
    if text is not None:
        job.progress.notice(text)
    if not forests.is_beside:
        job.progress.plan("trees", _tree_seconds(job))
    trees = forests.result()
    rounds = "" if trees is None else ", ".join(f"{count:,}" for count in trees.rounds)
    if trees is not None and trees.is_cut_off:
        job.budget.cut_off.append(f"the trees were cut off after {rounds} rounds")
    job.clock.done("trees", f"{rounds} rounds" if rounds else "none can be grown")
    return trees


def _fit_columns(job: Job, after: float = 0.0) -> Columns | None:
    """The columns network; None where there is nothing that it could read.

    Args:
        after: Seconds that are needed after it.
    """
    config = job.config
    limit = job.budget.columns(after)
    if limit is not None and config.train.retrain:  # it is trained once more
        limit /= 1 + known_share(job.data, config.train)
    job.progress.plan("columns network", limit)
    key = columns_key(job.key, job.data)
    columns = begun_columns(job.out, key) if job.options.resume else None
    if columns is None:
        columns = fit_columns(job.data, config, job.device, seconds=limit)
        if columns is not None:
            save_columns(job.out, key, columns)
    if columns is None:
        return None
    if columns.is_cut_off:
        job.budget.cut_off.append(f"the columns network was cut off after {columns.steps:,} steps")
    job.clock.done("columns network", f"{columns.steps:,} steps")
    return columns.to(job.device)


def _parts(job: Job, trained: Trained, split: str, network: Tensor) -> Parts:
    """Predictions of a split, from the outputs of the networks and of trees beside them."""
    seeds, outputs, share = job.data.seeds[split], {NETWORK: network}, 0.0
    there = seeds.take(np.flatnonzero(job.data.exists(seeds)))
    if trained.columns is not None:
        outputs[COLUMNS] = trained.columns.network.outputs(job.data.columns_of(there))
    if trained.trees is not None:
        trees = trained.trees.trees.to(job.device)
        outputs[TREES], share = tree_outputs(trees, job.data, there), trained.trees.share
    return decoded(job.data, seeds, outputs, share)


def _with_history(job: Job, is_left: Callable[[], bool]) -> Job:
    """The history columns chosen, and computed for every seed that is learned or scored."""
    with leaving(is_left):
        data = job.data.with_columns(job.config)
        if not data.plan:
            return replace(job, data=data)
        # Networks beside a columns network leave the history to it, and to the trees.
        learned = tabular if job.config.model.column_members and data.plan.hops else learnable
        data.history(learned(data, ("train",), job.config.train)[0])
        for split in ("val", "test"):
            data.history(data.seeds[split])
        if is_idle(job.device) and job.config.train.retrain:
            _foresee(job, data, KNOWN)  # before networks are retrained
        return replace(job, data=data)


def _foresee(job: Job, data: TrainingData, split: str) -> None:
    """Compute what networks learn besides the labels of a split, so that they find it there."""
    if job.config.model.futures:
        data.futures(learnable(data, (split,), job.config.train)[0], (split,))


def _told(job: Job) -> Job:
    """The same job, once it was said which columns it reads."""
    chosen = job.data.chosen
    if not job.data.plan:
        return job
    facts = "" if chosen is None else f"{len(chosen.columns):,} of {chosen.proposed:,} are read"
    if chosen is not None and not chosen.columns:
        job.progress.notice(
            "no history column is read (model.history_columns): trees and the LightGBM baseline "
            "learn the calendar at most"
        )
    job.clock.done("columns", facts)
    return job


def _baselines(read: Aside[Job], is_shared: bool, is_left: Callable[[], bool]) -> Baselines:
    """What has to be beaten, on the same rows.

    Args:
        read: Gives the job with its history columns.
        is_shared: Whether trees grow at the same time: LightGBM has one number of threads for all.
        is_left: Asked now and then; true ends them.
    """
    job = read.result()
    if not job.options.baselines:
        return Baselines()
    hops = job.options.baseline_hops
    threads = forest_threads() if is_shared else None
    pace = Pace(job.budget.baselines(), threads, is_left)
    return make_baselines(job.data, job.config, hops, job.progress, pace)


def _tell_baselines(job: Job, stage: Aside[Baselines]) -> None:
    """Wait for the baselines, and say how good they are."""
    if not job.options.baselines:
        return
    if not stage.is_beside:
        job.progress.plan("baselines", job.budget.baselines())
    baselines, data = stage.result(), job.data
    job.budget.cut_off.extend(baselines.cut_off)
    metric, labels = data.target.metric, data.labels("val")
    scores = {
        name: value
        for name, of_splits in baselines.predictions.items()
        if (value := score(data.target.task_type, labels, of_splits["val"]).get(metric)) is not None
    }
    job.progress.baselines(metric, scores)
    job.clock.done("baselines")
