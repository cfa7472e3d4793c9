"""Frozen configurations. A value that is derived is derived in one place and keeps its reason."""

from typing import Annotated, Literal

from pydantic import Field

from gelgt.errors import GelgtError
from gelgt.settings import Config

Strategy = Literal["bfs", "random", "recent", "full"]
Causality = Literal["strict", "inclusive"]
Visibility = Literal["frozen", "seed-time"]


class SamplingConfig(Config):
    """How the causal neighbourhood of a seed is sampled (docs/sampling.md; paper, section 3.1).

    Attributes:
        strategy: ``bfs`` (the paper), ``random`` (uniform over the neighbourhood, the ablation),
            ``recent`` (half by breadth-first search, half the newest rows of any table), ``full``
            (everything within `hops`, whatever the budget).
        hops: Depth of the search.
        budget: Most rows of a subgraph, the seed included.
        fanout: Most children of a row that are visited, the newest first, so that an entity with a
            long history leaves room for rows behind its newest ones; None visits all, as the paper
            does.
        causality: Rows that a seed may see: ``strict`` those before the seed time, ``inclusive``
            also those at it (autocomplete).
        order: Order in which children are visited, and so which are cut off: ``recent`` or
            ``random``.
        seed: Random seed of random orders.
        visibility: The regime: ``frozen`` hides rows after the horizon, ``seed-time`` shows all
            rows before each seed time.
        horizon: Time, in seconds since 1970, from which ages are measured at the latest; the test
            time under ``frozen``.
    """

    section = "sampling"
    strategy: Strategy = "bfs"
    hops: int = Field(default=2, ge=1, le=16)
    budget: int = Field(default=300, ge=1, le=1_000_000)
    fanout: int | None = Field(default=64, ge=1)
    causality: Causality = "strict"
    order: Literal["recent", "random"] = "recent"
    seed: int = Field(default=0, ge=0, lt=2**63)
    visibility: Visibility = "seed-time"
    horizon: int | None = None


Bias = Literal["gaussian", "linear-decay", "time-bins", "none"]
Encoder = Literal["table", "hop", "age", "row", "structure", "recency"]
ENCODERS: tuple[Encoder, ...] = ("table", "hop", "age", "row", "structure")


class ModelConfig(Config):
    """What every model has.

    Attributes:
        width: Width d of row vectors and seed vectors.
        dropout: Dropout in feed-forward networks and on the residual branch of a block.
        keep: Rows M that refinement keeps, the seed included; None keeps all.
        row_width: Width of each column inside the row encoder.
        row_layers: Residual blocks of the row encoder.
        row_names: Whether the row encoder reads free text in tables without time; off avoids
            memorising the names of entities.
        row_times: Whether the row encoder reads the time of a row, beside its age; off avoids
            learning years that do not come again.
        history: Hops of the history, the causal aggregates that are added to a seed's vector:
            counts, means and recency over all rows that the seed may see, sampled or not, and over
            rows that share a key with its newest child. 0 for none.
        history_columns: Columns of the history at most. All that the schema gives are judged on a
            sample of training rows, and the best are read; a time limit of more than five minutes
            allows for more.
        column_members: Members of the columns network, an ensemble that reads the history by itself
            and is trained first; the network that looks at subgraphs then reads no history, and
            validation mixes both. 0 for none: one network learns both at once.
        calendar: Whether the time of the year, and the time since the newest visible row, are added
            to a seed's vector; no effect where training spans less than two years.
        trees: Whether LightGBM on the history predicts beside the network, with a share that
            validation decides. Never without history, for multilabel tasks or for more than 50
            classes.
        futures: Weight of a second loss in training where labels are classes: networks also predict
            what the window of a label holds, the number of the entity's rows and their mean values,
            which tells them more than a class alone. 0 for none.
    """

    section = "model"
    width: int = Field(default=128, ge=8)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    keep: int | None = Field(default=None, ge=1)
    row_width: int = Field(default=64, ge=1)
    row_layers: int = Field(default=2, ge=1)
    row_names: bool = True
    row_times: bool = True
    history: int = Field(default=0, ge=0, le=2)
    history_columns: int = Field(default=300, ge=0, le=10_000)
    column_members: int = Field(default=32, ge=0, le=256)
    calendar: bool = False
    trees: bool = False
    futures: float = Field(default=0.0, ge=0)


