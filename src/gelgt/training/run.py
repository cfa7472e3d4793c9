"""`train_run`: from a database and a task to a run folder, with baselines beside every score.

    data → history columns → baselines → trees → networks → validation score → calibration →
    retrain on known labels → test score → retrain on all labels → run folder

Validation chooses the epochs and the share of each part, and calibrates. The test split is scored
before its labels may be learned.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.memory import check_memory
from gelgt.metrics import score
from gelgt.presets import RunConfig
from gelgt.registry import find_model
from gelgt.runs.claim import claimed
from gelgt.runs.folder import CHECKPOINT, SUCCESS, Run, load_run
from gelgt.scoring.memory import needed_memory
from gelgt.scoring.parts import COLUMNS, NETWORK, TREES, Parts, decoded
from gelgt.scoring.scorer import choose_device, tree_outputs
from gelgt.sources.cache import hash_files
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.training.aside import Aside, has_room, is_idle
from gelgt.training.baselines import Baselines, Pace, make_baselines
from gelgt.training.budget import Budget, columns_budget
from gelgt.training.calibrate import calibrate
from gelgt.training.checkpoint import check_key, drop_checkpoints, load_checkpoint
from gelgt.training.columns import Columns, begun_columns, fit_columns, save_columns
from gelgt.training.columns_fit import ColumnsFit
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import Trained, fit_ensemble, known_share, retrain_ensemble
from gelgt.training.examples import KNOWN, learnable, tabular
from gelgt.training.follow import Entry, follow, meet
from gelgt.training.job import Clock, Job, Options
from gelgt.training.journal import About, Journal
from gelgt.training.key import run_key
from gelgt.training.profile import profile
from gelgt.training.progress import Progress
from gelgt.training.ranking import train_ranking
from gelgt.training.recommend import RecommendData
from gelgt.training.regime import in_regime
from gelgt.training.shares import with_shares
from gelgt.training.trees import GrownTrees, about_rows, grow_trees, wants_trees
from gelgt.training.workers import Workers, led
from gelgt.training.write import Result, write_run


def train_run(
    db: Database,
    task: Task,
    out: Path,
    config: RunConfig | None = None,
    options: Options | None = None,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
    workers: Workers | None = None,
) -> Run:
    """Train a model on a task and leave a run folder.

    Args:
        db: The database.
        task: What to predict.
        out: The run folder.
        config: The preset `cpu` if None.
        options: See `Options`.
        progress: Is told of phases, steps and epochs.
        stop: Asked after every step; true takes the best weights so far, and leaves a checkpoint to
            resume from.
        workers: Who trains with this process, which leads them; the others `follow_run`.

    Returns:
        The run, as `load_run` reads it.

    Raises:
        GelgtError: the folder is taken, the task cannot be trained, or a checkpoint belongs to
            another run.
    """
    with led(workers):
        options = options or Options()
        config = _usable(db, task, config, options)
        check_memory(needed_memory(db, sum(task.rows.values())), f"Training '{task.name}'")
        with claimed(out, options.resume):
            return _claimed_run(
                db, task, out, config, options, Clock(progress or Progress()), stop, workers
            )


def _claimed_run(
    db: Database,
    task: Task,
    out: Path,
    config: RunConfig,
    options: Options,
    clock: Clock,
    stop: Callable[[], bool],
    workers: Workers | None,
) -> Run:
    """The run of a folder that is this process's own."""
    began = clock.since if options.began is None else options.began
    budget = Budget(config.train.time_limit, began)
    content_hash = hash_files(db.all_paths())
    key = run_key(config, task, content_hash, options)
    crew = [] if workers is None else meet(workers, key)
    if options.resume and _is_finished(out, key):
        clock.progress.notice(f"{out} holds a finished run; nothing is left to do.")
        return load_run(out)
    config = _as_begun(config, out, key) if options.resume else config
    is_ranking = task.task_type == "recommendation"
    with Journal(out, About.of(task, config, options, budget), clock.progress) as journal:
        clock.progress, stop = journal, journal.hears(stop)
        journal.works_with(crew)
        data = _opened(db, task, config)
        device = choose_device(options.device) if workers is None else workers.device
        job = Job(
            data, config, options, out, key, content_hash, device, clock, budget, stop, workers
        )
        _tell_data(job)
        run = train_ranking(job) if is_ranking else _train(job)
        journal.finish(run.record)
        return run


def follow_run(
    enter: Callable[[], tuple[Database, Task, RunConfig | None, Options]], workers: Workers
) -> bool:
    """Train with a leader that calls `train_run`; whether its run is whole.

    Args:
        enter: Opens the database and the task, as the leader does.
        workers: This process among them.
    """

    def entry() -> Entry:
        db, task, config, options = enter()
        config = _usable(db, task, config, options)
        key = run_key(config, task, hash_files(db.all_paths()), options)
        return Entry(key, config, lambda: _opened(db, task, config))

    return follow(workers, entry)


def _usable(db: Database, task: Task, config: RunConfig | None, options: Options) -> RunConfig:
    """The configuration in the regime of the run, checked."""
    config = config or RunConfig.of("cpu", task.task_type)
    config = in_regime(config, task, options.visibility, options.as_of)
    if task.task_type == "recommendation":  # it reads the history of destinations instead
        config = config.with_values("derived", model__history=0)
    find_model(config.kind).check(config.model)
    return config


