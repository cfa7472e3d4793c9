"""Checkpoints: everything that continues a training run, in one file that is either whole or not
there.

`checkpoint.safetensors` holds the tensors (weights, best weights, moving average, Adam's moments)
and, as its metadata, the loop's state in JSON with a checksum over both. It is written under a
temporary name, flushed to the disk and renamed, so that a process that is killed at any moment
leaves the previous checkpoint.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from gelgt.errors import GelgtError
from gelgt.runs.folder import CHECKPOINT
from gelgt.runs.tensors import load_tensors, save_tensors
from gelgt.schema.shape import shaped
from gelgt.training.weights import Weights

FORMAT = 4


@dataclass
class State:
    """Where a training run stands.

    Attributes:
        epoch: Epochs that are done.
        step: Steps of the next one that are done.
        total: Steps of all epochs.
        loss: Sum of the losses of the steps of the next epoch.
        seconds: Spent on training so far, in all processes.
        best: The best validation score.
        best_epoch: The epoch that reached it.
        waited: Epochs since then.
        best_epochs: Those whose weights are kept: [epoch, score], best first.
        averaged: The epochs whose weights the final ones are the mean of; empty where those of one
            epoch are final.
        history: One record for each epoch.
        ended: Why training ended; empty while it has not.
        columns: History columns that were chosen; None where nothing was. Resumed with more time,
            a run keeps to them.
        parts: That a batch is divided into. Resumed with other workers, a run keeps to them: each
            has dropout of its own.
    """

    epoch: int = 0
    step: int = 0
    total: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    best: float | None = None
    best_epoch: int = 0
    waited: int = 0
    best_epochs: list[tuple[int, float | None]] = field(default_factory=list)
    averaged: list[int] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    ended: str = ""
    columns: int | None = None
    parts: int = 1

    def add_record(
        self, scores: dict[str, float], rate: float, kernels: list[list[dict[str, Any]]]
    ) -> dict[str, Any]:
        """Enter the epoch that ends into the history: its scores, rate, and the kernels' spans."""
        record: dict[str, Any] = {
            "epoch": self.epoch + 1,
            "step": self.total,
            "seconds": round(self.seconds, 2),
            "loss": self.loss / self.step,
            "val": scores,
            "rate": rate,
        }
        if kernels:
            names = ("centre_days", "width_days")
            record["kernels"] = [
                [{name: round(float(kernel[name]), 5) for name in names} for kernel in layer]
                for layer in kernels
            ]
        self.history.append(record)
        return record


@dataclass(frozen=True)
class Snapshot:
    """The tensors of a checkpoint.

    Attributes:
        model: The weights that are being trained.
        best: Those of `State.best_epochs`.
        average: The moving average of the weights.
        moments: Of the optimiser, by the number of their parameter.
    """

    model: Weights
    best: list[Weights]
    average: Weights
    moments: dict[int, Weights]

    def tensors(self) -> Weights:
        """All of them, under names like ``best/0/head.weight``."""
        tensors = {f"model/{name}": tensor for name, tensor in self.model.items()}
        tensors |= {f"average/{name}": tensor for name, tensor in self.average.items()}
        for section, numbered in (("best", enumerate(self.best)), ("adam", self.moments.items())):
            for number, weights in numbered:
                tensors |= {f"{section}/{number}/{name}": t for name, t in weights.items()}
        return tensors

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], best: int) -> "Snapshot":
        """What `tensors` gave; so many epochs are among the best."""
        sections: dict[str, Weights] = {"model": {}, "best": {}, "average": {}, "adam": {}}
        for name, tensor in tensors.items():
            section, _, rest = name.partition("/")
            sections[section][rest] = tensor
        weights = _numbered(sections["best"])
        return cls(
            sections["model"],
            [weights.get(place, {}) for place in range(best)],
            sections["average"],
            _numbered(sections["adam"]),
        )


def _numbered(tensors: Weights) -> dict[int, Weights]:
    """Tensors called ``3/name`` by their numbers."""
    numbered: dict[int, Weights] = {}
    for name, tensor in tensors.items():
        number, _, rest = name.partition("/")
        numbered.setdefault(int(number), {})[rest] = tensor
    return numbered


def checkpoint_path(folder: Path, member: int = 0) -> Path:
    """The checkpoint of one member."""
    return folder / CHECKPOINT if member == 0 else folder / f"checkpoint-{member}.safetensors"


def drop_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of all members."""
    for path in folder.glob("checkpoint*.safetensors"):
        path.unlink(missing_ok=True)


def save_checkpoint(
    folder: Path, state: State, snapshot: Snapshot, key: str, member: int = 0
) -> None:
    """Write a checkpoint.

    Args:
        key: What the run depends on (configuration, task, data); another key is another run.
    """
    content = {
        name: tensor.detach().cpu().contiguous().clone()
        for name, tensor in snapshot.tensors().items()
    }
    text = json.dumps(asdict(state), allow_nan=False)
    save_tensors(
        checkpoint_path(folder, member), content, {"format": str(FORMAT), "key": key, "state": text}
    )


def load_checkpoint(folder: Path, key: str, member: int = 0) -> tuple[State, Snapshot] | None:
    """The checkpoint of a folder, if there is one.

    Raises:
        GelgtError: it is damaged, or it belongs to another configuration.
    """
    path = checkpoint_path(folder, member)
    if not path.exists():
        return None
    tensors, meta = load_tensors(path)
    if meta.get("format") != str(FORMAT):
        raise GelgtError(
            "newer_run",
            f"{path.name} has format {meta.get('format')}, not {FORMAT}.",
            hint="Use the gelgt that wrote it.",
        )
    check_key(meta.get("key"), key, folder)
    with shaped(str(path), "damaged_file", "Start the training again, without --resume."):
        state = State(**json.loads(meta["state"]))
        return state, Snapshot.of(tensors, len(state.best_epochs))


def check_key(stored: str | None, key: str, folder: Path) -> None:
    """Refuse to go on with a run that was started otherwise."""
    if stored != key:
        raise GelgtError(
            "other_run",
            f"{folder} holds a run with another configuration, task or data.",
            hint="Resume with the settings it was started with, or choose another --out.",
        )
