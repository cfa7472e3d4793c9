"""How the columns network reads a number: by the pieces between quantiles that lie below it, by its
place among them, and by whether it is missing.

    numbers = Σ_p share_p · pieces_p + scaled place · scaled + is missing · missing + offset

A share is 1 where the piece lies below the value, 0 where it lies above, and in between how far the
value is into it. Only one piece of a value has such a share, so on a CPU, where 24 products a value
would cost more than the layers behind them, the whole pieces come from a running sum, in compiled
loops (`pieces_loops.py`). Elsewhere it is PyTorch's own operations.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gelgt.nn.history import MOST, QUANTILES, normal_places

PIECES = 24  # of each column


class PieceWeights(NamedTuple):
    """What is learned of F columns, E numbers for each: (F, PIECES, E) of the pieces, and (F, E) of
    the scaled place, of a missing value, and of any."""

    pieces: Tensor
    scaled: Tensor
    missing: Tensor
    offset: Tensor


def piece_numbers(
    values: Tensor, edges: Tensor, weights: PieceWeights, kept: Tensor | None = None
) -> Tensor:
    """(B, F, E) numbers of values.

    Args:
        values: (B, F), NaN where there is none.
        edges: (F, QUANTILES) ascending.
        weights: What is learned.
        kept: (B, F) factors of a dropout of columns; None for none.
    """
    compute = looped_numbers if values.device.type == "cpu" else plain_numbers
    return compute(values, edges, weights, kept)


def plain_numbers(
    values: Tensor, edges: Tensor, weights: PieceWeights, kept: Tensor | None
) -> Tensor:
    """The same by PyTorch's own operations."""
    is_missing = torch.isnan(values)
    there = (~is_missing).to(values.dtype)
    places = _borders(values.device)
    low, high = edges[:, places[:-1]], edges[:, places[1:]]  # (F, PIECES)
    share = ((values.nan_to_num().unsqueeze(-1) - low) / (high - low).clamp(min=1e-12)).clamp(
        0, 1
    ) * ((high > low) * there.unsqueeze(-1))
    scaled = normal_places(values, edges) * there
    numbers = (
        torch.einsum("bfp,fpe->bfe", share, weights.pieces)
        + scaled.unsqueeze(-1) * weights.scaled
        + is_missing.to(values.dtype).unsqueeze(-1) * weights.missing
        + weights.offset
    )
    return numbers if kept is None else numbers * kept.unsqueeze(-1)


def _borders(device: torch.device) -> Tensor:
    """(PIECES + 1,) the quantiles between which pieces lie."""
    return torch.linspace(0, QUANTILES - 1, PIECES + 1, device=device).round().long()


# (QUANTILES + 1,) the piece of a value, by how many quantiles are not above it
_PIECE_OF = np.clip(
    np.searchsorted(_borders(torch.device("cpu")).numpy(), np.arange(QUANTILES + 1)) - 1, 0, PIECES
)


def looped_numbers(
    values: Tensor, edges: Tensor, weights: PieceWeights, kept: Tensor | None
) -> Tensor:
    """The same in compiled loops on the host."""
    from gelgt.nn.pieces_loops import find_pieces

    if values.shape[1] != len(edges):  # loops look at no bounds
        raise RuntimeError(f"{values.shape[1]} columns for a network of {len(edges)}")
    shape, borders = values.shape, edges[:, _borders(values.device)].contiguous()
    place, share = torch.empty(shape), torch.empty(shape)
    piece = torch.empty(shape, dtype=torch.int64)
    given = (edges.contiguous(), borders, torch.from_numpy(_PIECE_OF))
    arrays = [each.numpy() for each in (values.float().contiguous(), *given, place, piece, share)]
    find_pieces(*arrays)
    # As in `normal_places`: as if the training values were normal.
    inner = 0.5 * math.erfc(MOST / math.sqrt(2))
    scaled = math.sqrt(2) * torch.erfinv(2 * place.clamp(inner, 1 - inner) - 1)
    is_whole = (borders[:, 1:] > borders[:, :-1]).unsqueeze(-1)  # (F, PIECES, 1)
    below = functional.pad(
        (weights.pieces * is_whole).cumsum(1), (0, 0, 1, 0)
    )  # (F, PIECES + 1, E)
    kept = torch.ones(shape) if kept is None else kept
    numbers: Tensor = _Numbers.apply(piece, share, scaled, kept, below, *weights)  # type: ignore[no-untyped-call]
    return numbers


class _Numbers(torch.autograd.Function):
    """The sum of what a value's piece, its share of it, its place and its absence say."""

    @staticmethod
    def forward(ctx: Any, *given: Tensor) -> Tensor:
        from gelgt.nn.pieces_loops import add_pieces

        given = tuple(each.detach().contiguous() for each in given)
        ctx.save_for_backward(*given)
        piece, offset = given[0], given[-1]
        numbers = torch.empty(*piece.shape, offset.shape[1])
        arrays = [each.numpy() for each in (*given, numbers)]
        add_pieces(*arrays)
        return numbers

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        from gelgt.nn.pieces_loops import add_slopes

        read, weights = ctx.saved_tensors[:4], ctx.saved_tensors[4:]
        slopes = [torch.zeros_like(weight) for weight in weights]
        arrays = [each.numpy() for each in (*read, gradient.contiguous(), *slopes)]
        add_slopes(*arrays)
        return None, None, None, None, *slopes