def _opened(db: Database, task: Task, config: RunConfig) -> TrainingData:
    is_ranking = task.task_type == "recommendation"
    return (RecommendData if is_ranking else TrainingData).opened(db, task, config)


def _train(job: Job) -> Run:
    """The stages of a run, one after the other."""
    with _starting(job) as started:
        job = _with_history(job)
        started.result()
    has_forests, is_late = wants_trees(job.data, job.config), is_idle(job.device)
    with (
        Aside(partial(_forests, job), has_forests and has_room()) as forests,
        Aside(partial(_baselines, job, forests.is_beside), is_late) as baselines,
    ):
        if not is_late:
            _tell_baselines(job, baselines)
        job.stop()  # whoever raises here ends it before anything is trained
        trees = None if is_late else _grow_trees(job, forests)
        trained = fit_ensemble(job, trees, _fit_columns(job))
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
        if job.config.train.retrain:
            trained = retrain_ensemble(job, trained, (KNOWN,))
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


def _starting(job: Job) -> Aside[None]:
    """Loads what a device loads at its first use, which can take many seconds."""
    start = ColumnsFit(job.data.target, job.device, 0, 1).starter()
    return Aside(lambda _: start(), has_room())


def _forests(job: Job, is_left: Callable[[], bool]) -> GrownTrees | None:
    """Trees, within what the budget has for them when they begin."""
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


def _fit_columns(job: Job) -> Columns | None:
    """The columns network, before the networks that look at subgraphs."""
    config = job.config
    if not config.model.column_members or not job.data.plan.hops:
        return None
    limit = job.budget.columns()
    if limit is not None and config.train.retrain:  # it is trained once more
        limit /= 1 + known_share(job.data, config.train)
    job.progress.plan("columns network", limit)
    columns = begun_columns(job.out, job.key) if job.options.resume else None
    if columns is None:
        columns = fit_columns(job.data, config, job.device, seconds=limit)
        if columns is not None:
            save_columns(job.out, job.key, columns)
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


def _with_history(job: Job) -> Job:
    """The history columns chosen, and computed for every seed that is learned or scored."""
    data = job.data.with_columns(job.config)
    if not data.plan:
        return job
    # Networks beside a columns network leave the history to it, and to the trees.
    learned = tabular if job.config.model.column_members and data.plan.hops else learnable
    data.history(learned(data, ("train",), job.config.train)[0])
    for split in ("val", "test"):
        data.history(data.seeds[split])
    chosen = data.chosen
    facts = "" if chosen is None else f"{len(chosen.columns):,} of {chosen.proposed:,} are read"
    if chosen is not None and not chosen.columns:
        job.progress.notice(
            "no history column is read (model.history_columns): trees and the LightGBM baseline "
            "learn the calendar at most"
        )
    job.clock.done("columns", facts)
    return replace(job, data=data)


def _baselines(job: Job, is_shared: bool, is_left: Callable[[], bool]) -> Baselines:
    """What has to be beaten, on the same rows.

    Args:
        is_shared: Whether trees grow at the same time: LightGBM has one number of threads for all.
        is_left: Asked now and then; true ends them.
    """
    if not job.options.baselines:
        return Baselines()
    hops = job.options.baseline_hops
    pace = Pace(job.budget.baselines(), 1 if is_shared else None, is_left)
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


def _tell_data(job: Job) -> None:
    data, train = job.data, job.config.train
    rows = ", ".join(f"{split} {count:,}" for split, count in data.task.rows.items())
    job.clock.done(
        "data",
        f"{data.graph.num_nodes:,} rows in {len(data.graph.tables)} tables; labels: {rows}; "
        f"{data.sampling.visibility}",
    )
    for text in data.notices(train.windows, train.retrain):
        job.progress.notice(text)
    if train.retrain:
        # Labels that cannot be computed are better known now than after training.
        data.windows(KNOWN, train.windows)
    if job.config.model.trees and not has_lightgbm():
        job.progress.notice(
            "model.trees = false: LightGBM, which would predict beside the network, is not "
            "installed"
        )


def _as_begun(config: RunConfig, out: Path, key: str) -> RunConfig:
    """The configuration of a run that is resumed: it keeps to the columns that it began with."""
    checkpoint = load_checkpoint(out, key)
    columns = None if checkpoint is None else checkpoint[0].columns
    if columns is None or columns == columns_budget(config):
        return config  # with the origins that it began with
    return config.with_values("derived", model__history_columns=columns)


def _is_finished(out: Path, key: str) -> bool:
    """Whether a run that is to be resumed is finished; otherwise its folder is not whole until the
    end.

    Raises:
        GelgtError: the folder holds another run.
    """
    load_checkpoint(out, key)
    if (out / SUCCESS).exists() and not (out / CHECKPOINT).exists():
        check_key(load_run(out).record.key, key, out)
        drop_checkpoints(out)  # it may have been killed before it had removed all
        return True
    (out / SUCCESS).unlink(missing_ok=True)
    return False
