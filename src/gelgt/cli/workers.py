"""`gelgt train` on several workers: started by torchrun, or by Ray (`--engine ray`)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from gelgt.cli.options import AddressOption
from gelgt.cli.parse import one_of
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.cli.options import SourceOptions, TaskOptions
    from gelgt.cli.train import TrainingOptions
    from gelgt.training.workers import Workers

LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR")  # set by torchrun, and by Ray


@dataclass(frozen=True)
class EngineOptions:
    """Who trains."""

    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="NAME",
            help="ray: train on a Ray cluster (gelgt[ray]). Under torchrun no engine is needed.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            help="Workers of --engine ray, which share every batch; by default what fits the "
            "cluster.",
        ),
    ] = None
    address: AddressOption = None

    def check(self) -> None:
        """Raises where options do not go together."""
        if self.engine is not None:
            one_of("--engine", self.engine, ("ray",))
            if is_launched():
                raise GelgtError(
                    "bad_option",
                    "--engine cannot be used under torchrun, which starts the workers itself.",
                    hint="Leave one of the two out.",
                )
            from gelgt.engines.cluster import load_ray

            load_ray(is_alone=self.address is None)
        elif (self.workers, self.address) != (None, None):
            raise GelgtError(
                "bad_option",
                "--workers and --address are options of --engine ray.",
                hint="Add --engine ray, or start the workers with torchrun.",
            )


def is_launched() -> bool:
    """Whether a launcher has started this process as one of several workers."""
    return all(name in os.environ for name in LAUNCHED)


@contextmanager
def launched(device: str) -> "Iterator[Workers | None]":
    """The workers that a launcher has started; None where none has. What ends the leader early ends
    the others."""
    if not is_launched():
        yield None
        return
    from gelgt.training.workers import joined, led

    with joined(device) as workers, led(workers):
        yield workers


def restarted(training: "TrainingOptions") -> "TrainingOptions":
    """The same options; where torchrun has started the workers anew, the run goes on."""
    is_again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    return replace(training, resume=True) if is_again else training


def follow_training(
    source: "SourceOptions", task: "TaskOptions", training: "TrainingOptions", workers: "Workers"
) -> None:
    """Train with the leader, without a word: it decides, writes and tells."""
    from gelgt.presets import RunConfig
    from gelgt.sources.database import Database
    from gelgt.tasks import Task
    from gelgt.training import Options
    from gelgt.training.run import follow_run

    def enter() -> tuple[Database, Task, RunConfig, Options]:
        db = source.open()
        labels = task.make(db)
        return db, labels, training.config(labels.task_type), training.options("", 0.0, ())

    follow_run(enter, workers)
