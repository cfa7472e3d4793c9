"""`follow`: what a worker other than the leader does: it makes the trainer that it is told to make,
takes the steps that it is told to take, and writes nothing.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from gelgt.errors import GelgtError
from gelgt.history.seed_history import NO_HISTORY
from gelgt.presets import RunConfig
from gelgt.runs.folder import MARK
from gelgt.runs.progress import Worker
from gelgt.training.data import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model, member_config
from gelgt.training.session import Goal, Session
from gelgt.training.spread import MemberJob, Studio, follow_spread
from gelgt.training.team import digest, empty_moments, flat_moments, shared_predictions
from gelgt.training.validation import validated
from gelgt.training.workers import Workers

Message = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """A run as a follower sees it.

    Attributes:
        key: What the run depends on; the leader's must be the same.
        open: Opens the data.
    """

    key: str
    config: RunConfig
    open: Callable[[], TrainingData]


def meet(workers: Workers, key: str) -> list[Worker]:
    """Lead: everyone who is here, with the same version, configuration, task and data.

    Raises:
        GelgtError: ``version_mismatch``, ``worker_differs``, or the error of a worker.
    """
    workers.order(do="meet")
    facts = {"key": key, "version": _version()}
    answers = workers.agree(None, **facts)
    for answer in answers[1:]:
        who = f"Worker {answer['rank']} on {answer['host']}"
        if answer["version"] != facts["version"]:
            raise GelgtError(
                "version_mismatch",
                f"{who} has gelgt {answer['version']}, the first worker {facts['version']}.",
                hint="Install the same version everywhere.",
            )
        if answer["key"] != key:
            raise GelgtError(
                "worker_differs",
                f"{who} has another configuration, task or database than the first worker.",
                hint="Start every worker with the same command, and let all of them read the same "
                "rows.",
            )
    return [Worker(host=answer["host"], process=answer["process"]) for answer in answers]


def follow(workers: Workers, enter: Callable[[], Entry]) -> bool:
    """Do what the leader orders until it ends; whether its run is whole.

    Args:
        enter: Opens what is trained on; what it raises is told to the leader.
    """
    follower = _Follower(workers)
    entered: Entry | GelgtError
    try:
        entered = enter()
    except GelgtError as error:
        entered = error
    message = workers.heard()
    while message is not None and message["do"] != "end":
        message = follower.obey(message, entered)
    return message is not None and bool(message["is_whole"])


@dataclass
class _Follower:
    workers: Workers
    trainer: Trainer | None = None
    _data: dict[str, TrainingData] = field(default_factory=dict)

    def obey(self, message: Message, entered: Entry | GelgtError) -> Message | None:
        """Do what a message says; the message behind it."""
        if message["do"] == "meet":
            failed = entered if isinstance(entered, GelgtError) else None
            key = "" if isinstance(entered, GelgtError) else entered.key
            self.workers.answer(failed, key=key, version=_version())
        elif message["do"] == "fit":
            assert isinstance(entered, Entry)
            self._fit(message, entered)
        elif message["do"] == "members":
            assert isinstance(entered, Entry)
            self._members(message, entered)
        elif message["do"] == "epoch":
            return self._epoch(message)
        else:
            self._score()
        return self.workers.heard()

    def _fit(self, message: Message, entry: Entry) -> None:
        failed = None
        try:
            self.trainer = None  # its memory is needed for the next one
            self.trainer = self._made(message, entry)
            if digest(self.trainer) != message["digest"]:
                raise GelgtError(
                    "worker_differs",
                    "The labels that it learns from are not those of the first worker.",
                    hint="Install the same version of DuckDB everywhere, and let all workers read "
                    "the same rows.",
                )
        except GelgtError as error:
            failed = error
        self.workers.answer(failed)
        if self.trainer is None or failed is not None:
            return
        self.workers.spread(list(self.trainer.model.state_dict().values()))
        moments = empty_moments(message["moments"])
        self.workers.spread(flat_moments(moments))
        if moments:
            self.trainer.optimiser.load_moments(moments)

    def _members(self, message: Message, entry: Entry) -> None:
        """Train whole networks."""
        failed, heard = None, self.workers.listen()
        try:
            studio = Studio(
                self._shared(message, entry),
                entry.config,
                self.workers.device,
                message["reads_history"],
                _seen(message["folder"]),
                message["key"],
                stop=lambda: bool(heard()),
            )
        except GelgtError as error:
            failed = error
        self.workers.answer(failed)
        if failed is None:
            jobs = [
                MemberJob(**job | {name: tuple(job[name]) for name in ("splits", "epochs")})
                for job in message["jobs"]
            ]
            follow_spread(self.workers, studio, jobs)

    def _shared(self, message: Message, entry: Entry) -> TrainingData:
        """The data as the leader has it."""
        data = self._opened(entry).as_shared(message["data"], entry.config)
        if not message["reads_history"]:  # the leader's columns network does
            data = replace(data, plan=NO_HISTORY)
        return data

    def _made(self, message: Message, entry: Entry) -> Trainer:
        config = member_config(entry.config, message["member"], None)
        data = self._shared(message, entry)
        trainer = Trainer(
            make_model(data, config, message["reads_history"]),
            data,
            config.train.model_copy(update={"weight_average": 0.0}),  # the leader keeps it
            self.workers.device,
            goal=Goal(tuple(message["splits"]), tuple(message["epochs"]), entry.config.train.seed),
            session=Session(member=message["member"], workers=self.workers),
            parts=message["parts"],
        )
        trainer.steps = message["steps"]
        return trainer

    def _opened(self, entry: Entry) -> TrainingData:
        if "data" not in self._data:
            self._data["data"] = entry.open()
        return self._data["data"]

    def _epoch(self, message: Message) -> Message | None:
        """Take steps until there is another order."""
        trainer = self.trainer
        assert trainer is not None
        state = trainer.state
        state.epoch, state.step, state.total = (message[n] for n in ("epoch", "step", "total"))
        self.workers.spread(list(trainer.model.state_dict().values()))
        devices = [trainer.device] if trainer.device.type == "cuda" else []
        with (
            torch.random.fork_rng(devices=devices),
            trainer.lanes,
            closing(trainer.batches()) as batches,
        ):
            while (order := self.workers.heard()) is None:
                trainer._step(next(batches), trainer.rows(state.step))
                state.step, state.total = state.step + 1, state.total + 1
        return order

    def _score(self) -> None:
        """Predict a stretch of the validation rows with weights that the leader sends."""
        trainer = self.trainer
        assert trainer is not None
        current = list(trainer.model.state_dict().values())
        before = [tensor.clone() for tensor in current]
        self.workers.spread(current)
        seeds = trainer.data.seeds["val"].take(validated(trainer.data, trainer.config))
        with trainer.lanes:
            shared_predictions(trainer, self.workers, seeds)
        with torch.no_grad():
            for tensor, value in zip(current, before):
                tensor.copy_(value)


def _seen(folder: str | None) -> Path | None:
    """The leader's run folder, where this machine sees it."""
    return None if folder is None or not (Path(folder) / MARK).exists() else Path(folder)


def _version() -> str:
    from gelgt import __version__

    return __version__
