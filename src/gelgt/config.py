"""Frozen configurations. A value that is derived is derived in one place and keeps its reason."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gelgt.errors import GelgtError

Strategy = Literal["bfs", "random", "recent", "full"]
Causality = Literal["strict", "inclusive"]
Visibility = Literal["frozen", "seed-time"]


class Config(BaseModel):
    """Frozen, and strict about names: an unknown or wrong value is a GelgtError that says what is
    allowed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            # A field of several types has an error for each of them, in whose place pydantic names
            # the type; a list has numbers there.
            where = (
                ".".join(
                    str(part)
                    for place, part in enumerate(first["loc"])
                    if place == 0 or isinstance(part, int)
                )
                or type(self).__name__
            )
            known = ", ".join(type(self).model_fields)
            reasons = dict.fromkeys(
                e["msg"] for e in error.errors() if e["loc"][:1] == first["loc"][:1]
            )
            hint = (
                f"{type(self).__name__} has {known}."
                if first["type"] == "extra_forbidden"
                else "; or: ".join(reasons) + "."
            )
            raise GelgtError(
                "bad_config", f"{where} = {first.get('input')!r} is not possible.", hint=hint
            ) from None


class SamplingConfig(Config):
    """How the causal neighbourhood of a seed is sampled (docs/sampling.md; paper, section 3.1).

    Attributes:
        strategy: ``bfs`` (the paper), ``random`` (uniform over the neighbourhood, the ablation),
            ``recent`` (half by breadth-first search, half the newest rows of any table), ``full``
            (everything within `hops`, whatever the budget).
        hops: Depth of the search.
        budget: Most rows of a subgraph, the seed included.
        fanout: Of the children of a row, only so many are looked at, the newest first, so that an
            entity with a long history leaves room for what lies behind its newest rows; None
            looks at all, as the paper does.
        causality: ``strict`` admits rows before the seed time, ``inclusive`` also rows at it
            (autocomplete).
        order: In which order children are visited, and so which are cut off: ``recent`` or
            ``random``.
        seed: Of the random orders.
        visibility: ``frozen`` hides rows after the horizon, ``seed-time`` shows all rows before
            each seed's own time.
        horizon: Seconds since 1970 from which ages are measured at the latest; the test time under
            ``frozen``.
    """

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
        width: d, of every row's vector and of the seed vectors.
        dropout: Of feed-forward networks, and of what a block adds.
        keep: M, rows that refinement keeps, the seed included; None keeps all.
        row_width: Of each column inside the row encoder.
        row_layers: Residual blocks of the row encoder.
        row_names: Whether the row encoder reads the text of tables without time. Such columns name
            things, and a network that sees few labels memorises names.
        row_times: Whether a row's own time is a feature, on top of its age: a year that training
            has not seen says nothing.
        history: Hops of the causal aggregates (`gelgt.history.aggregates`) that a seed's vector is
            given, 0 for none: counts, means and recency over all the rows that it may see, however
            few of them are sampled; also those of the rows that share a key with the seed's newest
            child, such as how its team has done lately.
        calendar: Whether a seed's vector also knows its place in the year, and how long after the
            newest row that it may see it is asked about. Of no effect where training spans less
            than two years.
        trees: Whether LightGBM, grown on the history, predicts beside the network. Its share is 0,
            ¼, ½ or ¾, whichever has the least validation loss. None without history, for several
            labels a row, or more than 50 classes.
    """

    width: int = Field(default=128, ge=8)
    dropout: float = Field(default=0.1, ge=0, lt=1)
    keep: int | None = Field(default=None, ge=1)
    row_width: int = Field(default=64, ge=1)
    row_layers: int = Field(default=2, ge=1)
    row_names: bool = True
    row_times: bool = True
    history: int = Field(default=0, ge=0, le=2)
    calendar: bool = False
    trees: bool = False


class AttentionConfig(ModelConfig):
    """What every model with attention over rows has: heads, and a bias over time that can be added
    to any of them.

    Attributes:
        heads: H.
        bias: ``gaussian``, one of the paper's comparisons, or ``none``.
        kernels: G; as many as heads if None.
        kernel: How a Gaussian kernel is parametrised. ``bounded``: μ and σ are positive and start
            at quantiles of the ages seen in training, and weights are positive, so that a kernel
            can only draw attention to an age. ``published``: free numbers, and μ starts evenly over
            0…100 days.
        time_scale: Of Δt: ``linear`` (days) or ``log`` (log(1 + days)).
        time_rate: Learning rate of μ and σ over that of the other parameters.
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
                f"width = {self.width} is no multiple of heads = {self.heads}.",
                hint="Choose another width.",
            )

    @property
    def num_kernels(self) -> int:
        return self.kernels or self.heads


