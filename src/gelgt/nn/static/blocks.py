"""Rows by table and foreign keys by relation in fixed shapes (`nn/blocks.py` says what for).

Every table and every relation has room of its own in the buffer, where the packer has sorted them;
here they are only read. Rows that refinement drops keep their place in the block of their table,
and their keys become fillers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gelgt.nn.blocks import Blocks, DirectedEdges, Links
from gelgt.nn.static.input import StaticInput
from gelgt.nn.sums import Index, Segments

if TYPE_CHECKING:
    from gelgt.nn.static.layout import Selection


def static_blocks(parts: StaticInput, selection: "Selection | None" = None) -> Blocks:
    """The rows by table; where refinement has kept some, those."""
    order, joined = parts.extras["block_rows"], parts.extras["joined"]
    sizes, is_filled = list(parts.shape.blocks), order < parts.num_rows
    if selection is None:
        return Blocks(order, sizes, joined, parts.is_row, is_filled)
    is_kept, place, source = selection
    return Blocks(
        place.index_select(0, order).clamp(min=0),
        sizes,
        joined.index_select(0, source),
        source < parts.num_rows,  # behind the kept rows stands a filler, again and again
        is_filled & is_kept.index_select(0, order),
    )


@dataclass(frozen=True)
class _Side:
    """One end of the edges of a relation.

    Attributes:
        table: Its table.
        rows: (E',) its place in the block of that table.
        order: (E',) the edges by that place, fillers last.
        starts: (rows + 1,) where those of each row begin.
    """

    table: int
    rows: Tensor
    order: Tensor
    starts: Tensor

    def index(self, is_edge: Tensor, weight: Tensor, size: int) -> Index:
        """This end of each edge.

        Args:
            is_edge: (E',) which edges count.
            weight: (E',) 1 or 0, in the order of this side.
            size: Rows of the table.
        """
        if not len(self.rows):
            return Index.of(self.rows, size)
        segments = Segments(self.order, self.starts[:-1], self.starts[1:], weight)
        return Index(self.rows, segments, is_edge)


def static_directions(parts: StaticInput, blocks: Blocks, has_dropped: bool) -> list[DirectedEdges]:
    """The edges of each relation, from child to parent and from parent to child.

    Args:
        has_dropped: Whether refinement may have dropped rows, whose edges do not count.
    """
    rooms = list(parts.shape.relations)
    is_edges = torch.split(parts.extras["is_edge"].bool(), rooms)
    weights = torch.split(parts.extras["is_edge"].to(torch.float32), rooms)
    assert blocks.is_filled is not None
    filled = torch.split(blocks.is_filled, blocks.sizes)
    directions: list[DirectedEdges] = []
    for *sides, is_edge, weight in zip(*_sides(parts, blocks.sizes), is_edges, weights):
        indexes = []
        for side in sides if has_dropped else ():
            is_edge = is_edge & filled[side.table].index_select(0, side.rows)
        for side in sides:
            factor = weight  # fillers are the last in any order
            if has_dropped:
                factor = weight * is_edge.index_select(0, side.order)
            indexes.append(side.index(is_edge, factor, blocks.sizes[side.table]))
        (child, parent), (sent, received) = (side.table for side in sides), indexes
        directions.append(DirectedEdges(child, parent, sent, received))
        directions.append(DirectedEdges(parent, child, received, sent))
    return directions


def _sides(parts: StaticInput, sizes: Sequence[int]) -> Iterator[list[_Side]]:
    """The children of each relation, and their parents."""
    keys, extras = parts.shape.extras.keys, parts.extras
    assert keys is not None
    for tables, name in zip(zip(*keys), ("child", "parent")):
        ends = (torch.split(extras[of], list(parts.shape.relations)) for of in (name, f"by_{name}"))
        starts = torch.split(extras[f"{name}_starts"], [sizes[table] + 1 for table in tables])
        yield [_Side(*of_relation) for of_relation in zip(tables, *ends, starts)]


def static_links(parts: StaticInput, selection: "Selection | None" = None) -> Links:
    """The keys in both directions, as the messages of rows; of those that refinement keeps, in
    their new order."""
    other, row, is_link = parts.other, parts.row, parts.is_message
    start, end = parts.starts[:-1], parts.starts[1:]
    if selection is not None:
        is_kept, place, source = selection
        for ends in (row, other):
            is_link = is_link & is_kept.index_select(0, ends)
        other, row = (
            place.index_select(0, ends).clamp(min=0).to(torch.int32) for ends in (other, row)
        )
        start, end = start.index_select(0, source), end.index_select(0, source)
    weight, reverse = is_link.to(torch.float32), parts.reverse
    places = torch.arange(len(row), dtype=torch.int32, device=row.device)
    # what a row sends are the reverses of what it receives
    sent = Segments(reverse, start, end, weight)
    received = Segments(places, start, end, weight)
    return Links(
        Index(other, sent, is_link), Index(row, received, is_link), parts.extras.get("kind")
    )
