"""What autocast would do to a tensor, done earlier; and whether a CPU multiplies bf16 faster."""

from functools import cache

import torch
from torch import Tensor


def lowered(x: Tensor) -> Tensor:
    """In autocast's precision, where it is on: what the next product would read anyway, in half the
    memory."""
    dtype = low_type(x)
    return x if dtype is None else x.to(dtype)


def low_type(x: Tensor) -> torch.dtype | None:
    """Autocast's precision where a tensor is; None where it is off."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None


def has_fast_bf16(device: torch.device) -> bool:
    """Whether products of bf16 are faster than those of float32 on a CPU: it has instructions for
    them. CUDA has TF32 for float32 instead."""
    return device.type == "cpu" and _has_instructions()


@cache
def _has_instructions() -> bool:
    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(hasattr(torch.cpu, name) and getattr(torch.cpu, name)() for name in names)
