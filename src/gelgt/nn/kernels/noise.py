"""The noise that the structure encoder starts from (`nn/structure.py`) in one kernel: written out,
its hashes are some seventy launches over a few numbers each."""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl
from torch import Tensor

from gelgt.nn import structure

ROWS = 16  # of a program
A, B, C = (tl.constexpr(value) for value in structure.SPLIT_MIX)


@triton.jit
def hashed(z):
    """SplitMix64's finaliser on signed numbers; right shifts are made logical by masks."""
    z = z + A
    z = (z ^ ((z >> 30) & 0x3FFFFFFFF)) * B
    z = (z ^ ((z >> 27) & 0x1FFFFFFFFF)) * C
    return z ^ ((z >> 31) & 0x1FFFFFFFF)


@triton.jit(do_not_specialize=["seed"])
def noise_kernel(
    seed_key, seed_time, offsets, subgraph, out, rows, seeds, words, seed,
    ROWS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """±1 from the 64 bits of each word of a row: (rows, words · 64)."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_row = row < rows
    b = tl.minimum(tl.load(subgraph + row, mask=is_row, other=0), seeds - 1)
    place = (row - tl.load(offsets + b, mask=is_row, other=0)).to(tl.int64)
    key = tl.load(seed_key + b, mask=is_row, other=0)
    start = hashed(
        hashed(key ^ hashed(seed.to(tl.int64))) ^ tl.load(seed_time + b, mask=is_row, other=0)
    )
    word = tl.arange(0, WORDS)
    bits = hashed(start[:, None] ^ hashed(place[:, None] * 1_000_003 + word[None, :]))
    bit = tl.arange(0, 64)
    sign = (2 * ((bits[:, :, None] >> bit[None, None, :]) & 1) - 1).to(tl.float32)
    at = row.to(tl.int64)[:, None] * words + word[None, :]
    inside = is_row[:, None] & (word < words)[None, :]
    to = out + at[:, :, None] * 64 + bit[None, None, :]
    # a mask has the shape of what it masks: the 64 signs of a word are all there or not
    tl.store(to, sign.to(out.dtype.element_ty), mask=inside[:, :, None] & (bit >= 0)[None, None, :])


def launch_noise(
    seed_key: Tensor, seed_time: Tensor, offsets: Tensor, subgraph: Tensor, width: int, seed: int,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """(B,), (B,), (B + 1,), (T,) → (T, width); rows of no subgraph count on behind the last."""
    rows, words = len(subgraph), width // 64
    out = torch.empty(rows, width, dtype=dtype, device=subgraph.device)
    noise_kernel[(triton.cdiv(rows, ROWS),)](
        seed_key, seed_time, offsets, subgraph, out, rows, len(seed_key), words, seed,
        ROWS=ROWS, WORDS=triton.next_power_of_2(words), num_warps=4,
    )  # fmt: skip
    return out
