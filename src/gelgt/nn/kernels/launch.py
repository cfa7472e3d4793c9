"""Launches the kernels of attention: what they allocate, and which programs run."""

from typing import Any

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from gelgt.nn.kernels.backward import queries_kernel, sums_kernel
from gelgt.nn.kernels.columns import add_programs
from gelgt.nn.kernels.forward import forward_kernel
from gelgt.nn.kernels.groups import Groups
from gelgt.nn.kernels.keys import keys_kernel
from gelgt.nn.kernels.problem import Problem


def tiles_of(values: Tensor, count: int, rows: int) -> TensorDescriptor:
    """Reads tiles of so many rows of one head, out of `count`: the copy engine fetches them, so no
    thread computes their addresses."""
    size, width = values.shape[-1], values.numel() // count
    return TensorDescriptor(values, [count, width], [width, 1], [rows, size])


_COMPILED: dict[tuple[Any, ...], Any] = {}


def start(
    kernel: Any,
    programs: int,
    problem: Problem,
    arguments: tuple[Any, ...],
    constants: dict[str, Any],
    warps: int,
    stages: int = 1,
) -> None:
    """Run so many programs of a kernel.

    Triton's way from arguments to a compiled kernel takes longer than attention over 300 rows, so
    the kernel is kept. That is safe as the key holds all that Triton specialises on: integers and
    small tensors are exempt from it, the others are aligned.
    """
    given = tuple(constants.values())
    key = (
        kernel.__name__,
        problem.qkv.device,
        problem.qkv.dtype,
        problem.places.dtype,
        warps,
        stages,
        given,
    )
    compiled = _COMPILED.get(key)
    if compiled is None:  # always so in the interpreter
        _COMPILED[key] = kernel[(programs,)](
            *arguments, **constants, num_warps=warps, num_stages=stages
        )
    else:
        compiled[programs, 1, 1](*arguments, *given)


def launch_forward(problem: Problem, groups: Groups | None) -> tuple[Tensor, Tensor]:
    """(T, H, D) or (B, N, H, D), and (H, T) log Σ exp of the scores times √D."""
    qkv, heads = problem.qkv, problem.heads
    out = torch.empty(
        (*problem.time.shape, heads, problem.size), dtype=qkv.dtype, device=qkv.device
    )
    lse = torch.empty((heads, problem.rows), dtype=torch.float32, device=qkv.device)
    tiling = problem.tiling("forward", groups)
    tiles = -(-problem.longest // tiling.queries)
    numbers = *problem.sizes(tiles), *problem.factors(), *problem.draws()
    readers = (
        tiles_of(qkv, problem.rows, tiling.keys),
        groups and tiles_of(qkv, problem.rows, tiling.walk),
        groups and groups.reader(groups.shares, tiling.walk),
    )
    arguments = (*readers, *problem.tensors(groups), out, lse, *numbers)
    start(
        forward_kernel,
        tiles * heads * problem.subgraphs,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:4],
    )
    return out, lse


def launch_backward(
    problem: Problem, groups: Groups | None, out: Tensor, lse: Tensor, d_out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of `qkv`, and of μ, σ, W and b one after the other."""
    d_qkv, delta = torch.empty_like(problem.qkv), torch.empty_like(lse)
    partial = launch_queries(problem, groups, out, lse, d_out, delta, d_qkv)
    launch_keys(problem, groups, lse, d_out, delta, d_qkv)
    return d_qkv, launch_sums(problem, partial)


def launch_queries(
    problem: Problem, groups: Groups | None, out: Tensor, lse: Tensor, d_out: Tensor,
    delta: Tensor, d_qkv: Tensor,
) -> Tensor:  # fmt: skip
    """Fills `delta` and the queries' part of `d_qkv`; the programs' sums for the bias are (H,
    programs of a head, 3G + 1)."""
    tiling = problem.tiling("queries", groups)
    tiles = -(-problem.longest // tiling.queries)
    count = tiles * problem.subgraphs
    partial = torch.empty(
        (problem.heads, count, 3 * problem.kernels + 1), dtype=torch.float32, device=lse.device
    )
    root, factor = problem.factors()
    numbers = *problem.sizes(tiles), count, root, factor, 1.0 / root, *problem.draws()
    readers = (
        tiles_of(problem.qkv, problem.rows, tiling.keys),
        groups and tiles_of(problem.qkv, problem.rows, tiling.walk),
        groups and groups.reader(groups.shares, tiling.walk),
        groups and groups.reader(groups.factors, tiling.walk),
    )
    tensors = problem.tensors(groups)
    arguments = (*readers, *tensors, out, lse, d_out, delta, d_qkv, partial, *numbers)
    start(
        queries_kernel,
        count * problem.heads,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:4],
    )
    return partial


def launch_keys(
    problem: Problem, groups: Groups | None, lse: Tensor, d_out: Tensor, delta: Tensor,
    d_qkv: Tensor,
) -> None:  # fmt: skip
    """Fills the keys' and values' part of `d_qkv`."""
    tiling = problem.tiling("keys", groups)
    tiles = -(-problem.longest // tiling.keys)
    root, factor = problem.factors()
    numbers = *problem.sizes(tiles), root, factor, 1.0 / root, *problem.draws()
    readers = (
        tiles_of(problem.qkv, problem.rows, tiling.queries),
        tiles_of(d_out, problem.rows, tiling.queries),
        groups and tiles_of(problem.qkv, problem.rows, tiling.walk),
        groups and tiles_of(d_out, problem.rows, tiling.walk),
        groups and groups.reader(groups.shares, tiling.walk),
    )
    arguments = (*readers, *problem.tensors(groups), lse, delta, d_qkv, *numbers)
    start(
        keys_kernel,
        tiles * problem.subgraphs * problem.heads,
        problem,
        arguments,
        problem.constants(tiling),
        *tiling[2:4],
    )


def launch_sums(problem: Problem, partial: Tensor) -> Tensor:
    """The gradients of μ, σ, W and b, one after the other."""
    heads, kernels = problem.heads, problem.kernels
    gradient = torch.empty(
        (heads + 2) * kernels + (heads if kernels else 0),
        dtype=torch.float32,
        device=partial.device,
    )
    if kernels:
        sizes = {"H": heads, "G": kernels, "WIDE": triton.next_power_of_2(kernels)}
        arguments = add_programs(partial), problem.sigma, problem.gain, gradient
        start(sums_kernel, 1, problem, arguments, sizes, warps=1)
    return gradient
