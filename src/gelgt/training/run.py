"""`train_run`: from a database and a task to a run folder, with baselines beside every score.

The folder is claimed, and a run that was cut off goes on; what is learned in between are the stages
of `stages.py`, or of `ranking.py` for recommendations.
"""

from collections.abc import Callable
from pathlib import Path

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.memory import check_memory
from gelgt.presets import RunConfig
from gelgt.registry import find_model
from gelgt.runs.claim import claimed
from gelgt.runs.folder import CHECKPOINT, SUCCESS, Run, load_run
from gelgt.schema.finding_text import told
from gelgt.scoring.memory import needed_memory
from gelgt.scoring.scorer import choose_device
from gelgt.sources.cache import hash_files
from gelgt.sources.database import Database
from gelgt.tasks import Task
from gelgt.tasks.task_findings import check_answered, task_findings
from gelgt.training.budget import Budget, columns_budget
from gelgt.training.checkpoint import check_key, drop_checkpoints, load_checkpoint
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN
from gelgt.training.follow import Entry, follow, meet
from gelgt.training.job import Clock, Job, Options
from gelgt.training.journal import About, Journal
from gelgt.training.key import run_key
from gelgt.training.progress import Progress
from gelgt.training.ranking import train_ranking
from gelgt.training.recommend import RecommendData
from gelgt.training.regime import in_regime
from gelgt.training.stages import train_stages
from gelgt.training.workers import Workers, led


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
        GelgtError: the folder is taken, the task cannot be trained, a checkpoint belongs to
            another run, or ``unanswered_findings``.
    """
    with led(workers):
        options = options or Options()
        config = _usable(db, task, config, options)
        check_answered(task_findings(db, task, config.sampling.hops), options.accept)
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
        findings = tuple(task_findings(db, task, config.sampling.hops))
        for text in told(findings, db.source):
            clock.progress.notice(text)
        data = _opened(db, task, config)
        device = choose_device(options.device) if workers is None else workers.device
        about = (content_hash, device, clock, budget, stop, workers, findings)
        job = Job(data, config, options, out, key, *about)
        _tell_data(job)
        run = train_ranking(job) if is_ranking else train_stages(job)
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
