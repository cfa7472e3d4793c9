"""Small models on a database with a planted lag (`gelgt.testing.lag`), trained by a plain loop:
Adam, cross entropy, early stopping on validation.

The model is one attention block of width 32. Timestamps are hidden from the row encoder;
refinement, GNN branch and structure noise, which could hide or leak the lag, are off.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gelgt.config import Bias, Encoder, GelGTConfig, SamplingConfig
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.metrics import roc_auc
from gelgt.nn import GelGTModel, ModelContext, ModelInput
from gelgt.nn.bias import GaussianBias
from gelgt.sampling import Sampler, Seeds, SubgraphLoader, make_seeds
from gelgt.sampling.batch import SubgraphBatch
from gelgt.testing.lag import LagDatabase, lag_database

HIDE = {"events": ("happened_at",)}
CLIP = 1.0  # largest norm of the gradient, as in `gelgt train`
BUDGET = 43  # the seed and its newest 42 events: four lags
_BLOCK: dict[str, Any] = {
    "width": 32,
    "layers": 1,
    "heads": 4,
    "keep": None,
    "gnn_layers": 0,
    "row_width": 16,
    "row_layers": 1,
    "row_names": True,
    "row_times": True,
    "history": 0,
    "calendar": False,
    "trees": False,
    "attention_dropout": None,
    "time_scale": "linear",
}
Start = Callable[[GaussianBias, Tensor], None]  # sets μ and σ from the ages seen in training
SMALL = _BLOCK | {"dropout": 0.0, "kernels": 8, "time_rate": 10.0}


def small_config(bias: Bias, has_age: bool, **changes: Any) -> GelGTConfig:
    """The small model, with or without the bias and the age encoder."""
    encoders: tuple[Encoder, ...] = (
        ("table", "hop", "row", "age") if has_age else ("table", "hop", "row")
    )
    return GelGTConfig(**(SMALL | {"encoders": encoders, "bias": bias} | changes))


@dataclass(frozen=True)
class Data:
    """One generated database, ready to train on."""

    database: LagDatabase
    graph: Graph
    features: Features
    seeds: Mapping[str, Seeds]
    budget: int

    @classmethod
    def of(
        cls,
        lag: float,
        rows: int,
        folder: Path,
        *,
        eval_rows: int = 1000,
        budget: int = BUDGET,
        seed: int = 0,
    ) -> "Data":
        database = lag_database(lag, rows, eval_rows=eval_rows, seed=seed)
        db = database.open(folder)
        graph = db.graph()
        seeds = {
            name: make_seeds(db, graph, "users", split.user, split.time)
            for name, split in database.splits.items()
        }
        return cls(database, graph, db.features(), seeds, budget)

    def loader(
        self, split: str, batch_size: int, generator: torch.Generator | None = None
    ) -> SubgraphLoader:
        sampler = Sampler(self.graph, SamplingConfig(budget=self.budget, fanout=None))
        return SubgraphLoader(
            sampler,
            self.seeds[split],
            batch_size,
            generator=generator,
            layout="packed",
            threads=1,
            prefetch=2,
        )

    def label(self, split: str) -> Tensor:
        return torch.from_numpy(self.database.splits[split].label)

    def ages(self, seeds: int = 512) -> Tensor:
        """Ages of sampled training rows, the seeds themselves left out."""
        batch: SubgraphBatch = next(iter(self.loader("train", seeds)))
        return batch.age[batch.has_time & (batch.hop > 0)]


@dataclass(frozen=True)
class Training:
    """Settings of the plain loop; patience counts evaluations without a better AUC."""

    rate: float = 2e-3
    batch_size: int = 64
    max_steps: int = 4000
    eval_every: int = 50
    patience: int = 60


@dataclass
class Outcome:
    """The result of one training: AUCs at the best validation, the curve of (step, validation AUC),
    and the kernels, strongest first."""

    test_auc: float = 0.5
    val_auc: float = 0.0
    steps: int = 0
    seconds: float = 0.0
    peak_days: float | None = None
    curve: list[tuple[int, float]] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)

    def steps_to(self, share: float = 0.98) -> int:
        """The first evaluated step at which validation reached a share of its best AUC."""
        return next(step for step, reached in self.curve if reached >= share * self.val_auc)


def train(
    data: Data, config: GelGTConfig, seed: int, training: Training, start: Start | None = None
) -> Outcome:
    """Train one model; the seed fixes everything. `start` may set μ and σ instead of the model."""
    start_time, threads = time.perf_counter(), torch.get_num_threads()
    # tensors this small gain nothing from threads, and on a busy machine threads wait for each
    # other
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GelGTModel(config, ModelContext(data.graph, data.features, hide=HIDE))
        ages = data.ages()
        model.start_times(ages)
        for bias in model.biases:
            if start is not None and isinstance(bias, GaussianBias):
                start(bias, ages)
        outcome = _fit(model, data, seed, training)
    torch.set_num_threads(threads)
    outcome.seconds = round(time.perf_counter() - start_time, 1)
    return outcome


def _fit(model: GelGTModel, data: Data, seed: int, training: Training) -> Outcome:
    optimiser = torch.optim.Adam(model.parameter_groups(training.rate))
    loader = data.loader("train", training.batch_size, torch.Generator().manual_seed(seed))
    label, outcome, waited = data.label("train").float(), Outcome(), 0
    for step, batch in enumerate(chain.from_iterable(map(loader.epoch, count())), 1):
        model.train()
        logits = model(ModelInput.of(batch, data.features, HIDE)).squeeze(1)  # (B,)
        optimiser.zero_grad()
        torch.autograd.backward(
            functional.binary_cross_entropy_with_logits(logits, label[batch.index])
        )
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        if step % training.eval_every == 0:
            reached, waited = evaluate(model, data, "val"), waited + 1
            outcome.curve.append((step, reached))
            if reached > outcome.val_auc:
                outcome.val_auc, outcome.steps, waited = reached, step, 0
                outcome.test_auc, outcome.kernels = evaluate(model, data, "test"), strengths(model)
                outcome.peak_days = peak_days(model, float(data.ages().max()))
        if step >= training.max_steps or waited >= training.patience:
            break
    return outcome


@torch.no_grad()
def evaluate(model: GelGTModel, data: Data, split: str) -> float:
    """AUC of a split."""
    model.eval()
    parts = [
        model(ModelInput.of(batch, data.features, HIDE)).squeeze(1)
        for batch in data.loader(split, 256)
    ]
    area = roc_auc(data.label(split).numpy(), torch.cat(parts).numpy())
    assert area is not None  # a split holds both labels
    return area


def strengths(model: GelGTModel) -> list[dict[str, Any]]:
    """Every kernel of every bias, strongest first; `norm` is that of its whole column of W."""
    kernels = []
    for kernel in chain.from_iterable(model.temporal_profile()):
        weights = np.array(kernel["weights"])
        norms = {
            "strength": float(np.linalg.norm(weights.clip(min=0))),
            "norm": float(np.linalg.norm(weights)),
        }
        kernels.append(kernel | norms)
    return sorted(kernels, key=lambda kernel: -float(kernel["strength"]))


@torch.no_grad()
def peak_days(model: GelGTModel, longest: float) -> float | None:
    """The age, up to `longest` days, at which the first Gaussian bias, averaged over its heads, is
    largest."""
    days = torch.linspace(0.0, longest, 2001)
    # (2001,) each
    curves = [
        bias.scores(days[None, None])[0, :, 0].mean(0)
        for bias in model.biases
        if isinstance(bias, GaussianBias)
    ]
    return round(float(days[curves[0].argmax()]), 2) if curves else None
