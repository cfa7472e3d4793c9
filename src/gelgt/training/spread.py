"""Several networks on several workers, each trained whole by one of them.

Where there are at least as many networks as workers, this is cheaper than to share every batch:
nothing has to be added up. Each network is the one that a single process would train.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load, save

from gelgt.nn import RelationalModel
from gelgt.presets import RunConfig
from gelgt.training.abreast import MOST, SideBySide
from gelgt.training.checkpoint import State
from gelgt.training.data import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model, member_config
from gelgt.training.progress import Progress
from gelgt.training.session import Goal, Session
from gelgt.training.workers import Workers


@dataclass(frozen=True)
class MemberJob:
    """A network that is to be trained.

    Attributes:
        number: Among the networks of the run.
        limit: Seconds that it may take.
        splits, epochs: Its `Goal`.
        steps: Of an epoch at most.
    """

    number: int
    limit: float | None = None
    splits: tuple[str, ...] = ("train",)
    epochs: tuple[int, ...] = ()
    steps: int | None = None


class Member(NamedTuple):
    """A network that was trained, and how that went."""

    network: RelationalModel
    state: State


@dataclass(frozen=True)
class Studio:
    """Where networks are trained: what all of them share.

    Attributes:
        reads_history: Whether the networks read history columns themselves.
        folder: For checkpoints; None writes none.
        stop: True ends training early.
    """

    data: TrainingData
    config: RunConfig
    device: torch.device
    reads_history: bool
    folder: Path | None = None
    key: str = ""
    progress: Progress = field(default_factory=Progress)
    stop: Callable[[], bool] = lambda: False

    def trainer(
        self, job: MemberJob, workers: Workers | None = None, beside: Trainer | None = None
    ) -> Trainer:
        """What trains one of them, alone, with other workers or beside another one."""
        config = member_config(self.config, job.number, job.limit)
        session = Session(
            self.folder, self.key, job.number, self.progress, self.stop, workers, beside
        )
        trainer = Trainer(
            make_model(self.data, config, self.reads_history),
            self.data,
            config.train,
            self.device,
            goal=Goal(job.splits, job.epochs, self.config.train.seed),
            session=session,
        )
        if job.steps is not None:
            trainer.steps = min(trainer.steps, job.steps)
        return trainer

    def train(
        self, jobs: Sequence[MemberJob], count: int, workers: Workers | None = None
    ) -> Iterator[Member]:
        """Train some of so many, side by side where steps are recorded and one after the other
        elsewhere, until one of them is interrupted. Where a GPU has no room for so many at once,
        fewer of them are."""
        left, most = list(jobs), MOST
        while left:
            first = self.trainer(left[0], workers)
            group = left[: min(_abreast(first, left), most)]
            members = self._trained(first, group, count)
            if members is None:
                most = len(group) // 2
                self.progress.notice(
                    f"the GPU has no room for {len(group)} networks at once: {most} at a time"
                )
                del first
                gc.collect()  # records hold each other
                torch.cuda.empty_cache()
                continue
            del left[: len(group)]
            yield from members
            if any(member.state.ended == "interrupted" for member in members):
                return

    def _trained(self, first: Trainer, group: list[MemberJob], count: int) -> list[Member] | None:
        """A group of networks; None where memory ended."""
        if len(group) == 1:
            self._tell(group[0], count)
            return [Member(first.model, first.run())]
        try:
            return self._side_by_side(first, group, count)
        except torch.OutOfMemoryError:
            return None

    def _side_by_side(self, first: Trainer, jobs: list[MemberJob], count: int) -> list[Member]:
        others = [self.trainer(job, beside=first) for job in jobs[1:]]
        epochs = max((max(job.epochs) for job in jobs if job.epochs), default=None)
        numbers = [job.number + 1 for job in jobs]
        self.progress.side_by_side(numbers, count, jobs[0].limit, epochs)
        trainers = [first, *others]
        states = SideBySide(trainers).run()
        return [Member(trainer.model, state) for trainer, state in zip(trainers, states)]

    def _tell(self, job: MemberJob, count: int) -> None:
        if job.epochs:
            self.progress.retrain(job.number + 1, count, max(job.epochs))
            return
        self.progress.plan("network", job.limit)
        if count > 1:
            self.progress.member(job.number + 1, count)


def _abreast(first: Trainer, jobs: Sequence[MemberJob]) -> int:
    """How many of the next networks are trained with the first of them."""
    is_alone = first.recorded is None or first.parts > 1 or first.workers is not None
    return 1 if is_alone else min(len(jobs), MOST)


def is_spread(workers: Workers | None, count: int) -> bool:
    """Whether so many networks are trained by one worker each."""
    return workers is not None and 1 < workers.size <= count


def rounds(workers: Workers, count: int) -> int:
    """How many networks one worker trains at most."""
    return -(-count // workers.size)


def train_spread(workers: Workers, studio: Studio, jobs: Sequence[MemberJob]) -> list[Member]:
    """Lead: train networks on all workers; those that were begun, in their order."""
    folder = None if studio.folder is None else str(studio.folder.absolute())
    workers.order(
        do="members",
        jobs=[asdict(job) for job in jobs],
        data=studio.data.shared(),
        reads_history=studio.reads_history,
        folder=folder,
        key=studio.key,
    )
    workers.agree()
    own = list(studio.train(jobs[0 :: workers.size], len(jobs)))
    workers.tell_all(int(any(member.state.ended == "interrupted" for member in own)))
    parts = exchange(workers, own)
    members = []
    for place, job in enumerate(jobs):
        of_worker = parts[place % workers.size]
        if place // workers.size >= len(of_worker):
            break
        state, weights = of_worker[place // workers.size]
        config = member_config(studio.config, job.number, job.limit)
        network = make_model(studio.data, config, studio.reads_history)
        network.load_state_dict(weights)
        members.append(Member(network.to(studio.device).eval(), state))
    return members


def follow_spread(workers: Workers, studio: Studio, jobs: Sequence[MemberJob]) -> None:
    """Follow: train this worker's networks, and send them to the leader."""
    exchange(workers, list(studio.train(jobs[workers.rank :: workers.size], len(jobs))))


def exchange(
    workers: Workers, members: Sequence[Member]
) -> list[list[tuple[State, dict[str, torch.Tensor]]]]:
    """Everyone's networks, by rank."""
    answers = workers.answer(None, states=[asdict(member.state) for member in members])
    tensors = {
        f"{place}/{name}": tensor.detach().cpu().contiguous().clone()
        for place, member in enumerate(members)
        for name, tensor in member.network.state_dict().items()
    }
    contents = [load(content) for content in workers.gather_bytes(save(tensors))]
    return [
        [(State(**state), _of(content, place)) for place, state in enumerate(answer["states"])]
        for answer, content in zip(answers, contents)
    ]


def _of(tensors: dict[str, Any], place: int) -> dict[str, torch.Tensor]:
    start = f"{place}/"
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
