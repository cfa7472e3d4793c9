"""`RelationalModel`: what the fit loop, run folders and predictions need to know of a model.

A model reads a `ModelInput` (a `SubgraphBatch` and the features of its rows) and gives one vector
for each seed. Everything else has a default here. To add one, write a class with `config_type` and
`embed`, and register it (docs/models.md).
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gelgt.config import AttentionConfig, ModelConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn.bias import GaussianBias, TemporalBias, make_bias
from gelgt.nn.dropout import Dropout
from gelgt.nn.encoders import TableColumns
from gelgt.nn.norms import LayerNorm
from gelgt.nn.rows import ModelInput


class RelationalModel(nn.Module):
    """A model over sampled subgraphs.

    A subclass sets `config_type`, calls `super().__init__`, makes its layers, and writes `embed`.
    `head` is made here; `biases` holds the temporal biases that the configuration asks for, one for
    each of `num_biases`.

    Attributes:
        config_type: The class of its configuration: its own settings, as ``--set model.…`` changes
            them.
        presets: For each preset, values that differ from `config_type` and from gelgt's own
            sampling and training, such as
            ``{"cpu": {"model": {"width": 64}, "sampling": {"hops": 2}}}``.
        is_coupled: Whether, in training, the rows of a batch see each other (batch statistics,
            moving averages): such a batch is not split.

    Args:
        config: Of `config_type`.
        graph: For its tables and relations.
        features: For the columns of its tables and their statistics.
        outputs: Width of the prediction: 1, or the number of classes.
        hide: For each table, columns that the task must not see.
        noise_seed: Of whatever the model draws that is not dropout.
    """

    config_type: ClassVar[type[ModelConfig]] = ModelConfig
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {}
    head: nn.Sequential

    def __init__(
        self,
        config: ModelConfig,
        graph: Graph,
        features: Features,
        outputs: int = 1,
        hide: Mapping[str, Iterable[str]] | None = None,
        noise_seed: int = 0,
    ) -> None:
        super().__init__()
        self.config: Any = config
        self.noise_seed = noise_seed
        self.columns = columns_of(features, hide or {})
        self.biases = nn.ModuleList()

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        """Refuse what cannot be made: asked before any work is done for it.

        Raises:
            GelgtError: a package or a file is missing.
        """

    def make_head(self, outputs: int) -> nn.Sequential:
        """From a seed vector to logits or standardised values; its last layer starts from the base
        rates."""
        width, dropout = self.config.width, self.config.dropout
        return nn.Sequential(
            LayerNorm(width),
            nn.Linear(width, width),
            nn.GELU(),
            Dropout(dropout),
            nn.Linear(width, outputs),
        )

    def make_biases(self, count: int = 1) -> nn.ModuleList:
        """Temporal biases as the configuration wants them; none if it wants none."""
        if not isinstance(self.config, AttentionConfig):
            return nn.ModuleList()
        return nn.ModuleList(
            made for made in (make_bias(self.config) for _ in range(count)) if made is not None
        )

    def forward(self, inputs: ModelInput) -> Tensor:
        """Predictions (B, outputs): logits or standardised values."""
        out: Tensor = self.head(self.embed(inputs))
        return out

    def embed(self, inputs: ModelInput) -> Tensor:
        """Seed vectors (B, d)."""
        raise NotImplementedError

    @property
    def is_coupled(self) -> bool:
        return False

    @property
    def shows_attention(self) -> bool:
        """Whether `seed_attention` tells how seeds spread their attention."""
        return False

    def seed_attention(self, inputs: ModelInput) -> tuple[Any, Tensor]:
        """The rows that attention sees, and (T,) shares of the seeds' attention."""
        raise NotImplementedError

    @property
    def fusion_share(self) -> float | None:
        """The share of the attention branch in the seed vector, where there are two branches."""
        return None

    @property
    def facts(self) -> str:
        """How it computes, in a few words, for the progress lines."""
        return ""

    @torch.no_grad()
    def start(self, base: Tensor, ages: Tensor, history: Tensor | None = None) -> None:
        """Start the head from the base rates (outputs,), and μ and σ from the ages (days) of rows
        seen in training.

        Args:
            history: (S, F) aggregates of the training seeds, for a model that wants them.
        """
        last = self.head[-1]
        assert isinstance(last, nn.Linear)
        last.bias.copy_(base)
        self.start_times(ages)

    def start_times(self, ages: Tensor) -> None:
        for bias in self.biases:
            if isinstance(bias, GaussianBias):
                bias.start_from(ages)

    def parameter_groups(self, rate: float, weight_decay: float = 0.0) -> list[dict[str, Any]]:
        """Parameters for an optimiser: μ and σ have a rate of their own and no decay."""
        times = [
            p
            for bias in self.biases
            if isinstance(bias, GaussianBias)
            for p in (bias.centre, bias.width)
        ]
        own = {id(p) for p in times}
        others = [p for p in self.parameters() if id(p) not in own and p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": others, "lr": rate, "weight_decay": weight_decay}
        ]
        if times:
            groups.append(
                {"params": times, "lr": rate * self.config.time_rate, "weight_decay": 0.0}
            )
        return groups

    def temporal_profile(self) -> list[list[dict[str, Any]]]:
        """For each set of kernels, its centres and widths as durations, with a sentence for people.

        Example: ``model.temporal_profile()[0][2]["text"]`` is ``"centre 31 days, width 4 days"``.
        """
        found = []
        for bias in self.biases:
            if isinstance(bias, GaussianBias):
                kernels = [dict(k) for k in bias.profile()]
                found.append(
                    [
                        k
                        | {
                            "text": f"centre {duration(k['centre_days'])}, width "
                            f"{duration(k['width_days'])}"
                        }
                        for k in kernels
                    ]
                )
        return found

    def time_biases(self) -> list[TemporalBias]:
        return [bias for bias in self.biases if isinstance(bias, TemporalBias)]


def columns_of(features: Features, hide: Mapping[str, Iterable[str]]) -> dict[str, TableColumns]:
    """The columns that a model may read, by table."""
    found = {}
    for table in features.tables:
        hidden = tuple(hide.get(table, ()))
        frame = features.frame(table, [], hidden)
        found[table] = TableColumns(features.col_stats(table, hidden), frame.col_names_dict)
    return found


def duration(days: Any) -> str:
    """A number of days in words: '31 days', '5.2 hours', '2.4 years'."""
    value = float(days)
    if value >= 2 * 365.25:
        return f"{value / 365.25:.1f} years"
    if value >= 1:
        return f"{value:.0f} days" if value >= 10 else f"{value:.1f} days"
    return f"{24 * value:.1f} hours"
