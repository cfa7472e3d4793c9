"""Tensors in one safetensors file with a checksum: whole or not at all. Nothing in it can run."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from gelgt.errors import GelgtError
from gelgt.files import whole_file


def save_tensors(path: Path, tensors: dict[str, Tensor], meta: dict[str, str]) -> None:
    """Tensors and texts as one safetensors file with a checksum, whole or not at all.

    Raises:
        GelgtError: ``cannot_write``: the disk is full, or the file may not be written.
    """
    try:
        with whole_file(path) as temporary:
            temporary.touch()  # with the rights that the user's other files have
            mode = temporary.stat().st_mode & 0o777
            save_file(tensors, temporary, metadata=meta | {"checksum": _checksum(tensors, meta)})
            temporary.chmod(mode)
    except (SafetensorError, OSError) as error:
        raise GelgtError(
            "cannot_write",
            f"{path} cannot be written: {error}.",
            hint="Free space or get permission to write there; a training that was cut off goes on "
            "with --resume.",
        ) from None


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What `save_tensors` wrote; nothing in such a file can run.

    Raises:
        GelgtError: it is missing, truncated or changed.
    """
    hint = "Copy the run folder again, or train again."
    try:
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError("there is no such file")
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
