"""`GelGTModel`: encoders → ③ refinement → ④ GNN ∥ ⑤ Gaussian attention → ⑥ fusion → head, over a
`SubgraphBatch`.

Everything but attention works on packed rows, so padding exists only inside the attention blocks,
where it is masked. Norm layers see one row at a time (or, in the paper's preset, running statistics
in evaluation): a prediction does not depend on the batch it is made in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gelgt.config import GelGTConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.attention import AttentionBlock, ReadOut, TimeBias, choose_backend, mask_bias
from gelgt.nn.base import RelationalModel
from gelgt.nn.bias import GaussianBias
from gelgt.nn.centroids import GlobalModule
from gelgt.nn.encoders import AgeEncoder, HopEncoder, Mixer, RecencyEncoder, RowEncoder
from gelgt.nn.gnn import GNNBranch, both_ways, messages
from gelgt.nn.history import HistoryEncoder
from gelgt.nn.refinement import refine, restrict, semantic_scores
from gelgt.nn.rows import ModelInput, RowFrames
from gelgt.nn.structure import StructureEncoder, structure_noise
from gelgt.sampling.batch import SubgraphBatch, spread


@dataclass(frozen=True)
class Tokens:
    """Packed rows on their way through the branches: T rows of B subgraphs, as in `SubgraphBatch`,
    with their vectors `h` (T, d)."""

    h: Tensor
    age: Tensor
    has_time: Tensor
    hop: Tensor
    table: Tensor
    node: Tensor
    offsets: Tensor
    edges: Tensor
    relation: Tensor


class GelGTModel(RelationalModel):
    """The Gaussian Relational Graph Transformer.

    Args:
        config: The model's configuration.
        graph: For the number of its tables.
        features: For the columns of its tables and their statistics.
        outputs: Width of the prediction: 1, or the number of classes.
        hide: For each table, columns that the task must not see.
        noise_seed: Of the structure noise.
        history: Columns of the aggregates that seeds come with; 0 for none.
    """

    config_type = GelGTConfig

    def __init__(
        self,
        config: GelGTConfig,
        graph: Graph,
        features: Features,
        outputs: int = 1,
        hide: Mapping[str, Iterable[str]] | None = None,
        noise_seed: int = 0,
        history: int = 0,
    ) -> None:
        super().__init__(config, graph, features, outputs, hide, noise_seed)
        self.config: GelGTConfig = config
        width = config.width
        self.encoders = nn.ModuleDict()
        for name in config.encoders:
            if name == "table":
                self.encoders[name] = nn.Embedding(len(graph.tables), width)
            elif name == "hop":
                self.encoders[name] = HopEncoder(width)
            elif name == "age":
                self.encoders[name] = AgeEncoder(width)
            elif name == "recency":
                self.encoders[name] = RecencyEncoder(width)
            elif name == "row":
                self.encoders[name] = RowEncoder(
                    width, config.row_width, config.row_layers, config.norm, self.columns
                )
            else:
                self.encoders[name] = StructureEncoder(width, config.structure_width, config.norm)
        self.mixer = Mixer(len(config.encoders), width, config.dropout)
        self.biases = self.make_biases(min(1, config.layers))  # one for all blocks
        self.blocks = nn.ModuleList(AttentionBlock(config) for _ in range(config.layers))
        self.read_out = ReadOut(width) if config.layers else None
        self.gnn = (
            GNNBranch(width, config.gnn_layers, config.gnn_dropout) if config.gnn_layers else None
        )
        # η = sigmoid(balance)
        self.balance = (
            nn.Parameter(torch.zeros(())) if self.gnn is not None and config.layers else None
        )
        self.everyone = GlobalModule(width, config.centroids) if config.centroids else None
        self.history = HistoryEncoder(history, width, config.dropout) if history else None
        self.head = self.make_head(outputs)

    @property
    def shows_attention(self) -> bool:
        return bool(self.blocks)

    @property
    def fusion_share(self) -> float | None:
        return None if self.balance is None else float(torch.sigmoid(self.balance.detach()))

    @property
    def is_coupled(self) -> bool:
        return self.config.norm == "batch" or bool(self.config.centroids)

    def embed(self, inputs: ModelInput) -> Tensor:
        """Seed vectors (B, d)."""
        tokens, passed = self.branches(inputs)
        branches = []
        if self.read_out is not None:
            x, mask, _ = self.attend(tokens)
            branches.append(self.read_out(x, mask))
        if passed is not None:
            branches.append(passed)
        seeds: Tensor = branches[0]
        if self.balance is not None:
            share = torch.sigmoid(self.balance)
            seeds = share * branches[0] + (1 - share) * branches[1]
        if self.history is not None and inputs.history is not None:
            seeds = seeds + self.history(inputs.history)
        return seeds if self.everyone is None else seeds + self.everyone(seeds)

    def start(self, base: Tensor, ages: Tensor, history: Tensor | None = None) -> None:
        super().start(base, ages)
        if self.history is not None and history is not None:
            self.history.fit(history)

    def branches(self, inputs: ModelInput) -> tuple["Tokens", Tensor | None]:
        """What attention sees, and the seeds (B, d) as message passing leaves them.

        Parallel branches both see the rows that refinement keeps. Stacked, message passing sees
        every sampled row, and refinement chooses among what it made of them.
        """
        batch = inputs.batch.to_packed()
        h = self.encode(batch, inputs.rows, batch.batch)  # (T, d)
        tokens = Tokens(
            h,
            batch.age,
            batch.has_time,
            batch.hop,
            batch.table,
            batch.node,
            batch.offsets,
            batch.edge_index,
            batch.edge_relation,
        )
        if self.gnn is None:
            return self.refined(tokens, batch.batch), None
        if self.config.wiring == "parallel":
            tokens = self.refined(tokens, batch.batch)
        # (T, d)
        passed = self.gnn(
            tokens.h, messages(tokens.edges, tokens.relation, self.config.gnn_mean, len(tokens.h))
        )
        seeds = passed[tokens.offsets[:-1]]
        return (
            tokens
            if self.config.wiring == "parallel"
            else self.refined(replace(tokens, h=passed), batch.batch)
        ), seeds

    def refined(self, tokens: "Tokens", subgraph: Tensor) -> "Tokens":
        """The rows that refinement keeps."""
        if self.config.keep is None:
            return tokens
        h, offsets = tokens.h, tokens.offsets
        kept = refine(
            semantic_scores(h, offsets, subgraph), tokens.hop, offsets, subgraph, self.config.keep
        )
        offsets, edges, inside = restrict(kept, offsets, tokens.edges)
        age, has_time, hop, table, node = (
            values[kept]
            for values in (tokens.age, tokens.has_time, tokens.hop, tokens.table, tokens.node)
        )
        return Tokens(
            h[kept], age, has_time, hop, table, node, offsets, edges, tokens.relation[inside]
        )

    @torch.no_grad()
    def seed_attention(self, inputs: ModelInput) -> tuple["Tokens", Tensor]:
        """How the seeds spread their attention: the kept rows, and (T,) shares that sum to 1 for
        each seed.

        The mean over blocks and heads of the seed's own row of attention weights.
        """
        tokens, _ = self.branches(inputs)
        _, mask, weights = self.attend(tokens, keep_weights=True)
        return tokens, torch.stack(weights).mean(dim=(0, 2))[mask]

    def encode(self, batch: SubgraphBatch, rows: RowFrames, subgraph: Tensor) -> Tensor:
        """Tokens (T, d) of packed rows."""
        parts = []
        for name, encoder in self.encoders.items():
            if name == "table":
                parts.append(encoder(batch.table))
            elif name == "hop":
                parts.append(encoder(batch.hop))
            elif name == "age":
                parts.append(encoder(batch.age, batch.has_time))
            elif name == "recency":
                parts.append(encoder(batch.age, batch.has_time, batch.table, subgraph))
            elif name == "row":
                parts.append(encoder(rows)[rows.inverse])
            else:
                parts.append(
                    encoder(self.structure_start(batch, subgraph), both_ways(batch.edge_index))
                )
        out: Tensor = self.mixer(parts)
        return out

    def structure_start(self, batch: SubgraphBatch, subgraph: Tensor) -> Tensor:
        """What the structure encoder starts from: (T, structure_width)."""
        place = torch.arange(len(batch.node), device=batch.node.device) - batch.offsets[subgraph]
        return structure_noise(
            batch.seed_key,
            batch.seed_time,
            place,
            subgraph,
            self.config.structure_width,
            self.noise_seed,
        )

    @property
    def backend(self) -> str:
        """Of attention, where the model's parameters are now."""
        return choose_backend(self.config, next(self.parameters()).device)[0]

    @property
    def facts(self) -> str:
        return f"attention by {self.backend}"

    @property
    def backend_reason(self) -> str:
        return choose_backend(self.config, next(self.parameters()).device)[1]

    def attend(
        self, tokens: "Tokens", keep_weights: bool = False
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The attention blocks: padded tokens (B, N, d), their mask, and if wanted the seeds'
        weights (B, H, N) of each block.

        The fused backend works on the packed rows, which are padded afterwards. The others need
        padded rows and the whole bias, and so does looking at weights.
        """
        h, offsets = tokens.h, tokens.offsets
        lengths = offsets[1:] - offsets[:-1]
        # (B, N)
        mask = torch.arange(int(lengths.max()), device=h.device)[None, :] < lengths[:, None]
        if choose_backend(self.config, h.device, h.dtype)[0] == "fused" and not keep_weights:
            return pad_rows(self.attend_packed(tokens, mask.shape[1]), offsets, mask), mask, []
        x = pad_rows(h, offsets, mask)
        ages, known = spread(tokens.age, mask, 0), spread(tokens.has_time, mask, 0)
        biases = [mask_bias(bias(ages, known), mask, x.dtype) for bias in self.biases] or [
            mask_bias(None, mask, x.dtype)
        ]
        weights = []
        for number, block in enumerate(self.blocks):
            bias = biases[min(number, len(biases) - 1)]
            if keep_weights:
                assert isinstance(block, AttentionBlock)
                weights.append(block.seed_weights(x, bias))
            x = block(x, bias)
        return x, mask, weights

    def attend_packed(self, tokens: "Tokens", longest: int) -> Tensor:
        """The attention blocks by the fused backend: (T, d) → (T, d)."""
        made = [bias for bias in self.biases if isinstance(bias, GaussianBias)]
        biases = [
            TimeBias.of(bias, tokens.age, tokens.has_time, tokens.offsets, longest)
            for bias in made or (None,)
        ]
        x = tokens.h
        for number, block in enumerate(self.blocks):
            x = block(x, biases[min(number, len(biases) - 1)])
        return x


def pad_rows(x: Tensor, offsets: Tensor, mask: Tensor) -> Tensor:
    """(T, d) → (B, N, d), zeros where the mask is false."""
    seeds, rows = mask.shape
    # packed place → padded place
    shift = torch.arange(seeds, device=x.device) * rows - offsets[:-1]
    place = torch.arange(len(x), device=x.device) + torch.repeat_interleave(
        shift, offsets[1:] - offsets[:-1], output_size=len(x)
    )
    return x.new_zeros(seeds * rows, x.shape[1]).index_copy(0, place, x).view(seeds, rows, -1)
