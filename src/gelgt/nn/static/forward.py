"""`StaticModel`: a `GelGTModel` over batches of fixed shapes, with the model's own parameters.

Every size comes from the shape, every choice from a mask. Rows that refinement drops and filler
rows stand behind the kept ones; fused attention gives them subgraphs of their own, so that every
row of every tensor is written and finite, and their gradients are 0.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gelgt.config import GelGTConfig, SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.attention import TimeBias, choose_backend, mask_bias
from gelgt.nn.bias import GaussianBias
from gelgt.nn.encoders import MAX_HOP, HopEncoder, RowEncoder
from gelgt.nn.model import GelGTModel
from gelgt.nn.refinement import refine, semantic_scores
from gelgt.nn.static.cells import make_cells, why_not_cells
from gelgt.nn.static.ops import Links, Moved, Segments, look_up, means, move_running, repeat, take
from gelgt.nn.static.rows import encode_rows, one_norm
from gelgt.nn.static.shape import Shape
from gelgt.nn.structure import StructureEncoder, structure_noise

MOST_ROWS = 4096  # of a subgraph; longer ones are few to a batch, and launches no longer what costs


def why_not_static(
    model: GelGTModel, sampling: SamplingConfig, features: Features, free: float
) -> str | None:
    """Why a model cannot work on fixed shapes; None if it can."""
    if sampling.strategy == "full":
        return "subgraphs without a budget have no largest size"
    if sampling.budget > MOST_ROWS:
        return f"subgraphs of up to {sampling.budget:,} rows are larger than {MOST_ROWS:,}"
    encoder = dict(model.encoders.items()).get("row")
    return why_not_cells(encoder, features, free) if isinstance(encoder, RowEncoder) else None


class StaticInput:
    """The parts of a packed batch, as tensors on its device, and the aggregates (B, F) of its
    seeds."""

    def __init__(self, shape: Shape, words: Tensor, history: Tensor | None = None) -> None:
        self.shape, self.history = shape, history
        parts = {name: words[part] for name, part in shape.parts.items()}
        self.seed_time, self.seed_key = (
            parts[name].view(torch.int64) for name in ("seed_time", "seed_key")
        )
        self.index, self.offsets, self.kept_offsets = (
            parts["index"],
            parts["offsets"],
            parts["kept_offsets"],
        )
        counts = parts["counts"]
        self.table_rows, self.num_rows, self.num_seeds = counts[:-2], counts[-2], counts[-1]
        self.table, self.hop, self.subgraph = parts["table"], parts["hop"], parts["subgraph"]
        self.age, self.has_time = parts["age"].view(torch.float32), parts["has_time"].bool()
        self.source, self.used, self.used_starts, self.cells = (
            parts["source"],
            parts["used"],
            parts["used_starts"],
            parts["cells"],
        )
        self.starts, self.row, self.other = parts["starts"], parts["row"], parts["other"]
        self.run_start, self.run_end, self.reverse = (
            parts["run_start"],
            parts["run_end"],
            parts["reverse"],
        )

    @property
    def is_row(self) -> Tensor:
        """(T,) which rows are real."""
        return torch.arange(self.shape.rows, device=self.table.device) < self.num_rows

    @property
    def is_seed(self) -> Tensor:
        """(B,) which seeds are real."""
        return torch.arange(self.shape.seeds, device=self.table.device) < self.num_seeds

    @property
    def is_message(self) -> Tensor:
        return torch.arange(self.shape.messages, device=self.table.device) < self.starts[-1]


@dataclass(frozen=True)
class StaticTokens:
    """Rows on their way through the branches: as `Tokens`, with the subgraph of each row, B for
    those that nobody reads."""

    h: Tensor
    age: Tensor
    has_time: Tensor
    subgraph: Tensor
    offsets: Tensor
    links: Links | None


class StaticModel:
    """Computes what a model computes.

    Args:
        model: Its parameters are used where they are.
        graph: For the order of its tables.
        sampling: For the largest subgraph.
        features: Are brought to the model's device once.
        hide: For each table, columns that the task must not see.
    """

    def __init__(
        self,
        model: GelGTModel,
        graph: Graph,
        sampling: SamplingConfig,
        features: Features,
        hide: Mapping[str, Collection[str]],
    ) -> None:
        self.model, self.config = model, model.config
        self.longest = longest_kept(model.config, sampling)
        self.is_refining = self.longest < sampling.budget
        encoder = dict(model.encoders.items()).get("row")
        self.cells = []
        if isinstance(encoder, RowEncoder):
            made = make_cells(encoder, features, hide, next(model.parameters()).device)
            assert encoder.names == list(graph.tables)
            self.cells = [made[name] for name in graph.tables]

    def __call__(self, inputs: StaticInput) -> Tensor:
        """Predictions (B, outputs); those of filler seeds mean nothing."""
        out: Tensor = self.model.head(self.embed(inputs))
        return out

    def embed(self, inputs: StaticInput) -> Tensor:
        """Seed vectors (B, d)."""
        model = self.model
        tokens, passed = self.branches(inputs)
        branches = []
        if model.read_out is not None:
            branches.append(model.read_out(*self.attend(tokens)))
        if passed is not None:
            branches.append(passed)
        seeds: Tensor = branches[0]
        if model.balance is not None:
            share = torch.sigmoid(model.balance)
            seeds = share * branches[0] + (1 - share) * branches[1]
        if model.history is not None and inputs.history is not None:
            seeds = seeds + model.history(inputs.history)
        return seeds if model.everyone is None else seeds + model.everyone(seeds, inputs.is_seed)

    def branches(self, inputs: StaticInput) -> tuple[StaticTokens, Tensor | None]:
        """As `GelGTModel.branches`."""
        everything = self.every_link(inputs)
        h = self.encode(inputs, everything)
        tokens = StaticTokens(
            h, inputs.age, inputs.has_time, inputs.subgraph, inputs.offsets, everything
        )
        gnn = self.model.gnn
        if gnn is None:
            return self.refined(tokens, inputs), None
        is_parallel = self.config.wiring == "parallel"
        if is_parallel:
            tokens = self.refined(tokens, inputs)
        assert tokens.links is not None
        passed = gnn(tokens.h, self.averaged(tokens.links, inputs))
        seeds = passed.index_select(0, tokens.offsets[:-1])
        return (tokens if is_parallel else self.refined(replace(tokens, h=passed), inputs)), seeds

    def every_link(self, inputs: StaticInput) -> Links:
        """All messages, each with weight 1."""
        weight = inputs.is_message.to(torch.float32)
        return Links(
            Segments(inputs.row, inputs.other, inputs.starts[:-1], inputs.starts[1:]),
            weight,
            weight,
        )

    def averaged(self, links: Links, inputs: StaticInput) -> Links:
        """The messages of weight 1, averaged."""
        received, sent = means(links.received > 0, inputs.run_start, inputs.run_end, inputs.reverse)
        return Links(links.segments, received, sent)

    # The encoders.
    def encode(self, inputs: StaticInput, links: Links) -> Tensor:
        """Tokens (T, d)."""
        parts = []
        moved: list[Moved] = []
        for name, encoder in self.model.encoders.items():
            if name == "table":
                parts.append(look_up(encoder, inputs.table))  # type: ignore[arg-type]
            elif isinstance(encoder, HopEncoder):
                parts.append(look_up(encoder.embedding, (inputs.hop + 1).clamp(max=MAX_HOP + 1)))
            elif name == "age":
                parts.append(encoder(inputs.age, inputs.has_time))
            elif name == "recency":
                parts.append(encoder(inputs.age, inputs.has_time, inputs.table, inputs.subgraph))
            elif isinstance(encoder, RowEncoder):
                parts.append(self.encode_rows(encoder, inputs, moved))
            elif isinstance(encoder, StructureEncoder):
                parts.append(self.encode_structure(encoder, inputs, links, moved))
        move_running(moved)
        out: Tensor = self.model.mixer(parts)
        return out

    def encode_rows(self, encoder: RowEncoder, inputs: StaticInput, moved: list[Moved]) -> Tensor:
        shape = inputs.shape
        rows, at = [], 0
        for room in shape.tables:
            if room:
                rows.append(inputs.cells[at : at + room])
            at += room
        counts = torch.stack([inputs.table_rows[number] for number in shape.present])
        encoded = encode_rows(encoder, self.cells, shape.present, rows, counts, moved).flatten(0, 1)
        by_row = inputs.source.index_select(0, inputs.used)
        used = Segments(by_row, inputs.used, inputs.used_starts[:-1], inputs.used_starts[1:])
        return repeat(encoded, inputs.source, used, inputs.is_row.to(torch.float32))

    def encode_structure(
        self, encoder: StructureEncoder, inputs: StaticInput, links: Links, moved: list[Moved]
    ) -> Tensor:
        config, subgraph = self.config, inputs.subgraph.clamp(max=inputs.shape.seeds - 1)
        place = torch.arange(inputs.shape.rows, device=subgraph.device) - inputs.offsets[subgraph]
        start = structure_noise(
            inputs.seed_key,
            inputs.seed_time,
            place,
            subgraph,
            config.structure_width,
            self.model.noise_seed,
        )
        return encoder.over(start, links, lambda norm, x: one_norm(norm, x, inputs.num_rows, moved))

    # Refinement.
    def refined(self, tokens: StaticTokens, inputs: StaticInput) -> StaticTokens:
        """The rows that refinement keeps, in front; behind them the last row, a filler, again and
        again."""
        if not self.is_refining:
            return tokens
        rows, size = inputs.shape.rows, inputs.shape.kept
        device = tokens.h.device
        with torch.no_grad():
            assert self.config.keep is not None
            subgraph = tokens.subgraph
            near = subgraph.clamp(max=inputs.shape.seeds - 1)
            scores = semantic_scores(tokens.h, tokens.offsets, near)
            kept = refine(scores, inputs.hop, tokens.offsets, subgraph, self.config.keep) & (
                subgraph < inputs.shape.seeds
            )
            place = kept.cumsum(0) - 1  # where a kept row goes
            to = torch.where(kept, place, size)
            index = torch.full((size + 1,), rows - 1, device=device).scatter_(
                0, to, torch.arange(rows, device=device)
            )[:-1]
        h = take(tokens.h, index, place, kept)
        age, has_time = (values.index_select(0, index) for values in (tokens.age, tokens.has_time))
        subgraph = subgraph.index_select(0, index)
        return StaticTokens(
            h,
            age,
            has_time,
            subgraph,
            inputs.kept_offsets,
            self._among(tokens.links, kept, place, index),
        )

    def _among(
        self, links: Links | None, kept: Tensor, place: Tensor, index: Tensor
    ) -> Links | None:
        """The messages between kept rows, in their new numbering; it keeps the order of rows, and
        so that of messages."""
        if links is None or self.model.gnn is None or self.config.wiring != "parallel":
            return None
        segments = links.segments
        inside = (
            kept.index_select(0, segments.row)
            & kept.index_select(0, segments.other)
            & (links.received > 0)
        )
        weight = inside.to(torch.float32)
        row, other = (
            place.index_select(0, ends).clamp(min=0) for ends in (segments.row, segments.other)
        )
        ends = (values.index_select(0, index) for values in (segments.start, segments.end))
        return Links(Segments(row, other, *ends), weight, weight)

    # Attention.
    def attend(self, tokens: StaticTokens) -> tuple[Tensor, Tensor]:
        """The attention blocks: padded tokens (B, N, d) and their mask; N is the longest that a
        subgraph can be."""
        offsets, size = tokens.offsets, len(tokens.h)
        device = tokens.h.device
        seeds, longest = len(offsets) - 1, self.longest
        places = torch.arange(longest, device=device)
        # a filler seed has one row, so that nothing is divided by 0
        lengths = (offsets[1:] - offsets[:-1]).clamp(min=1)
        mask = places < lengths[:, None]  # (B, N)
        index = (offsets[:-1, None] + places).clamp(max=size - 1).flatten()
        is_read = tokens.subgraph < seeds
        back = (
            tokens.subgraph * longest + torch.arange(size, device=device) - offsets[tokens.subgraph]
        )

        def padded(x: Tensor) -> Tensor:
            return take(x, index, back, is_read).view(seeds, longest, -1)

        if choose_backend(self.config, device, tokens.h.dtype)[0] == "fused":
            return padded(self.attend_packed(tokens)), mask
        x = padded(tokens.h)
        ages, known = (
            values.index_select(0, index).view(seeds, longest)
            for values in (tokens.age, tokens.has_time)
        )
        biases = [
            mask_bias(bias(ages, known & mask), mask, x.dtype) for bias in self.model.biases
        ] or [mask_bias(None, mask, x.dtype)]
        for number, block in enumerate(self.model.blocks):
            x = block(x, biases[min(number, len(biases) - 1)])
        return x, mask

    def attend_packed(self, tokens: StaticTokens) -> Tensor:
        """The attention blocks by the fused backend: (T, d) → (T, d). Rows that nobody reads are
        subgraphs of their own."""
        size, offsets = len(tokens.h), tokens.offsets
        more = torch.arange(1, -(-size // self.longest) + 1, device=offsets.device) * self.longest
        # as eager code has them: one kernel for both
        offsets = torch.cat([offsets.long(), (offsets[-1] + more).clamp(max=size)])
        made = [bias for bias in self.model.biases if isinstance(bias, GaussianBias)]
        biases = [
            TimeBias.of(bias, tokens.age, tokens.has_time, offsets, self.longest)
            for bias in made or (None,)
        ]
        x = tokens.h
        for number, block in enumerate(self.model.blocks):
            x = block(x, biases[min(number, len(biases) - 1)])
        return x


def longest_kept(config: GelGTConfig, sampling: SamplingConfig) -> int:
    """Most rows of a subgraph behind refinement."""
    return sampling.budget if config.keep is None else min(config.keep, sampling.budget)
