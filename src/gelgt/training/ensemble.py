"""One network, or several of different seeds: how a run trains and retrains them."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gelgt.config import TrainConfig
from gelgt.metrics import is_better
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.runs.record import Retrained
from gelgt.sampling import Seeds
from gelgt.scoring import Scorer
from gelgt.scoring.replay import why_not_recorded
from gelgt.training.abreast import MOST
from gelgt.training.aside import Aside, is_idle
from gelgt.training.budget import networks_budget
from gelgt.training.checkpoint import State
from gelgt.training.columns import Columns, column_rows, refit_columns
from gelgt.training.columns_fit import ColumnRows
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN, learnable
from gelgt.training.job import Job
from gelgt.training.model import make_model, member_config
from gelgt.training.spread import Member, MemberJob, Studio, is_spread, rounds, train_spread
from gelgt.training.trees import GrownTrees, regrow_trees

PROBED = 256  # seeds whose scoring is timed
CUT_OFF = ("interrupted", "time limit")


@dataclass(frozen=True)
class Trained:
    """What a run has trained so far.

    Attributes:
        networks: One, or several of different seeds.
        states: How the validated training of each went.
        trees: Beside them, where there are some.
        columns: The columns network beside them, where there is one.
        graph: The share of the networks, where there is a columns network.
        retrained: What the networks were retrained on, if they were.
        is_whole: Nothing was interrupted.
    """

    networks: tuple[RelationalModel, ...]
    states: tuple[State, ...]
    trees: GrownTrees | None = None
    retrained: Retrained | None = None
    is_whole: bool = True
    columns: Columns | None = None
    graph: float = 1.0

    @property
    def network(self) -> Ensemble:
        """The networks as one, without trees."""
        columns = None if self.columns is None else self.columns.network
        return Ensemble(self.networks, columns=columns, graph=self.graph)

    @property
    def model(self) -> Ensemble:
        """What predicts: the networks, with trees where validation took a share of them."""
        if self.trees is None or not self.trees.share:
            return self.network
        device = next(self.networks[0].parameters()).device
        alone = self.network
        beside = (self.trees.trees, self.trees.share)
        return Ensemble(self.networks, *beside, alone.columns, self.graph).to(device)

    @property
    def with_trees(self) -> Ensemble:
        """The networks and whatever trees there are, whether they have a share or not."""
        if self.trees is None:
            return self.network
        device = next(self.networks[0].parameters()).device
        return Ensemble(self.networks, self.trees.trees, self.trees.share).to(device)

    @property
    def ended(self) -> str:
        """Why training ended."""
        return self.states[-1].ended if self.is_whole else "interrupted"

    def summary(self) -> str:
        """How training went, in a line."""
        first, count = self.states[0], len(self.states)
        epochs = ", ".join(map(str, first.averaged))
        averaged = f"; the weights are the mean of epochs {epochs}" if epochs else ""
        several = f"; an ensemble of {count} networks" if count > 1 else ""
        return (
            f"best epoch {first.best_epoch} of {len(first.history)}{averaged}{several}; ended by: "
            f"{self.states[-1].ended}"
        )


def fit_ensemble(
    job: Job,
    *,
    reads_history: bool = True,
    before: float = 0.0,
    after: float = 0.0,
    spares_retraining: bool = True,
) -> Trained:
    """One network, or several: side by side where their steps are recorded, else one after the
    other; fewer where time or the user ends it, and more where there is a lot of it.

    Args:
        reads_history: Whether they read history columns, which nobody else does then.
        before: Seconds that was taken by what is retrained with them.
        after: Seconds for what is trained and retrained after them.
        spares_retraining: Whether retraining them has to fit into their time.
    """
    data, progress = job.data, job.progress
    usual = data.ensemble_size(job.config.train)
    most = networks_budget(job.config, usual)
    first = make_model(data, member_config(job.config, 0, None), reads_history).to(job.device)
    read = data if reads_history else data.without_history()
    scoring = 0.0 if job.budget.limit is None else usual * scoring_seconds(job, read, first)
    ratio = known_share(data, job.config.train) if job.config.train.retrain else 0.0
    seconds = job.budget.networks(scoring, ratio * before + after)
    if seconds is not None and spares_retraining:
        seconds /= 1 + ratio
    progress.plan("training", seconds)
    _tell_model(job, first, usual)
    studio = _studio(job, reads_history)
    if job.workers is not None and is_spread(job.workers, usual):
        limit = None if seconds is None else seconds / rounds(job.workers, usual)
        jobs = [MemberJob(number, limit) for number in range(usual)]
        members = train_spread(job.workers, studio, jobs)
    elif most > 1 and job.workers is None and _is_recorded(job, first):
        limit = None if seconds is None else seconds / -(-most // MOST)
        members = list(studio.train([MemberJob(n, limit) for n in range(most)], most))
    else:
        members = _without_straggler(job, _one_after_the_other(job, studio, seconds, usual, most))
    networks, states = [m.network for m in members], [m.state for m in members]
    job.budget.cut_off.extend(_cut_off(states, usual))
    is_whole = states[-1].ended != "interrupted"
    return Trained(tuple(networks), tuple(states), is_whole=is_whole)


def _one_after_the_other(
    job: Job, studio: Studio, seconds: float | None, usual: int, most: int
) -> Iterator[Member]:
    """As many networks as there is time for, `most` of them at most."""
    states: list[State] = []
    while len(states) < most and not (states and states[-1].ended == "interrupted"):
        number, limit = len(states), None
        if seconds is not None:
            limit = member_seconds(seconds, usual, [state.seconds for state in states])
            if limit is None:
                break
        job.progress.plan("network", limit)
        trainer = studio.trainer(MemberJob(number, limit), job.workers)
        if usual > 1:
            job.progress.member(number + 1, max(usual, number + 1))
        states.append(trainer.run())
        yield Member(trainer.model, states[-1])


def _is_recorded(job: Job, network: RelationalModel) -> bool:
    """Whether training steps of a network are recorded on the device of the run."""
    return network.recommender is None and why_not_recorded(network, job.data, job.device) is None


def _without_straggler(job: Job, members: Iterable[Member]) -> list[Member]:
    """Networks but for the last one where it was cut off too early."""
    found = list(members)
    if is_behind(job.data.target.metric, [member.state for member in found]):
        job.progress.notice(
            f"network {len(found)} was cut off before it was as good as those before it, and is "
            "left out"
        )
        last = found.pop().state
        seconds = found[-1].state.seconds + last.seconds
        found[-1] = found[-1]._replace(
            state=replace(found[-1].state, ended=last.ended, seconds=seconds)
        )
    return found


def scoring_seconds(job: Job, data: TrainingData, network: RelationalModel) -> float:
    """What it takes to score validation and test with one network on the device of the run, from a
    few seeds with what it reads of them."""
    seeds = data.seeds["val"]
    few = seeds.take(np.flatnonzero(data.exists(seeds))[:PROBED])
    if not len(few):
        return 0.0
    scorer = Scorer(network, data, job.device, precision=job.config.train.precision)
    scorer.outputs(few)  # compiles and loads
    began = time.perf_counter()
    scorer.outputs(few)
    rows = len(data.seeds["val"]) + len(data.seeds["test"])
    return (time.perf_counter() - began) * rows / len(few)


def member_seconds(seconds: float, usual: int, spent: Sequence[float]) -> float | None:
    """What the next network may take of the seconds for all; None where it could not come as far as
    those before it.

    The first one may take half of the time: one network that has learned enough is better than
    three that have not. Where there is too little for all of the others, some of them get as much
    as those before.
    """
    number, left = len(spent), seconds - sum(spent)
    if not number:
        return left if usual == 1 else left / 2
    mean = sum(spent) / number
    if number >= usual:
        return left if left >= mean else None
    share = left / (usual - number)
    if share >= mean / 2:
        return share
    return min(left, mean) if left >= mean / 2 else None


def _cut_off(states: list[State], usual: int) -> Iterator[str]:
    """What the networks could not do in time."""
    if len(states) < usual and states[-1].ended != "interrupted":
        yield f"{len(states)} of {usual} networks were trained"
    ended = [state for state in states if state.ended == "time limit"]
    if ended:
        which = "the network" if len(states) == 1 else f"{len(ended)} of {len(states)} networks"
        rising = sum(state.waited == 0 for state in ended)
        still = f"; the validation score of {rising} was still improving" if rising else ""
        epochs = max(len(state.history) for state in ended)
        yield f"{which} reached the end of its time after {epochs} epochs{still}"


def retraining_seconds(job: Job, trained: Trained) -> float:
    """What retraining the networks on the known labels takes."""
    first = trained.states[0]
    epochs = max(first.averaged or (first.best_epoch,)) / max(1, len(first.history))
    ratio = known_share(job.data, job.config.train)
    return ratio * epochs * job.clock.phases.get("training", 0.0)


def retrain_ensemble(
    job: Job, trained: Trained, splits: tuple[str, ...], with_networks: bool = True
) -> Trained:
    """The same networks and trees retrained on the labels of other splits, for as many epochs as
    validation chose; as they were where something was interrupted. Networks without a share stay as
    they are: no prediction asks them.

    Args:
        with_networks: Whether networks over subgraphs are retrained too, beside columns network
            and trees.
    """
    if not trained.is_whole:
        return trained
    states = trained.states if trained.graph and with_networks else ()
    columns = trained.columns
    networks: list[RelationalModel] = []

    def regrown(is_left: Callable[[], bool]) -> GrownTrees | None:
        examples.result()  # whose history is theirs
        before = trained.trees
        return before and regrow_trees(before, job.data, job.config, splits, is_left)

    def learned(_: Callable[[], bool]) -> ColumnRows | None:
        return None if columns is None else column_rows(job.data, job.config, splits)

    is_late = is_idle(job.device)
    with Aside(learned, is_late) as examples, Aside(regrown, is_late) as forests:
        jobs = [_again(number, state, splits) for number, state in enumerate(states)]
        studio = _studio(job, columns is None, is_kept=False)
        for member in _retrained(job, studio, jobs) if jobs else ():
            if member.state.ended == "interrupted":
                job.clock.done("retrain", "interrupted; the weights before are kept")
                return replace(trained, is_whole=False)
            networks.append(member.network)
        if columns is not None and (again := examples.result()) is not None:
            columns = refit_columns(columns, again, job.data.target, job.config, job.device)
        trees = forests.result()
    rows = sum(len(job.data.windows(split, job.config.train.windows)[0]) for split in splits)
    retrained = Retrained(
        labels="known" if splits == (KNOWN,) else "all",
        rows=rows,
        epochs=max(states[0].averaged or (states[0].best_epoch,)) if states else 0,
    )
    epochs = f", {retrained.epochs} epochs" if retrained.epochs else ""
    job.clock.done("retrain", f"{retrained.rows:,} labels{epochs}")
    kept = tuple(networks) or trained.networks
    return replace(trained, networks=kept, trees=trees, retrained=retrained, columns=columns)


def _retrained(job: Job, studio: Studio, jobs: Sequence[MemberJob]) -> Iterator[Member]:
    """Networks, each by a worker or all by this process."""
    if job.workers is not None and is_spread(job.workers, len(jobs)):
        yield from train_spread(job.workers, studio, jobs)
        return
    yield from studio.train(jobs, len(jobs), job.workers)


def _again(number: int, state: State, splits: tuple[str, ...]) -> MemberJob:
    """To train a network for as many epochs as validation chose."""
    epochs = tuple(state.averaged) or (max(1, state.best_epoch),)
    # one epoch may be the part of one for which there was time
    steps = int(state.history[0]["step"]) if max(epochs) == 1 else None
    return MemberJob(number, None, splits, epochs, steps)


def _studio(job: Job, reads_history: bool, is_kept: bool = True) -> Studio:
    """Where the networks of a run are trained; checkpoints are kept of those that validation
    chooses."""
    folder, key = (job.out, job.key) if is_kept else (None, "")
    data = job.data if reads_history else job.data.without_history()
    return Studio(data, job.config, job.device, reads_history, folder, key, job.progress, job.stop)


def _tell_model(job: Job, network: RelationalModel, count: int) -> None:
    size = sum(p.numel() for p in network.parameters())
    several = f"{count} networks of " if count > 1 else ""
    facts = f", {network.facts}" if network.facts else ""
    job.progress.phase("model", f"{several}{size:,} parameters on {job.device}{facts}")
    seeds = learnable(job.data, ("train",), job.config.train)[0]
    for text in about_seeds(seeds, job.data.task.rows["train"]):
        job.progress.notice(text)


def about_seeds(seeds: Seeds, rows: int) -> Iterator[str]:
    """What to say of training seeds beyond the rows of the label table."""
    stale = int(np.count_nonzero(seeds.asked != seeds.time))
    if len(seeds) - stale > rows:
        yield (
            f"train: {len(seeds) - stale:,} labels of overlapping windows are learned from "
            "(train.windows)"
        )
    if stale:
        yield (
            f"train: {stale:,} labels are learned once more from rows up to an earlier time, "
            "as the frozen test asks (train.stale)"
        )


def is_behind(metric: str, states: list[State]) -> bool:
    """Whether the last of several networks was cut off before it was as good as any of the others:
    their mean is better off without it."""
    *before, last = states
    if not before or last.ended not in CUT_OFF:
        return False
    scores = [state.best for state in before if state.best is not None]
    if not scores:  # nothing to compare
        return last.total == 0
    return last.best is None or all(is_better(metric, best, last.best) for best in scores)


def known_share(data: TrainingData, config: TrainConfig) -> float:
    """The time of an epoch of retraining on the known labels over that of an epoch of training."""
    labels = [len(data.windows(split, config.windows)[0]) for split in ("train", KNOWN)]
    steps = [count / config.batch_size for count in labels]
    train, known = (min(count, config.steps_per_epoch or count) for count in steps)
    return known / max(train, 1e-9)
