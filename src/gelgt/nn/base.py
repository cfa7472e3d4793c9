"""`RelationalModel`: what training, run folders and predictions need to know of a model.

A model reads a `ModelInput` (a `SubgraphBatch` and the features of its rows) and gives one vector
for each seed. Everything else has a default here: the history of the seed, the head, the start from
the base rates, and what else a model can do. To add one, write a class with `config_type` and
`embed`, and register it (docs/models.md).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from gelgt.config import AttentionConfig, ModelConfig, SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.bias import TemporalBias, make_bias
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import ColumnEncoders, TableColumns
from gelgt.nn.history import HistoryEncoder
from gelgt.nn.layout import PackedTokens, Rows, Tokens
from gelgt.nn.linear import Linear
from gelgt.nn.norms import LayerNorm
from gelgt.nn.recommender import Recommender
from gelgt.nn.rows import ModelInput

if TYPE_CHECKING:
    from gelgt.nn.static.form import StaticForm
    from gelgt.nn.static.shape import Extras


@dataclass(frozen=True)
class ModelContext:
    """What a model is made for.

    Attributes:
        graph: For its tables and relations.
        features: For the columns of its tables and their statistics.
        outputs: Width of the prediction: 1, or the number of classes.
        hide: For each table, columns that the task must not see.
        noise_seed: Of whatever the model draws that is not dropout.
        history: Columns of the aggregates that seeds come with; 0 for none.
    """

    graph: Graph
    features: Features
    outputs: int = 1
    hide: Mapping[str, Iterable[str]] = field(default_factory=dict)
    noise_seed: int = 0
    history: int = 0

    def columns(self) -> dict[str, TableColumns]:
        """The columns that a model may read, by table."""
        columns = {}
        for table in self.features.tables:
            hidden = tuple(self.hide.get(table, ()))
            frame = self.features.frame(table, [], hidden)
            columns[table] = TableColumns(
                self.features.col_stats(table, hidden), frame.col_names_dict
            )
        return columns


class RelationalModel(nn.Module):
    """A model over sampled subgraphs.

    A subclass sets `config_type`, calls `super().__init__`, makes its layers, then `add_head`, and
    writes `embed`.

    Attributes:
        config_type: The class of its configuration: its own settings, as ``--set model.…`` changes
            them.
        presets: For each preset, values that differ from `config_type` and from gelgt's own
            sampling and training, such as
            ``{"cpu": {"model": {"width": 64}, "sampling": {"hops": 2}}}``.
        is_coupled: Whether, in training, the rows of a batch see each other (batch statistics,
            moving averages): such a batch is not split.
        shows_attention: Whether `seed_attention` says how seeds spread their attention.
        is_static: Whether `embed` reads its batch through `gelgt.nn.layout.Rows` and `Tokens` alone
            and no value on the host, so that it works on batches of fixed shapes, which are
            recorded as CUDA graphs.
        biases: Its temporal biases, as `make_biases` gives them.
        recommender: Scores rows by the seed vectors that the head puts out, where the task
            recommends; None otherwise.
        futures: Predicts what the windows of labels hold, while a model is trained (`expect`).
    """

    config_type: ClassVar[type[ModelConfig]] = ModelConfig
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    is_static: ClassVar[bool] = False
    history: HistoryEncoder | None
    head: nn.Sequential
    recommender: Recommender | None
    futures: nn.Linear | None

    def __init__(self, config: ModelConfig, context: ModelContext) -> None:
        super().__init__()
        self.config: Any = config
        self.noise_seed = context.noise_seed
        self.columns = context.columns()
        self.biases = nn.ModuleList()
        self.recommender = None
        self.futures = None

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        """Check, before any work is done, that a model of this configuration can be built.

        Raises:
            GelgtError: a package or a file is missing.
        """

    # Layers that every model has.
    def add_head(self, context: ModelContext) -> None:
        """Make the last layers: the encoder of the seeds' history, where they come with one, and
        the head, from a seed vector to logits or standardised values."""
        width, dropout = self.config.width, self.config.dropout
        self.history = HistoryEncoder(context.history, width, dropout) if context.history else None
        self.head = nn.Sequential(
            LayerNorm(width),
            Linear(width, width),
            nn.GELU(),
            Dropout(dropout),
            Linear(width, context.outputs),
        )

    def make_biases(self, count: int = 1) -> nn.ModuleList:
        """Temporal biases of the configured kind; none where `model.bias` is ``none``."""
        if not isinstance(self.config, AttentionConfig):
            return nn.ModuleList()
        biases = [make_bias(self.config) for _ in range(count)]
        return nn.ModuleList(bias for bias in biases if bias is not None)

    # From a batch to predictions.
    def forward(self, inputs: Rows) -> Tensor:
        """Predictions (B, outputs): logits or standardised values; in training with those of
        futures behind them, where some are expected."""
        vectors = self.seed_vectors(inputs)
        if self.futures is None or not self.training:
            out: Tensor = self.head(vectors)
            return out
        hidden = self.head[:-1](vectors)
        return torch.cat([self.head[-1](hidden), self.futures(hidden)], dim=1)

    def expect(self, futures: int) -> None:
        """Predict so many numbers besides while being trained (`gelgt.training.futures`); 0 ends
        it."""
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        device = last.weight.device
        self.futures = Linear(last.in_features, futures).to(device) if futures else None

    def seed_vectors(self, inputs: Rows) -> Tensor:
        """What the head sees of each seed, its history included: (B, d)."""
        seeds = self.embed(inputs)
        if self.history is None or inputs.history is None:
            return seeds
        out: Tensor = seeds + self.history(inputs.history)
        return out

    def embed(self, inputs: Any) -> Tensor:
        """What the subgraph says of each seed, from a `ModelInput`: (B, d)."""
        raise NotImplementedError

    # What a model can do besides.
    @property
    def is_coupled(self) -> bool:
        return False

    @property
    def facts(self) -> str:
        """How it computes, in a few words, for the progress lines."""
        return ""

    @property
    def shows_attention(self) -> bool:
        return False

    def seed_attention(self, inputs: ModelInput) -> tuple[PackedTokens, Tensor]:
        """How the seeds spread their attention, where the model `shows_attention`: the rows that
        they attend to, and (T,) shares that sum to 1 for each seed."""
        raise NotImplementedError

    def padded_attention(self, inputs: Rows) -> tuple[Tokens, Tensor]:
        """The same over any layout, as a rectangle (B, N) beside the tokens."""
        raise NotImplementedError

    @property
    def fusion_share(self) -> float | None:
        """The share of the attention branch in a seed's vector; None where there are no two
        branches."""
        return None

    @property
    def row_encoder(self) -> ColumnEncoders | None:
        """What encodes the columns of rows, where that is done once for each distinct row."""
        return None

    def extras(self, graph: Graph) -> "Extras":
        """What the model reads of a batch of fixed shapes besides rows and messages."""
        from gelgt.nn.static.shape import PLAIN

        return PLAIN

    def why_not_static(
        self, sampling: SamplingConfig, features: Features, free: float
    ) -> str | None:
        """Why the model cannot work on batches of fixed shapes, and so not be recorded as a CUDA
        graph; None if it can.

        Args:
            free: Bytes of the device that are free.
        """
        from gelgt.nn.static.form import why_not_static

        if not self.is_static:
            return f"{type(self).__name__} has no form of fixed shapes"
        return why_not_static(self.row_encoder, sampling, features, free)

    def static_form(
        self,
        graph: Graph,
        sampling: SamplingConfig,
        features: Features,
        hide: Mapping[str, Collection[str]],
    ) -> "StaticForm":
        """The model over batches of fixed shapes, with the model's own parameters, where
        `why_not_static` gives no reason against it."""
        from gelgt.nn.static.form import StaticForm

        extras = self.extras(graph)
        return StaticForm(self, self.row_encoder, graph, sampling, features, hide, extras=extras)

    # How it starts and learns.
    @torch.no_grad()
    def start(self, base: Tensor, ages: Tensor, history: Tensor | None = None) -> None:
        """Start the head from the base rates (outputs,), and time biases from the ages (days) of
        rows seen in training.

        Args:
            history: (S, F) aggregates of the training seeds, whose quantiles are taken.
        """
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        last.bias.copy_(base)
        self.start_times(ages)
        if self.history is not None and history is not None:
            self.history.fit(history)

    def start_times(self, ages: Tensor) -> None:
        for bias in self.time_biases():
            bias.start_from(ages)

    def parameter_groups(self, rate: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
        """Parameters for an optimiser: those of time biases that are times (μ, σ) have a rate of
        their own and no decay."""
        times = [p for bias in self.time_biases() for p in bias.time_parameters()]
        apart = {id(p) for p in times}
        others = [p for p in self.parameters() if id(p) not in apart and p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": others, "lr": rate, "weight_decay": weight_decay}
        ]
        if times:
            groups.append(
                {"params": times, "lr": rate * self.config.time_rate, "weight_decay": 0.0}
            )
        return groups

    # What it has learned about time.
    def temporal_profile(self) -> list[list[dict[str, Any]]]:
        """For each set of kernels, its centres and widths as durations, with a sentence for people.

        Example: ``model.temporal_profile()[0][2]["text"]`` is ``"centre 31 days, width 4 days"``.
        """
        return [
            [dict(kernel) | {"text": _sentence(kernel)} for kernel in kernels]
            for bias in self.time_biases()
            if (kernels := bias.profile())
        ]

    def time_biases(self) -> list[TemporalBias]:
        return [bias for bias in self.biases if isinstance(bias, TemporalBias)]

    @property
    def time_bias(self) -> TemporalBias | None:
        """The bias that all attention shares; None where there is none."""
        return next(iter(self.time_biases()), None)


def _sentence(kernel: Mapping[str, Any]) -> str:
    return f"centre {duration(kernel['centre_days'])}, width {duration(kernel['width_days'])}"


def duration(days: Any) -> str:
    """A number of days in words: '31 days', '5.2 hours', '2.4 years'."""
    value = float(days)
    if value >= 2 * 365.25:
        return f"{value / 365.25:.1f} years"
    if value >= 1:
        return f"{value:.0f} days" if value >= 10 else f"{value:.1f} days"
    return f"{24 * value:.1f} hours"
