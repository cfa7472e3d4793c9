"""What a training is asked for (`Goal`), and where it is recorded and watched (`Session`)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gelgt.training.progress import Progress
from gelgt.training.workers import Workers

if TYPE_CHECKING:
    from gelgt.training.fit import Trainer


@dataclass(frozen=True)
class Goal:
    """What a network learns from, and when it ends.

    Attributes:
        splits: Whose labels are learned from.
        epochs: When retraining, the epochs whose mean weights are taken, the last of which ends it.
            Empty: validation decides.
        order: Random seed of the examples' order and of the lags of stale ones, which all networks
            of a run share; None: the network's own.
    """

    splits: tuple[str, ...] = ("train",)
    epochs: tuple[int, ...] = ()
    order: int | None = None

    @property
    def is_validated(self) -> bool:
        return not self.epochs


@dataclass(frozen=True)
class Session:
    """Where a training is recorded, and who watches it.

    Attributes:
        folder: For checkpoints; None writes none.
        key: What the run depends on; a checkpoint of another key is refused.
        member: Number of the network in its ensemble; each has a checkpoint of its own.
        progress: Is told of every step and epoch.
        stop: Asked after every step; true ends training early, with the best weights so far.
        workers: Who trains with this process; None: nobody.
        beside: What trains another network of the run over the same batches; None: nothing.
    """

    folder: Path | None = None
    key: str = ""
    member: int = 0
    progress: Progress = field(default_factory=Progress)
    stop: Callable[[], bool] = lambda: False
    workers: Workers | None = None
    beside: "Trainer | None" = None