class GelGTConfig(AttentionConfig):
    """The model (docs/model.md). Its defaults are the preset `gpu`; `cpu` is smaller, and `paper`
    is the published model.

    Attributes:
        layers: Gaussian attention blocks.
        gnn_layers: GraphSAGE layers; 0 switches the branch off.
        gnn_mean: What a row receives: the mean of ``all`` its neighbours (GraphSAGE), or the sum of
            one mean for each ``relation``, so that a thousand page views do not drown the one
            order.
        wiring: ``parallel`` branches over the refined rows are the paper's. ``stacked``: messages
            pass over all sampled rows, and attention sees the refined ones as they then are.
            Attention knows ages, not keys: on its own it cannot tell which product belongs to the
            newest order.
        attention_dropout: Of attention weights; as `dropout` if None.
        gnn_dropout: Of the GNN branch.
        encoders: Which encoders there are: the paper's five (table, hop, age, row, structure), and
            ``recency`` (rank among the rows of its table, log of the age).
        structure_width: Width of the structure encoder.
        norm: ``layer``, or ``batch`` where the paper has it (row and structure encoder), with
            running statistics in evaluation.
        backend: Of attention: ``auto``, ``reference``, ``sdpa`` or ``fused`` (CUDA, or Triton's
            interpreter).
        centroids: Of the paper's global module; 0 switches it off.
    """

    layers: int = Field(default=2, ge=0)
    keep: int | None = Field(default=128, ge=1)
    dropout: float = Field(default=0.3, ge=0, lt=1)
    row_width: int = Field(default=32, ge=1)
    row_layers: int = Field(default=1, ge=1)
    row_names: bool = False
    row_times: bool = False
    history: int = Field(default=1, ge=0, le=2)
    calendar: bool = True
    trees: bool = True
    bias: Bias = "gaussian"
    kernels: int | None = Field(default=8, ge=1)
    gnn_layers: int = Field(default=2, ge=0)
    gnn_mean: Literal["all", "relation"] = "relation"
    wiring: Literal["parallel", "stacked"] = "stacked"
    attention_dropout: float | None = Field(default=0.0, ge=0, lt=1)
    gnn_dropout: float = Field(default=0.3, ge=0, lt=1)
    encoders: tuple[Encoder, ...] = ("table", "hop", "age", "row", "recency")
    structure_width: int = Field(default=64, ge=64, multiple_of=64)
    norm: Literal["layer", "batch"] = "layer"
    backend: Literal["auto", "reference", "sdpa", "fused"] = "auto"
    centroids: int = Field(default=0, ge=0)

    def model_post_init(self, context: object) -> None:
        super().model_post_init(context)
        if not self.encoders:
            raise GelgtError(
                "bad_config",
                "encoders = () leaves the tokens empty.",
                hint=f"Keep at least one of {', '.join(ENCODERS)}.",
            )
        if not self.layers and not self.gnn_layers:
            raise GelgtError(
                "bad_config",
                "layers = 0 and gnn_layers = 0 leave no branch.",
                hint="Keep the attention or the GNN branch.",
            )


class TrainConfig(Config):
    """How a model is trained. The defaults are the preset `gpu`.

    Attributes:
        epochs: At most so many; early stopping usually ends before.
        batch_size: Seeds of a step.
        windows: Training seed times in the length of each label window, where a task's labels can
            be computed at other times: more, overlapping examples. ``auto`` takes up to 4, as long
            as they are at most 20,000 rows: small tables gain most. Validation and test keep
            theirs.
        ensemble: Networks that are trained one after the other with different seeds, and predict by
            their mean. ``auto`` is 5 where there are at most 10,000 labels to learn from, whose
            networks differ most by their seed, and 1 otherwise.
        stale: Copies of each training seed that see rows up to an earlier time, as test seeds of
            the frozen regime do: three years after the horizon nobody's last race is a week old.
            Lags are those at which the task is evaluated. ``auto`` is 1 in the frozen regime where
            that is more than one window, and 0 otherwise.
        steps_per_epoch: An epoch ends after so many steps, so that huge label tables are evaluated
            often enough; None: all labels.
        rate: Learning rate of Adam; μ and σ have `model.time_rate` times it.
        optimizer: ``adamw`` (weight decay apart from the gradient, none for μ and σ) or ``adam``
            (the published form: an L2 term in the gradient of every parameter).
        weight_decay: How strong it is.
        warmup: Steps in which the rate rises from 0.
        clip: Largest norm of the gradient; None: no limit.
        patience: Epochs without a better validation score after which training stops.
        weight_average: Decay of the moving average of the weights that is evaluated and kept; 0
            evaluates the weights themselves.
        best_epochs: The final weights are the mean of those of so many best epochs, unless their
            validation score is worse than the best epoch's by more than a quarter of its
            uncertainty. On a small validation set the best epoch is also the luckiest; 1 takes it.
        retrain: Once validation has chosen the epochs, the model is retrained for as many on every
            label that is known at the test time: those of training and of validation. Test scores
            and predictions are those of the retrained model, validation scores those of the one
            before. It takes about as long again.
        eval_rows: At most so many validation rows are scored after an epoch (the final scores use
            all).
        precision: ``auto`` is bf16 on CUDA, float32 elsewhere.
        time_limit: Seconds of training after which the best weights so far are taken; None: no
            limit.
        seed: Of initial weights, order and dropout.
    """

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
    time_limit: float | None = Field(default=None, gt=0)
    seed: int = Field(default=0, ge=0, lt=2**31)
