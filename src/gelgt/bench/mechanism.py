"""`python -m gelgt.bench.mechanism`: does the Gaussian bias find a lag that was planted, and what
is it worth beside the age encoder?

On databases whose label depends on the values of events about L days back alone
(`gelgt.testing.lag`), small models are trained with and without the bias by a plain loop: Adam,
cross entropy, early stopping on validation. Timestamps are hidden from the row encoder.

    alone     no age encoder: the bias is all that knows time
    beside    with the age encoder: AUC, and the steps until validation reaches 98 % of its best

The strongest kernel has the largest weights (norm over heads) in its column of W; weights are
positive (see docs/research/mechanism.md for what free signs do). `peak_days` is where the bias
averaged over heads is largest. The model is one attention block of width 32; refinement, GNN branch
and structure noise, which could hide or leak what is asked here, are off.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from statistics import fmean as mean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from gelgt.bench.machine import machine
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

    made: LagDatabase
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
        made = lag_database(lag, rows, eval_rows=eval_rows, seed=seed)
        db = made.open(folder)
        graph = db.graph()
        seeds = {
            name: make_seeds(db, graph, "users", split.user, split.time)
            for name, split in made.splits.items()
        }
        return cls(made, graph, db.features(), seeds, budget)

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
        return torch.from_numpy(self.made.splits[split].label)

    def ages(self, seeds: int = 512) -> Tensor:
        """Ages of sampled training rows, the seeds themselves left out."""
        batch: SubgraphBatch = next(iter(self.loader("train", seeds)))
        return batch.age[batch.has_time & (batch.hop > 0)]


@dataclass(frozen=True)
class Training:
    """The plain loop's settings; patience counts evaluations without a better AUC."""

    rate: float = 2e-3
    batch_size: int = 64
    max_steps: int = 4000
    eval_every: int = 50
    patience: int = 60


@dataclass
class Outcome:
    """What one training gave: AUCs at the best validation, the curve of (step, validation AUC), and
    the kernels, strongest first."""

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
    """Train one model, reproducibly by its seed; `start` may set μ and σ otherwise than the model
    does."""
    began, threads = time.perf_counter(), torch.get_num_threads()
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
    outcome.seconds = round(time.perf_counter() - began, 1)
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
    found = []
    for kernel in chain.from_iterable(model.temporal_profile()):
        weights = np.array(kernel["weights"])
        found.append(
            kernel
            | {
                "strength": float(np.linalg.norm(weights.clip(min=0))),
                "norm": float(np.linalg.norm(weights)),
            }
        )
    return sorted(found, key=lambda kernel: -float(kernel["strength"]))


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


def run_study(
    lags: Sequence[float] = (7, 30, 180),
    seeds: Sequence[int] = (0, 1, 2),
    rows: Sequence[int] = (1000, 4000, 16_000),
    *,
    alone_rows: int = 16_000,
    training: Training | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """The part `alone` for each lag (days), the part `beside` for each number of training rows; a
    seed fixes database and training.

    Returns:
        ``machine``; ``results``, one for each training; ``ratios``: for each lag the gain in mean
        test AUC and the strongest centre over the lag (the worst of the seeds), for each size the
        gain and the steps to 98 % without the bias over those with it.
    """
    plan = [("alone", lag, alone_rows) for lag in lags] + [("beside", 30.0, size) for size in rows]
    results = []
    for part, lag, size in plan:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="gelgt-bench-") as base:
                data = Data.of(lag, size, Path(base) / "lag", seed=seed)
                for bias in ("gaussian", "none"):
                    results.append(_entry(part, data, bias, size, seed, training or Training()))
                    progress(json.dumps(results[-1]))
    return {"machine": machine(), "results": results, "ratios": _ratios(results)}


def _entry(
    part: str, data: Data, bias: Bias, rows: int, seed: int, training: Training
) -> dict[str, Any]:
    outcome = train(data, small_config(bias, part == "beside"), seed, training)
    kernels = (
        {"": outcome.kernels[0], "norm_": max(outcome.kernels, key=lambda k: float(k["norm"]))}
        if outcome.kernels
        else {}
    )
    return {
        "part": part,
        "lag": data.made.lag,
        "rows": rows,
        "bias": bias,
        "seed": seed,
        "test_auc": round(outcome.test_auc, 4),
        "oracle_auc": round(data.made.splits["test"].oracle_auc, 4),
        "steps": outcome.steps,
        "steps_to_98": outcome.steps_to(),
        **{
            f"{which}{of}": round(k[of], 2)
            for which, k in kernels.items()
            for of in ("centre_days", "width_days")
        },
        "peak_days": outcome.peak_days,
        "seconds": outcome.seconds,
    }


def _ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for part, lag, rows in dict.fromkeys((r["part"], r["lag"], r["rows"]) for r in results):
        wanted = [(part, lag, rows, bias) for bias in ("gaussian", "none")]
        given, none = (
            [r for r in results if (r["part"], r["lag"], r["rows"], r["bias"]) == one]
            for one in wanted
        )
        name = f"alone_{lag:g}d" if part == "alone" else f"beside_{rows}"
        ratios[f"{name}_gain"] = round(
            mean(r["test_auc"] for r in given) - mean(r["test_auc"] for r in none), 4
        )
        if part == "alone":
            worst = max(given, key=lambda r: abs(float(r["centre_days"]) - lag))
            ratios[f"{name}_centre_over_lag"] = round(worst["centre_days"] / lag, 3)
        else:
            steps = [mean(r["steps_to_98"] for r in side) for side in (none, given)]
            ratios[f"{name}_steps_without_over_with"] = round(steps[0] / steps[1], 2)
    return ratios


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the study as JSON; one line a training on stderr."""
    parser = argparse.ArgumentParser(prog="python -m gelgt.bench.mechanism")
    parser.add_argument(
        "--lags",
        type=float,
        nargs="*",
        default=[7, 30, 180],
        help="days, for the part without the age encoder",
    )
    parser.add_argument(
        "--alone-rows",
        type=int,
        default=16_000,
        help="of training, for the part without the age encoder",
    )
    parser.add_argument(
        "--rows",
        type=int,
        nargs="*",
        default=[1000, 4000, 16_000],
        help="of training, for the part with it",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = vars(parser.parse_args(arguments))
    print(
        json.dumps(run_study(**given, progress=lambda line: print(line, file=sys.stderr)), indent=1)
    )


if __name__ == "__main__":
    main()