class AttentionConfig(ModelConfig):
    """What every model with attention over rows has: heads, and a bias over time that can be added
    to any of them.

    Attributes:
        heads: Attention heads H.
        bias: Temporal bias: ``gaussian``, ``linear-decay`` or ``time-bins`` (the paper's
            comparisons), or ``none``.
        kernels: Gaussian kernels G; None for as many as heads.
        kernel: Parametrisation of a Gaussian kernel. ``bounded``: μ, σ and weights are positive,
            and μ starts at quantiles of the ages seen in training, so that a kernel can only raise
            attention to an age. ``published``: all are free, and μ starts evenly over 0 to 100
            days.
        time_scale: Scale of Δt in the bias: ``linear`` (days) or ``log`` (log(1 + days)), under
            which a kernel is as wide for years as for days in proportion.
        time_rate: Learning rate of μ and σ, as a multiple of that of the other parameters.
    """

    heads: int = Field(default=4, ge=1)
    bias: Bias = "none"
    kernels: int | None = Field(default=None, ge=1)
    kernel: Literal["bounded", "published"] = "bounded"
    time_scale: Literal["linear", "log"] = "linear"
    time_rate: float = Field(default=30.0, gt=0)

    def model_post_init(self, context: object) -> None:
        if self.width % self.heads:
            raise GelgtError(
                "bad_config",
                f"model.width must be a multiple of model.heads = {self.heads}, got {self.width}.",
                hint="Choose another width, or another number of heads.",
            )

    @property
    def num_kernels(self) -> int:
        return self.kernels or self.heads


class GelGTConfig(AttentionConfig):
    """The model (docs/model.md). Its defaults are the preset `gpu`; `cpu` is smaller, `paper` the
    published model.

    Attributes:
        layers: Gaussian attention blocks; 0 switches the attention branch off.
        gnn_layers: GraphSAGE layers; 0 switches the GNN branch off.
        gnn_mean: Aggregation of GraphSAGE: the mean over ``all`` neighbours, or the sum of one mean
            for each ``relation``, so that a thousand page views do not drown one order.
        wiring: ``parallel`` (the paper): both branches run over the refined rows. ``stacked``: the
            GNN runs over all sampled rows, and attention over the refined ones of its output;
            attention, which knows ages but no keys, then sees which product belongs to which order.
        attention_dropout: Dropout of attention weights; None for `dropout`.
        gnn_dropout: Dropout of the GNN branch.
        encoders: Encoders of a row: the paper's ``table``, ``hop``, ``age``, ``row`` and
            ``structure``, and ``recency`` (rank among the sampled rows of its table, log of its
            age).
        structure_width: Width of the structure encoder.
        norm: ``layer`` normalisation, or ``batch`` where the paper has it (row and structure
            encoder), with running statistics in evaluation.
        backend: Implementation of attention: ``auto``, ``reference``, ``sdpa`` or ``fused`` (CUDA,
            or Triton's interpreter).
        centroids: Centroids of the paper's global module; 0 switches it off.
    """

    layers: int = Field(default=2, ge=0)
    keep: int | None = Field(default=128, ge=1)
    dropout: float = Field(default=0.3, ge=0, lt=1)
    row_width: int = Field(default=32, ge=1)
    row_layers: int = Field(default=1, ge=1)
    row_names: bool = False
    row_times: bool = False
    history: int = Field(default=2, ge=0, le=2)
    calendar: bool = True
    trees: bool = True
    futures: float = Field(default=3.0, ge=0)
    bias: Bias = "gaussian"
    kernels: int | None = Field(default=8, ge=1)
    time_scale: Literal["linear", "log"] = "log"
    gnn_layers: int = Field(default=2, ge=0)
    gnn_mean: Literal["all", "relation"] = "relation"
    wiring: Literal["parallel", "stacked"] = "stacked"
    attention_dropout: float | None = Field(default=0.0, ge=0, lt=1)
    gnn_dropout: float = Field(default=0.3, ge=0, lt=1)
    encoders: tuple[Encoder, ...] = ("table", "hop", "age", "row")
    structure_width: int = Field(default=64, ge=64, multiple_of=64)
    norm: Literal["layer", "batch"] = "layer"
    backend: Literal["auto", "reference", "sdpa", "fused"] = "auto"
    centroids: int = Field(default=0, ge=0)

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        if not self.encoders:
            raise GelgtError(
                "bad_config",
                "model.encoders must name at least one encoder, got none.",
                hint=f"Keep at least one of {', '.join(ENCODERS)}.",
            )
        if not self.layers and not self.gnn_layers:
            raise GelgtError(
                "bad_config",
                "model.layers and model.gnn_layers cannot both be 0: no branch is left.",
                hint="Keep the attention or the GNN branch.",
            )


