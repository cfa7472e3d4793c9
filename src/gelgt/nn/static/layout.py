"""`StaticRows` and `StaticTokens`: rows in fixed shapes (`nn/layout.py` says what they are for).

Every size comes from the shape, every choice from a mask. Rows that refinement drops and filler
rows stand behind the kept ones; fused attention gives them spans of their own, so that every row of
every tensor is written and finite, and their gradients are 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.nn.blocks import Blocks, DirectedEdges, Links
from gelgt.nn.encoders import ColumnEncoders, RowEncoder
from gelgt.nn.layout import Tokens, recency_rank
from gelgt.nn.precision import low_type
from gelgt.nn.refinement import refine, semantic_scores
from gelgt.nn.static.blocks import static_blocks, static_directions, static_links
from gelgt.nn.static.cells import TableCells, encode_columns
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.ops import Moved, look_up, move_running
from gelgt.nn.static.rows import encode_rows, one_norm
from gelgt.nn.structure import structure_noise
from gelgt.nn.sums import Index, Messages, Segments, take, take_once


class StaticRows:
    """The sampled rows of a packed batch.

    Args:
        parts: The batch on its device.
        cells: The features of every table on the same device.
        budget: Rows of the longest subgraph.
    """

    def __init__(self, parts: StaticInput, cells: Sequence[TableCells], budget: int) -> None:
        self.parts, self.cells_of, self.budget = parts, cells, budget
        self.table, self.hop, self.subgraph = parts.table, parts.hop, parts.subgraph
        self.age, self.has_time, self.history = parts.age, parts.has_time, parts.history
        self._moved: list[Moved] = []

    @property
    def is_seed(self) -> Tensor:
        return self.parts.is_seed

    @property
    def _distinct_rows(self) -> Sequence[Tensor]:
        """For each table the numbers of its distinct rows (U,)."""
        return torch.split(self.parts.cells, list(self.parts.shape.tables))

    def look_up(self, embedding: nn.Embedding, index: Tensor) -> Tensor:
        return look_up(embedding, index)

    def encoded(self, encoder: RowEncoder) -> Tensor:
        parts, shape = self.parts, self.parts.shape
        rows = [part for part in self._distinct_rows if len(part)]
        counts = torch.stack([parts.table_rows[number] for number in shape.present])
        distinct = encode_rows(encoder, self.cells_of, shape.present, rows, counts, self._moved)
        starts, is_row = parts.used_starts, parts.is_row.to(torch.float32)
        used = Segments(parts.used, starts[:-1], starts[1:], is_row)
        return take(distinct.flatten(0, 1), Index(parts.source, used))

    def recency(self) -> Tensor:
        parts = self.parts
        if not parts.age.is_cuda:
            return recency_rank(parts.age, parts.table, parts.subgraph)
        from gelgt.nn.kernels.ranks import launch_recency  # imports Triton

        return launch_recency(parts.age, parts.table, parts.offsets, self.budget)

    def noise(self, width: int, seed: int) -> Tensor:
        parts = self.parts
        keys = parts.seed_key, parts.seed_time
        if parts.age.is_cuda:
            from gelgt.nn.kernels.noise import launch_noise  # imports Triton

            # ±1 is exact in any precision
            dtype = low_type(parts.age) or torch.float32
            return launch_noise(*keys, parts.offsets, parts.subgraph, width, seed, dtype)
        subgraph = parts.subgraph.clamp(max=parts.shape.seeds - 1)
        place = torch.arange(parts.shape.rows, device=subgraph.device) - parts.offsets[subgraph]
        return structure_noise(*keys, place, subgraph, width, seed)

    def neighbours(self) -> Messages:
        parts = self.parts
        weight = parts.is_message.to(torch.float32)
        segments = Segments(parts.other, parts.starts[:-1], parts.starts[1:], weight)
        return Messages(segments, segments)

    def normalise(self, norm: nn.Module, x: Tensor) -> Tensor:
        return one_norm(norm, x, self.parts.num_rows, self._moved)

    def blocks(self, tables: int) -> Blocks:
        return static_blocks(self.parts)

    def links(self) -> Links:
        return static_links(self.parts)

    def cells(self, encoders: ColumnEncoders) -> list[Tensor | None]:
        tables = zip(encoders.columns, self.cells_of, self._distinct_rows)
        return [
            encode_columns(encoder, cells, rows) if len(rows) else None
            for encoder, cells, rows in tables
        ]

    def distinct(self, tokens: Tokens, blocks: Blocks) -> list[Index | None]:
        shape, order = self.parts.shape, self.parts.extras["block_rows"]
        sources = torch.split(self.parts.source.index_select(0, order), list(shape.blocks))
        is_filled = torch.split(order < self.parts.num_rows, list(shape.blocks))
        found: list[Index | None] = [None] * len(shape.tables)
        for place, number in enumerate(shape.present):
            rows = (sources[number] - place * shape.height).clamp(min=0)
            found[number] = Index.of(rows, shape.tables[number], is_filled[number])
        return found

    def tokens(self, h: Tensor) -> "StaticTokens":
        parts = self.parts
        return StaticTokens(
            h, parts.age, parts.has_time, parts.offsets, parts, parts.subgraph, self.budget
        )

    def move_running_statistics(self) -> None:
        """Move the running statistics of batch norms towards those of this batch, all at once."""
        move_running(self._moved)
        self._moved.clear()


class Selection(NamedTuple):
    """The rows that refinement keeps.

    Attributes:
        is_kept: (T,) which rows.
        place: (T,) where a kept row goes.
        source: (T',) the row of each place; behind the kept ones the last row, a filler.
    """

    is_kept: Tensor
    place: Tensor
    source: Tensor


@dataclass(frozen=True)
class StaticTokens(Tokens):
    """Rows of a packed batch with their vectors.

    Attributes:
        parts: The batch.
        subgraph: (T,) the subgraph of each row; B for filler rows and rows that were dropped.
        limit: N, rows that a subgraph has at most.
        selection: The rows that refinement has kept; None before.
    """

    parts: StaticInput
    subgraph: Tensor
    limit: int
    selection: Selection | None = None

    def refined(self, keep: int | None) -> "StaticTokens":
        """The rows that refinement keeps, in front; behind them the last row, again and again."""
        if keep is None or keep >= self.limit:
            return self
        selection = self._select(keep)
        age, has_time, subgraph = (
            values.index_select(0, selection.source)
            for values in (self.age, self.has_time, self.subgraph)
        )
        return replace(
            self,
            h=take_once(self.h, selection.source, selection.place, selection.is_kept),
            age=age,
            has_time=has_time,
            subgraph=subgraph,
            offsets=self.parts.refined_offsets,
            limit=keep,
            selection=selection,
        )

    @torch.no_grad()
    def _select(self, keep: int) -> Selection:
        shape, subgraph, device = self.parts.shape, self.subgraph, self.h.device
        if self.h.is_cuda:
            from gelgt.nn.kernels.ranks import launch_kept, launch_scores  # imports Triton

            scores = launch_scores(self.h.contiguous(), self.offsets, self.limit)
            is_kept = launch_kept(scores, self.parts.hop, self.offsets, self.limit, keep)
        else:
            near = subgraph.clamp(max=shape.seeds - 1)
            scores = semantic_scores(self.h, self.offsets, near)
            is_kept = refine(scores, self.parts.hop, self.offsets, subgraph, keep)
            is_kept = is_kept & (subgraph < shape.seeds)
        place = is_kept.cumsum(0) - 1
        target = torch.where(is_kept, place, shape.refined)
        source = torch.full((shape.refined + 1,), shape.rows - 1, device=device)
        source = source.scatter_(0, target, torch.arange(shape.rows, device=device))[:-1]
        return Selection(is_kept, place, source)

    def messages(self, mean: Literal["all", "relation"]) -> Messages:
        """Averaged messages. Whether by relation was decided when the batch was packed."""
        parts, other = self.parts, self.parts.other
        start, end, is_inside = parts.starts[:-1], parts.starts[1:], parts.is_message
        if self.selection is not None:
            # Kept rows keep their order, and so do their messages.
            is_kept, place, source = self.selection
            to_kept, from_kept = (is_kept.index_select(0, ends) for ends in (parts.row, other))
            is_inside = is_inside & to_kept & from_kept
            other = place.index_select(0, other).clamp(min=0).to(torch.int32)
            start, end = start.index_select(0, source), end.index_select(0, source)
        received, sent = run_means(is_inside, parts.run_start, parts.run_end, parts.reverse)
        return Messages(Segments(other, start, end, received), Segments(other, start, end, sent))

    def blocks(self, tables: int) -> Blocks:
        return static_blocks(self.parts, self.selection)

    def directions(self, blocks: Blocks, pairs: Sequence[tuple[int, int]]) -> list[DirectedEdges]:
        return static_directions(self.parts, blocks, self.selection is not None)

    def links(self) -> Links:
        return static_links(self.parts, self.selection)

    def of_subgraph(self, values: Tensor) -> Tensor:
        return values.index_select(0, self.subgraph.clamp(max=len(values) - 1))

    def laplacian(self, width: int) -> Tensor:
        assert self.selection is None  # they were computed with all sampled rows
        return self.parts.extras["positions"].view(torch.float32).view(-1, width)

    @cached_property
    def mask(self) -> Tensor:
        # a filler seed has one row, so that nothing is divided by 0
        lengths = (self.offsets[1:] - self.offsets[:-1]).clamp(min=1)
        return torch.arange(self.longest, device=lengths.device) < lengths[:, None]

    @cached_property
    def _padded_index(self) -> Tensor:
        """(B · N,) the row of each place of the rectangle."""
        places = torch.arange(self.longest, device=self.h.device)
        return (self.offsets[:-1, None] + places).clamp(max=len(self.age) - 1).flatten()

    @property
    def _padded_place(self) -> Tensor:
        """(T,) the place of each row in the rectangle; beyond it for rows that are none."""
        rows = torch.arange(len(self.age), device=self.h.device)
        return self.subgraph * self.longest + rows - self.offsets[self.subgraph]

    def padded(self, x: Tensor) -> Tensor:
        seeds = len(self.offsets) - 1
        out = take_once(x, self._padded_index, self._padded_place, self.subgraph < seeds)
        return out.view(seeds, self.longest, -1)

    def unpadded(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        place = self._padded_place.clamp(max=len(flat) - 1)
        return take_once(flat, place, self._padded_index, self.mask.flatten())

    def padded_times(self) -> tuple[Tensor, Tensor]:
        age, has_time = (
            values.index_select(0, self._padded_index).view(self.mask.shape)
            for values in (self.age, self.has_time)
        )
        return age, has_time & self.mask

    @property
    def spans(self) -> Tensor:
        """The subgraphs, and spans for filler rows and rows that were dropped."""
        rows, offsets = len(self.age), self.offsets.long()  # as packed batches have them
        more = torch.arange(1, -(-rows // self.longest) + 1, device=offsets.device) * self.longest
        return torch.cat([offsets, (offsets[-1] + more).clamp(max=rows)])

    @property
    def longest(self) -> int:
        return self.limit


def run_means(
    is_inside: Tensor, run_start: Tensor, run_end: Tensor, reverse: Tensor
) -> tuple[Tensor, Tensor]:
    """Weights of messages whose runs are averaged, those outside left out: as received, and as
    sent. All (S,)."""
    before = functional.pad(is_inside.to(torch.int32).cumsum(0, dtype=torch.int32), (1, 0))
    count = before.index_select(0, run_end) - before.index_select(0, run_start)
    received = torch.where(is_inside, 1.0 / count.clamp(min=1), 0.0)
    return received, received.index_select(0, reverse)
