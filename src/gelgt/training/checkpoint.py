"""Checkpoints: everything that continues a training run, in one file that is either whole or not
there.

`checkpoint.safetensors` holds the tensors (weights, best weights, moving average, Adam's moments)
and, as its metadata, the loop's state in JSON with a checksum over both. It is written under a
temporary name, flushed to the disk and renamed, so that a process that is killed at any moment
leaves the previous checkpoint.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gelgt.errors import GelgtError
from gelgt.files import whole_file

CHECKPOINT = "checkpoint.safetensors"
FORMAT = 2


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
        kept: The best epochs, whose weights are kept: [epoch, score], best first.
        mixed: The epochs whose weights the final ones are the mean of; empty where one epoch's are
            final.
        history: One record for each epoch.
        ended: Why training ended; empty while it has not.
    """

    epoch: int = 0
    step: int = 0
    total: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    best: float | None = None
    best_epoch: int = 0
    waited: int = 0
    kept: list[tuple[int, float | None]] = field(default_factory=list)
    mixed: list[int] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    ended: str = ""


def checkpoint_path(folder: Path, member: int = 0) -> Path:
    """The checkpoint of one member."""
    return folder / CHECKPOINT if member == 0 else folder / f"checkpoint-{member}.safetensors"


def drop_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of all members."""
    for path in folder.glob("checkpoint*.safetensors"):
        path.unlink(missing_ok=True)


def save_checkpoint(
    folder: Path, state: State, tensors: Mapping[str, Tensor], key: str, member: int = 0
) -> None:
    """Write a checkpoint.

    Args:
        key: What the run depends on (configuration, task, data); another key is another run.
    """
    content = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps(asdict(state), allow_nan=False)
    save_tensors(
        checkpoint_path(folder, member), content, {"format": str(FORMAT), "key": key, "state": text}
    )


def load_checkpoint(
    folder: Path, key: str, member: int = 0
) -> tuple[State, dict[str, Tensor]] | None:
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
    return State(**json.loads(meta["state"])), tensors


def check_key(found: str | None, key: str, folder: Path) -> None:
    """Refuse to go on with a run that was started otherwise."""
    if found != key:
        raise GelgtError(
            "other_run",
            f"{folder} holds a run with another configuration, task or data.",
            hint="Resume with the settings it was started with, or choose another --out.",
        )


def save_tensors(path: Path, tensors: dict[str, Tensor], meta: dict[str, str]) -> None:
    """Tensors and texts as one safetensors file with a checksum, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.touch()  # with the rights that the user's other files have
        mode = temporary.stat().st_mode & 0o777
        save_file(tensors, temporary, metadata=meta | {"checksum": _checksum(tensors, meta)})
        temporary.chmod(mode)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What `save_tensors` wrote; nothing in such a file can run.

    Raises:
        GelgtError: it is missing, truncated or changed.
    """
    hint = "Copy the run folder again, or train again."
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            meta = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (not a mapping)
    except (SafetensorError, OSError) as error:
        raise GelgtError("damaged_file", f"{path} is not readable: {error}.", hint=hint) from None
    if meta.pop("checksum", None) != _checksum(tensors, meta):
        raise GelgtError("damaged_file", f"{path} was changed after it was written.", hint=hint)
    return tensors, meta


def _checksum(tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> str:
    digest = hashlib.blake2b(json.dumps(dict(sorted(meta.items()))).encode(), digest_size=16)
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data if tensor.numel() else b"")
    return digest.hexdigest()