TIME_LIMIT = 300.0  # seconds of a run, unless another limit is set


class TrainConfig(Config):
    """How a model is trained. The defaults are the preset `gpu`.

    Attributes:
        epochs: Most epochs; early stopping usually ends training before.
        batch_size: Seeds of a training step.
        windows: Training seed times per label window, where labels can be computed at other times:
            more, overlapping examples. ``auto`` is up to 4, while that makes at most 20,000 labels.
            Validation and test do not change.
        ensemble: Networks that are trained with different random seeds and predict by their mean.
            ``auto`` is 5 for at most 10,000 training labels, where networks differ most by their
            seed, and 1 otherwise.
        stale: Copies of each training seed that see rows only up to an earlier time, as test seeds
            of the frozen regime do, whose newest rows may be years old. Their lags are those of the
            evaluated seeds. ``auto`` is 1 in the frozen regime where those lags exceed one window,
            and 0 otherwise.
        steps_per_epoch: Steps after which an epoch ends, so that large label tables are evaluated
            often enough; None for all labels.
        rate: Learning rate of Adam; that of μ and σ is `model.time_rate` times as large.
        optimizer: ``adamw`` (decoupled weight decay, none for μ and σ) or ``adam`` (the paper: an
            L2 term in the gradient of every parameter).
        weight_decay: Strength of the weight decay.
        warmup: Steps in which the learning rate rises from 0.
        clip: Largest norm of the gradient; None for no limit.
        patience: Epochs without a better validation score after which training stops.
        weight_average: Decay of the moving average of the weights, which is evaluated and kept; 0
            for none.
        best_epochs: The final weights are the mean over this many best epochs, unless its
            validation score is worse than the best epoch's by more than a quarter of the score's
            uncertainty. On a small validation set the single best epoch is partly luck. 1 for the
            best epoch.
        retrain: After selection, retrain on all labels known at the test time, those of training
            and validation, for the selected number of epochs. Test scores and predictions are those
            of the retrained model, validation scores those of the model before. It takes about as
            long again.
        eval_rows: Most validation rows that are scored after an epoch; the final scores use all.
        precision: Of networks over subgraphs: ``auto`` (bfloat16 on CUDA, float32 elsewhere),
            ``float32`` or ``bfloat16``.
        time_limit: Seconds of the whole run, divided over its phases: baselines take a fifth at
            most, networks and trees keep the best of what they reached in their time. None for no
            limit. More than the preset's gives more columns and more networks.
        seed: Random seed of initial weights, batch order and dropout.
    """

    section = "train"
    epochs: int = Field(default=60, ge=1)
    batch_size: int = Field(default=128, ge=1)
    windows: Literal["auto"] | Annotated[int, Field(ge=1, le=100)] = "auto"
    ensemble: Literal["auto"] | Annotated[int, Field(ge=1, le=100)] = 3
    stale: Literal["auto"] | Annotated[int, Field(ge=0, le=100)] = "auto"
    steps_per_epoch: int | None = Field(default=200, ge=1)
    rate: float = Field(default=1e-3, gt=0)
    optimizer: Literal["adamw", "adam"] = "adamw"
    weight_decay: float = Field(default=0.0, ge=0)
    warmup: int = Field(default=20, ge=0)
    clip: float | None = Field(default=1.0, gt=0)
    patience: int = Field(default=5, ge=1)
    weight_average: float = Field(default=0.98, ge=0, lt=1)
    best_epochs: int = Field(default=5, ge=1, le=100)
    retrain: bool = True
    eval_rows: int = Field(default=20_000, ge=1)
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    time_limit: float | None = Field(default=TIME_LIMIT, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**31)
