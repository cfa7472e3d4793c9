"""Sums of rows in a fixed order: the same bits every time, on a GPU too.

PyTorch's own scatters, and its gradients of gathers, add with atomics on CUDA, in another order
each time. Here each operation is given the sums of its gradient too, and every row is one sum in
one order:

    Segments   the summands of each row, behind each other, with their weights
    Messages   what rows receive along foreign keys; no message is ever written to memory
    Index      for each item its row: `take` reads rows, `total` sums items, each the other's
               gradient; `mean` and `softmax_among` follow from them. Items can be fillers, which
               count nowhere and get no gradient

Packed batches are summed by PyTorch's `embedding_bag`, batches of fixed shapes, whose numbers have
32 bits, on CUDA by a Triton kernel (`nn/kernels/segments.py`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Segments:
    """The summands of each of R rows.

    Attributes:
        other: (S,) which row of x each summand is.
        start: (R,) the first summand of each row, ascending from 0.
        end: (R,) behind its last. Summands between the end of a row and the start of the next have
            weight 0.
        weight: (S,) factors; None for 1.
    """

    other: Tensor
    start: Tensor
    end: Tensor
    weight: Tensor | None = None

    @classmethod
    def by_row(
        cls, row: Tensor, other: Tensor, rows: int, weight: Tensor | None = None
    ) -> "Segments":
        """Summands (S,) sorted by their row (S,); those of one row keep their order."""
        order = torch.argsort(row, stable=True)
        borders = torch.searchsorted(row[order], torch.arange(rows + 1, device=row.device))
        sorted_weight = None if weight is None else weight[order]
        return cls(other[order], borders[:-1], borders[1:], sorted_weight)

    def sum(self, x: Tensor) -> Tensor:
        """Σ weight · x[other] of each row: (X, d) → (R, d). It has no gradient of its own."""
        if not len(self.other) or not len(self.start):
            return x.new_zeros(len(self.start), x.shape[1])
        if x.is_cuda and self.other.dtype == torch.int32:
            from gelgt.nn.kernels.segments import launch_segment_sum  # imports Triton

            assert self.weight is not None
            return launch_segment_sum(x.contiguous(), self.other, self.weight, self.start, self.end)
        weight = None if self.weight is None else self.weight.to(x.dtype)
        return functional.embedding_bag(
            self.other, x.contiguous(), self.start, mode="sum", per_sample_weights=weight
        )

    def sum_at(self, x: Tensor, rows: Tensor) -> Tensor:
        """The same of some rows (n,) alone: (X, d) → (n, d)."""
        if not x.is_cuda or self.other.dtype != torch.int32:
            return self.sum(x).index_select(0, rows)
        start, end = self.start.index_select(0, rows), self.end.index_select(0, rows)
        return replace(self, start=start, end=end).sum(x)


@dataclass(frozen=True)
class Messages:
    """Messages among rows: those that a row receives, for the forward pass, and those that it
    sends, for the backward pass."""

    received: Segments
    sent: Segments

    def total(self, x: Tensor) -> Tensor:
        """What each row receives: (T, d) → (T, d)."""
        out: Tensor = _Received.apply(x, self)  # type: ignore[no-untyped-call]
        return out


class _Received(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, messages: Messages) -> Tensor:
        ctx.sent = messages.sent
        return messages.received.sum(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.sent.sum(gradient), None


@dataclass(frozen=True)
class Index:
    """For each of n items, one of R rows.

    Attributes:
        rows: (n,) the row of each item; of a filler any row.
        items: The items of each row.
        is_item: (n,) which items are no fillers; None if all.
    """

    rows: Tensor
    items: Segments
    is_item: Tensor | None = None

    @classmethod
    def of(cls, rows: Tensor, size: int, is_item: Tensor | None = None) -> "Index":
        """Items of `size` rows."""
        if not len(rows):  # most relations are absent from most batches: nothing to launch on a GPU
            none = rows.new_zeros(size)
            return cls(rows, Segments(rows, none, none))
        if is_item is not None:
            return cls(rows, _real_items(rows, size, is_item), is_item)
        return cls(rows, Segments.by_row(rows, torch.arange(len(rows), device=rows.device), size))

    @property
    def size(self) -> int:
        """R."""
        return len(self.items.start)

    @cached_property
    def counts(self) -> Tensor:
        """(R,) items of each row."""
        start, end, weight = self.items.start, self.items.end, self.items.weight
        if weight is None:
            return end - start
        before = functional.pad((weight != 0).cumsum(0, dtype=torch.int32), (1, 0))
        return before.index_select(0, end) - before.index_select(0, start)

    @cached_property
    def is_filler(self) -> Tensor | None:
        """(n, 1) which items are fillers; None if none are."""
        return None if self.is_item is None else ~self.is_item[:, None]

    @cached_property
    def is_empty(self) -> Tensor:
        """(R, 1) which rows have no items."""
        return (self.counts == 0)[:, None]

    @cached_property
    def divisor(self) -> Tensor:
        """(R, 1) what a sum of each row's items is divided by for the mean."""
        return self.counts.clamp(min=1)[:, None].to(torch.float32)


