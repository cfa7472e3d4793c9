"""Rows by table and foreign keys by relation, for models with weights of their own for each.

    Blocks          the rows of each table behind each other, and back
    DirectedEdges   the keys of one relation, from child to parent or from parent to child
    Links           the keys of all relations in both directions

Each is made from packed rows here, and from batches of fixed shapes in `nn/static/blocks.py`, where
every block and every relation has room of its own and fillers stand behind the real rows and keys.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gelgt.nn.sums import Index, take_once


@dataclass(frozen=True)
class Blocks:
    """T rows taken apart by table.

    Attributes:
        order: (R,) the place among the T rows of each row of each block, block by block.
        sizes: Rows of each block; possibly none.
        joined: (T,) the place of each row when all blocks are laid behind each other.
        is_row: (T,) which rows lie in a block; None if all.
        is_filled: (R,) which places of blocks hold a row; None if all.
    """

    order: Tensor
    sizes: list[int]
    joined: Tensor
    is_row: Tensor | None = None
    is_filled: Tensor | None = None

    @classmethod
    def of(cls, table: Tensor, tables: int) -> "Blocks":
        """Of packed rows, from their tables (T,)."""
        order = torch.argsort(table, stable=True)
        places = torch.arange(len(order), device=order.device)
        joined = torch.empty_like(order).index_copy_(0, order, places)
        return cls(order, torch.bincount(table, minlength=tables).tolist(), joined)

    @property
    def rows(self) -> list[Tensor]:
        """For each table the places of its rows."""
        return list(torch.split(self.order, self.sizes))

    def by_table(self, h: Tensor) -> Tensor:
        """(T, d) → (R, d)."""
        return take_once(h, self.order, self.joined, self.is_row)

    def by_row(self, x: Tensor) -> Tensor:
        """(R, d) → (T, d)."""
        return take_once(x, self.joined, self.order, self.is_filled)

    def split(self, h: Tensor) -> list[Tensor]:
        """(T, d) → for each table (rows, d)."""
        return list(torch.split(self.by_table(h), self.sizes))

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """For each table (rows, d) → (T, d)."""
        return self.by_row(torch.cat(list(parts)))

    def read(self, values: Tensor) -> list[Tensor]:
        """Values without a gradient: (T,) → for each table (rows,)."""
        return list(torch.split(values.index_select(0, self.order), self.sizes))


@dataclass(frozen=True)
class DirectedEdges:
    """The edges of one relation in one direction.

    Attributes:
        source, target: Table numbers.
        sent, received: For each edge its source and its target, as places in the blocks of those
            tables.
    """

    source: int
    target: int
    sent: Index
    received: Index

    def __len__(self) -> int:
        return len(self.sent.rows)


@dataclass(frozen=True)
class Links:
    """n foreign keys among T rows, each in both directions.

    Attributes:
        source, target: For each its two ends.
        kind: (n,) 2 r for relation r from child to parent, 2 r + 1 from parent to child; None where
            that was not asked for.
    """

    source: Index
    target: Index
    kind: Tensor | None

    @classmethod
    def of(cls, edges: Tensor, relation: Tensor, rows: int) -> "Links":
        """Of packed rows: (2, E) child and parent, (E,) relations."""
        source, target = torch.cat([edges, edges.flip(0)], dim=1)
        kind = torch.cat([2 * relation, 2 * relation + 1])
        return cls(Index.of(source, rows), Index.of(target, rows), kind)

    def shares(self) -> Tensor:
        """(n,) 1/√(degree · degree) of each."""
        degree = self.target.counts.clamp(min=1).float()
        ends = (degree.index_select(0, index.rows) for index in (self.source, self.target))
        return torch.mul(*ends).rsqrt()

    def is_nearer(self, hop: Tensor) -> Tensor:
        """(T,) which rows have a link to one that is nearer to the seed."""
        source, target = (hop.index_select(0, index.rows) for index in (self.source, self.target))
        nearer = (source < target).to(torch.float32)[:, None]
        return self.target.items.sum(nearer).squeeze(1) > 0


def packed_directions(
    table: Tensor,
    keys: tuple[Tensor, Tensor],
    blocks: Blocks,
    pairs: Sequence[tuple[int, int]],
) -> list[DirectedEdges]:
    """The edges of each direction among packed rows; some have none.

    Args:
        table: (T,) of the rows.
        keys: (2, E) child and parent, and (E,) relations.
        pairs: Source and target table of each direction, in the order of `direction_tables`.
    """
    edges, relation = keys
    ends = torch.bincount(table, minlength=len(blocks.sizes)).cumsum(0)
    starts = torch.cat([ends.new_zeros(1), ends[:-1]])
    place = blocks.joined - starts[table]  # of a row in the block of its table
    order = torch.argsort(relation, stable=True)
    sizes = torch.bincount(relation, minlength=len(pairs) // 2).tolist()
    child, parent = (torch.split(places, sizes) for places in place[edges[:, order]])
    directions = []
    for number, (source, target) in enumerate(pairs):
        both = (child[number // 2], parent[number // 2])
        sent, received = both if number % 2 == 0 else both[::-1]
        directions.append(
            DirectedEdges(
                source,
                target,
                Index.of(sent, blocks.sizes[source]),
                Index.of(received, blocks.sizes[target]),
            )
        )
    return directions
