"""What autocast would do to a tensor, done earlier."""

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
