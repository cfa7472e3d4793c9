"""`ModelInput`: a packed batch of subgraphs with the features of its rows, each distinct row once,
however often it was sampled."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch_frame import TensorFrame, stype

from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.blocks import Blocks, Links
from gelgt.nn.gnn import neighbour_messages
from gelgt.nn.layout import PackedTokens, Tokens, recency_rank
from gelgt.nn.structure import structure_noise
from gelgt.nn.sums import Index, Messages, take
from gelgt.sampling.batch import SubgraphBatch

if TYPE_CHECKING:
    from gelgt.nn.encoders import ColumnEncoders, RowEncoder

# standard deviations at which numbers are clipped: one outlier must not dominate a batch
CLIP = 10.0


@dataclass(frozen=True)
class RowFrames:
    """Features of the U distinct rows of a batch, and versions of rows (`read_nodes`).

    Attributes:
        inverse: (T,) which distinct row each packed row is.
        places: For each table, the distinct rows that are its own.
        frames: For each table, the features of those rows, in that order.
    """

    inverse: Tensor
    places: Mapping[str, Tensor]
    frames: Mapping[str, TensorFrame]

    @property
    def num_rows(self) -> int:
        return sum(len(p) for p in self.places.values())

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "RowFrames":
        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=non_blocking)

        frames = {
            name: frame.to(device, non_blocking=non_blocking) for name, frame in self.frames.items()
        }
        return RowFrames(
            move(self.inverse), {name: move(p) for name, p in self.places.items()}, frames
        )


@dataclass(frozen=True)
class ModelInput:
    """A batch of subgraphs with the features of its rows, and the aggregates (B, F) of its seeds
    where a model wants them: `gelgt.nn.layout.Rows` of the packed layout."""

    batch: SubgraphBatch
    rows: RowFrames
    history: Tensor | None = None

    @classmethod
    def of(
        cls,
        batch: SubgraphBatch,
        features: Features,
        hide: Mapping[str, Iterable[str]] | None = None,
        history: Tensor | None = None,
    ) -> "ModelInput":
        """A batch with its features.

        Args:
            hide: For each table, columns that the task must not see.
            history: (S, F) aggregates of all the seeds that the batch is taken from.
        """
        hidden = {table: tuple(columns) for table, columns in (hide or {}).items()}
        return cls(
            batch,
            collect_rows(batch, features, hidden),
            None if history is None else history[batch.index],
        )

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "ModelInput":
        history = (
            None if self.history is None else self.history.to(device, non_blocking=non_blocking)
        )
        return ModelInput(
            self.batch.to(device, non_blocking), self.rows.to(device, non_blocking), history
        )

    @cached_property
    def packed(self) -> SubgraphBatch:
        """The batch without padding."""
        return self.batch.to_packed()

    @property
    def table(self) -> Tensor:
        return self.packed.table

    @property
    def hop(self) -> Tensor:
        return self.packed.hop

    @property
    def age(self) -> Tensor:
        return self.packed.age

    @property
    def has_time(self) -> Tensor:
        return self.packed.has_time

    @cached_property
    def subgraph(self) -> Tensor:
        return self.packed.batch

    @property
    def is_seed(self) -> None:
        return None

    def look_up(self, embedding: nn.Embedding, index: Tensor) -> Tensor:
        out: Tensor = embedding(index)
        return out

    def encoded(self, encoder: "RowEncoder") -> Tensor:
        return take(encoder(self.rows), Index.of(self.rows.inverse, self.rows.num_rows))

    def recency(self) -> Tensor:
        return recency_rank(self.age, self.table, self.subgraph)

    def noise(self, width: int, seed: int) -> Tensor:
        batch, subgraph = self.packed, self.subgraph
        place = torch.arange(len(subgraph), device=subgraph.device) - batch.offsets[subgraph]
        return structure_noise(batch.seed_key, batch.seed_time, place, subgraph, width, seed)

    def neighbours(self) -> Messages:
        return neighbour_messages(self.packed.edge_index, len(self.table))

    def normalise(self, norm: nn.Module, x: Tensor) -> Tensor:
        out: Tensor = norm(x)
        return out

    def blocks(self, tables: int) -> Blocks:
        return Blocks.of(self.table, tables)

    def links(self) -> Links:
        batch = self.packed
        return Links.of(batch.edge_index, batch.edge_relation, len(self.table))

    def cells(self, encoders: "ColumnEncoders") -> list[Tensor | None]:
        frames = self.rows.frames
        return [
            encoder(frames[name])[0] if name in frames else None
            for name, encoder in zip(encoders.names, encoders.columns)
        ]

    def distinct(self, tokens: Tokens, blocks: Blocks) -> list[Index | None]:
        assert isinstance(tokens, PackedTokens)
        assert tokens.distinct is not None
        found: list[Index | None] = []
        for name, places in zip(self.batch.graph.tables, blocks.read(tokens.distinct)):
            own = self.rows.places.get(name)
            found.append(None if own is None else Index.of(places - own[0], len(own)))
        return found

    def tokens(self, h: Tensor) -> PackedTokens:
        batch = self.packed
        return PackedTokens(
            h=h,
            age=batch.age,
            has_time=batch.has_time,
            offsets=batch.offsets,
            hop=batch.hop,
            table=batch.table,
            node=batch.node,
            edges=batch.edge_index,
            relation=batch.edge_relation,
            distinct=self.rows.inverse,
        )


def row_offsets(graph: Graph, features: Features) -> NDArray[np.int64]:
    """(tables + 1,) where each table begins if its rows and their versions are numbered one after
    the other, as nodes are."""
    offsets: NDArray[np.int64] = np.cumsum([0, *map(features.size, graph.tables)])
    return offsets


def read_nodes(batch: SubgraphBatch, features: Features) -> NDArray[np.int64]:
    """(T,) what each packed row shows its seed, in the numbering of `row_offsets`: the row, or a
    version of it from before a date that lies ahead (`features/versions.py`)."""
    packed, graph = batch.to_packed(), batch.graph
    node: NDArray[np.int64] = packed.node.numpy()
    dated = [n for n, name in enumerate(graph.tables) if features.versions(name) is not None]
    if not dated:
        return node
    table = packed.table.numpy()
    limits = np.repeat(packed.limit.numpy(), packed.lengths.numpy())
    row, offsets = node - graph.offsets[table], row_offsets(graph, features)
    for number in dated:
        mine = np.flatnonzero(table == number)
        row[mine] = features.rows_at(graph.tables[number], row[mine], limits[mine])
    read: NDArray[np.int64] = row + offsets[table]
    return read


def collect_rows(
    batch: SubgraphBatch, features: Features, hide: Mapping[str, Collection[str]] | None = None
) -> RowFrames:
    """Slice the features of a batch's rows.

    Args:
        hide: For each table, columns that the task must not see.
    """
    offsets, tables = row_offsets(batch.graph, features), batch.graph.tables
    # sorted, so the rows of a table lie together
    distinct, inverse = np.unique(read_nodes(batch, features), return_inverse=True)
    borders = np.searchsorted(distinct, offsets)
    places, frames = {}, {}
    for number, name in enumerate(tables):
        start, stop = int(borders[number]), int(borders[number + 1])
        if start < stop:
            places[name] = torch.arange(start, stop)
            frames[name] = row_frame(
                features, name, distinct[start:stop] - offsets[number], (hide or {}).get(name, ())
            )
    return RowFrames(torch.from_numpy(inverse.astype(np.int64)), places, frames)


def row_frame(
    features: Features, table: str, rows: NDArray[np.int64], hidden: Collection[str]
) -> TensorFrame:
    """The features of some rows of a table as the row encoder takes them, outliers clipped."""
    return _clipped(features.frame(table, rows, hidden), _limits(features, table, hidden))


def _limits(
    features: Features, table: str, hidden: Collection[str]
) -> Callable[[list[str]], tuple[Tensor, Tensor]]:
    from torch_frame.data.stats import StatType

    stats = features.col_stats(table, hidden)

    def of(columns: list[str]) -> tuple[Tensor, Tensor]:
        mean = torch.tensor([float(stats[c][StatType.MEAN]) for c in columns], dtype=torch.float32)
        spread = torch.tensor([float(stats[c][StatType.STD]) for c in columns], dtype=torch.float32)
        return mean - CLIP * spread, mean + CLIP * spread

    return of


def _clipped(
    frame: TensorFrame, limits: Callable[[list[str]], tuple[Tensor, Tensor]]
) -> TensorFrame:
    if stype.numerical in frame.feat_dict:
        low, high = limits(frame.col_names_dict[stype.numerical])
        finite = torch.isfinite(low) & torch.isfinite(high)
        values = frame.feat_dict[stype.numerical]
        frame.feat_dict[stype.numerical] = torch.where(
            finite, values.clamp(low.nan_to_num(), high.nan_to_num()), values
        )
    return frame