def _real_items(rows: Tensor, size: int, is_item: Tensor) -> Segments:
    """The items of each row, fillers behind the last."""
    row = torch.where(is_item, rows, size)
    order = torch.argsort(row, stable=True)
    places = torch.arange(size + 1, dtype=row.dtype, device=row.device)
    borders = torch.searchsorted(row[order], places).to(rows.dtype)
    weight = is_item[order].to(torch.float32)
    return Segments(order.to(rows.dtype), borders[:-1], borders[1:], weight)


def take(x: Tensor, index: Index) -> Tensor:
    """The row of each item: (R, d) → (n, d)."""
    out: Tensor = _Take.apply(x, index)  # type: ignore[no-untyped-call]
    return out


def total(items: Tensor, index: Index) -> Tensor:
    """The sum of each row's items: (n, d) → (R, d)."""
    out: Tensor = _Total.apply(items, index)  # type: ignore[no-untyped-call]
    return out


def mean(items: Tensor, index: Index) -> Tensor:
    """The mean of each row's items, 0 where there are none: (n, d) → (R, d)."""
    return total(items, index) / index.divisor.to(items.dtype)


def softmax_among(scores: Tensor, index: Index) -> Tensor:
    """Softmax of scores among the items of each row: (n, H) → (n, H), in float32."""
    scores = scores.float()
    is_item = None if index.is_item is None else index.is_item[:, None]
    if is_item is not None:
        scores = torch.where(is_item, scores, -torch.inf)
    largest = scores.new_full((index.size, scores.shape[1]), -torch.inf)
    place = index.rows.long()[:, None].expand_as(scores)
    # no order changes a maximum
    largest = largest.scatter_reduce(0, place, scores.detach(), "amax").index_select(0, index.rows)
    if is_item is None:
        weights = (scores - largest).exp()
        return weights / take(total(weights, index), index)
    # a row may have fillers alone: neither ∞ - ∞ nor 0 / 0
    weights = (scores - torch.where(is_item, largest, 0.0)).exp()
    return weights / torch.where(is_item, take(total(weights, index), index), 1.0)


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Index) -> Tensor:
        ctx.items = index.items
        return x.index_select(0, index.rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.items.sum(gradient), None


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, items: Tensor, index: Index) -> Tensor:
        ctx.rows, ctx.is_filler = index.rows, index.is_filler
        return index.items.sum(items)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        of_items = gradient.index_select(0, ctx.rows)
        if ctx.is_filler is not None:
            of_items.masked_fill_(ctx.is_filler, 0.0)
        return of_items, None


def take_once(x: Tensor, index: Tensor, place: Tensor, is_taken: Tensor | None = None) -> Tensor:
    """x[index], where a row is taken once at most, so that the gradient is a gather again: (X, d),
    (R,) → (R, d).

    Args:
        place: (X,) to which place a row is taken.
        is_taken: (X,) whether it is; others have no gradient. None: all are.
    """
    out: Tensor = _TakeOnce.apply(x, index, place, is_taken)  # type: ignore[no-untyped-call]
    return out


class _TakeOnce(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, index: Tensor, place: Tensor, is_taken: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(place, is_taken)
        return x.index_select(0, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        place, is_taken = ctx.saved_tensors
        if is_taken is None:
            return gradient.index_select(0, place), None, None, None
        last = gradient.shape[0] - 1
        taken = gradient.index_select(0, place.clamp(0, last))
        return torch.where(is_taken[:, None], taken, 0.0), None, None, None
