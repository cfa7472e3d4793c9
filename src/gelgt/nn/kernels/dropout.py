"""Dropout, and numbers of [0, 1), whose draws follow from a seed in the device's memory, the number
of the call and the place of the entry alone: nothing is drawn from PyTorch's generator, of which
all recorded graphs share the state, and no mask is kept for the backward pass."""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # entries of one draw of a program, which gives four of them


@triton.jit(do_not_specialize=["call"])
def dropout_kernel(x, out, seed, call, count, rate, scale, BLOCK: tl.constexpr):
    first, second, third, fourth, start = _draws(seed, call, BLOCK)
    _kept(x, out, start, first, count, rate, scale)
    _kept(x, out, start + BLOCK, second, count, rate, scale)
    _kept(x, out, start + 2 * BLOCK, third, count, rate, scale)
    _kept(x, out, start + 3 * BLOCK, fourth, count, rate, scale)


@triton.jit(do_not_specialize=["call"])
def uniform_kernel(out, seed, call, count, BLOCK: tl.constexpr):
    first, second, third, fourth, start = _draws(seed, call, BLOCK)
    tl.store(out + start, first, mask=start < count)
    tl.store(out + start + BLOCK, second, mask=start + BLOCK < count)
    tl.store(out + start + 2 * BLOCK, third, mask=start + 2 * BLOCK < count)
    tl.store(out + start + 3 * BLOCK, fourth, mask=start + 3 * BLOCK < count)


@triton.jit
def _draws(seed, call, BLOCK: tl.constexpr):
    """Four times BLOCK numbers, and the places of the first."""
    program = tl.program_id(0)
    # calls are as far apart as seeds, so that no two of a step meet
    key = tl.load(seed) + call.to(tl.int64) * 0x1E3779B97F4A7C15
    draw = program * BLOCK + tl.arange(0, BLOCK)
    first, second, third, fourth = tl.rand4x(key, draw)
    start = program.to(tl.int64) * (4 * BLOCK) + tl.arange(0, BLOCK)
    return first, second, third, fourth, start


@triton.jit
def _kept(x, out, place, drawn, count, rate, scale):
    inside = place < count
    value = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    kept = tl.where(drawn >= rate, value * scale, 0.0)
    tl.store(out + place, kept.to(out.dtype.element_ty), mask=inside)


def launch_dropout(x: Tensor, seed: Tensor, call: int, rate: float) -> Tensor:
    """x with a share of its entries zeroed and the others scaled, so that the mean stays.

    Args:
        x: Contiguous.
        seed: (1,) int64 on the device.
        call: Which of the draws of a seed.
    """
    out = torch.empty_like(x)
    if x.numel():
        grid = (triton.cdiv(x.numel(), 4 * BLOCK),)
        numbers = (x.numel(), rate, 1.0 / (1.0 - rate))
        dropout_kernel[grid](x, out, seed, call, *numbers, BLOCK=BLOCK, num_warps=4)
    return out


def launch_uniform(shape: torch.Size, seed: Tensor, call: int) -> Tensor:
    """Numbers of [0, 1) in a shape, float32; `seed` and `call` as in `launch_dropout`."""
    out = torch.empty(shape, device=seed.device)
    if out.numel():
        grid = (triton.cdiv(out.numel(), 4 * BLOCK),)
        uniform_kernel[grid](out, seed, call, out.numel(), BLOCK=BLOCK, num_warps=4)
    return out
