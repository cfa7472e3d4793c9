"""Triton kernels: attention with the Gaussian bias, which is computed where it is needed and never
written to memory; norms and sums.

    tiles.py        what attention's kernels share    problem.py      its arrays and tile sizes
    groups.py       rows by age share Gaussians       launch.py       memory and launches
    forward.py      attention                         op.py           the differentiable function
    backward.py     its gradients                     keys.py         those of keys and values
    segments.py     sums of rows in a fixed order
    layer_norm.py   layer norm                        batch_norm.py   batch norm of several tables
    columns.py      sums over rows                    tail.py         what follows a product
    ranks.py        ranks within subgraphs            noise.py        of the structure encoder
    numbers.py      numerical columns                 dropout.py      dropout by a seed in memory
    adam.py         the end of a training step        adam_launch.py  its table of addresses

This module itself needs no Triton: it says whether the kernels can be used, and if not, why.
"""

import os
from functools import lru_cache
from importlib.util import find_spec

import torch

FAR = 1.0e9  # days; where a row without time stands
SIZES = (32, 64, 128)
MAX_KERNELS = 16
OLDEST_TRITON = (3, 6)
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


@lru_cache(maxsize=64)  # asked in every forward pass, and looking for a package reads folders
def why_not(device: torch.device, dtype: torch.dtype, size: int, kernels: int) -> str | None:
    """Why the kernels cannot be used for heads of a size and so many Gaussians; None if they can.

    Example:
        >>> why_not(torch.device("cpu"), torch.float32, 64, 4)
        'the fused kernel needs a CUDA device'
    """
    is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"  # slow, but needs no device
    if device.type != "cuda" and not is_interpreted:
        return "the fused kernel needs a CUDA device"
    if find_spec("triton") is None:
        return "the fused kernel needs Triton, which is not installed"
    if triton_version() < OLDEST_TRITON:
        return f"the fused kernel needs Triton {'.'.join(map(str, OLDEST_TRITON))} or newer"
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < (8, 0):
        return "the fused kernel needs a device of compute capability 8.0 or newer"
    if dtype not in DTYPES:
        return f"the fused kernel has no {str(dtype).removeprefix('torch.')}"
    if size not in SIZES:
        return f"the fused kernel has heads of {', '.join(map(str, SIZES))}, not {size}"
    if kernels > MAX_KERNELS:
        return f"the fused kernel has at most {MAX_KERNELS} Gaussians, not {kernels}"
    return None


def triton_version() -> tuple[int, ...]:
    """Major and minor version of an installed Triton."""
    import triton

    return tuple(int(part) for part in triton.__version__.split(".")[:2])


@lru_cache(maxsize=8)
def has_triton(device: torch.device) -> bool:
    """Whether a CUDA device can run Triton's kernels."""
    return (
        device.type == "cuda"
        and find_spec("triton") is not None
        and torch.cuda.get_device_capability(device) >= (8, 0)
    )
