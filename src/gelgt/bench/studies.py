"""The studies of the paper that train models, each as its list of variants.

quality      models beside each other and beside baselines (tables 1 and 2, rel-salt, rel-ratebeer,
             emerging architectures)
ablation     GelGT without each of its parts (tables 3 and 4, the GNN branch)
bias         kinds of temporal bias
generality   GelGT's sampling and bias in other models
sweep-size   neighbourhoods of other sizes, the share that refinement keeps held
sweep-hops   deeper neighbourhoods
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from gelgt.baselines.lightgbm import has_lightgbm
from gelgt.bench.cells import BASELINES
from gelgt.bench.study import Settings, Study, Variant, fixed
from gelgt.config import Bias
from gelgt.errors import GelgtError, did_you_mean
from gelgt.presets import RunConfig
from gelgt.registry import model_names

SIZES = (100, 200, 300, 400, 500)
HOPS = (2, 3, 4, 5)
KEEP = 2 / 3  # the paper keeps 200 of 300 rows


def quality(models: Sequence[str] = ()) -> Study:
    """Models beside each other; the first one named, or gelgt, is what the others are compared
    with."""
    names = list(dict.fromkeys(models)) or ["gelgt"]
    choices = [*model_names(), *BASELINES]
    for name in names:
        if name not in choices:
            raise GelgtError(
                "unknown_model", f"There is no model '{name}'.", hint=did_you_mean(name, choices)
            )
    return Study(
        "quality",
        "Models on the same tasks, rows and splits",
        tuple(_variant(name) for name in names),
        names[0],
    )


def with_baselines(study: Study) -> Study:
    """A study with LightGBM, the entity's past labels and for regression a constant beside it.

    LightGBM is left out where it is not installed. Over two hops, which takes longest, it is part
    of `quality` alone: the other studies do not ask which model is best.
    """
    skipped = [name for name in BASELINES if name.startswith("lightgbm") and not has_lightgbm()]
    skipped += ["lightgbm-2hop"] if study.name != "quality" else []
    skipped += [variant.kind for variant in study.variants]
    added = [_variant(name) for name in BASELINES if name not in skipped]
    return replace(study, variants=(*study.variants, *added))


def _variant(name: str) -> Variant:
    return Variant(name, name, tasks=("regression",) if name == "constant" else ())


def ablation(only: Sequence[str] = ()) -> Study:
    """GelGT without each of its parts: those that the paper removes, and those that this project
    added. `only` names some of these variants."""
    removed: dict[str, Mapping[str, Any]] = {
        "gelgt": {},
        # the paper: "we use random sampling instead"
        "without-sampling": {"sampling.strategy": "random"},
        "without-refinement": {"model.keep": None},  # "we retain all sampled nodes"
        "without-bias": {"model.bias": "none"},  # "vanilla self-attention"
        "without-gnn": {"model.gnn_layers": 0},
        "without-attention": {"model.layers": 0},
        # What this project added to the published method.
        "without-history": {"model.history": 0, "model.trees": False},
        "without-calendar": {"model.calendar": False},
        "without-trees": {"model.trees": False},
        "without-retrain": {"train.retrain": False},
        "without-stale": {"train.stale": 0},
        "without-windows": {"train.windows": 1},
        "without-best-epochs": {"train.best_epochs": 1},
        "without-ensemble": {"train.ensemble": 1},
    }
    for name in only:
        if name not in removed:
            raise GelgtError(
                "unknown_variant",
                f"The ablation has no variant '{name}'.",
                hint=did_you_mean(name, removed),
            )
    chosen = [name for name in removed if not only or name in only or name == "gelgt"]
    variants = tuple(Variant(name, settings=fixed(removed[name])) for name in chosen)
    return Study("ablation", "GelGT without each of its parts", variants, "gelgt")


def bias() -> Study:
    """Kinds of temporal bias in GelGT."""
    variants = tuple(Variant(name, settings=fixed({"model.bias": name})) for name in get_args(Bias))
    return Study("bias", "Kinds of temporal bias", variants, "gaussian")


def generality(models: Sequence[str] = ("relgt", "relgnn")) -> Study:
    """GelGT's sampling and bias in other models, each compared with its plain self."""
    variants = []
    for model in models:
        variants += [
            Variant(model, model, against=model),
            Variant(f"{model}+sampling", model, _with_sampling, against=model),
        ]
        if model == "relgt":
            variants.append(Variant(f"{model}+sampling+bias", model, _with_both, against=model))
    return Study(
        "generality", "GelGT's sampling and bias in other models", tuple(variants), models[0]
    )


def sweep(over: str, points: Sequence[int] | None = None) -> Study:
    """`sweep_size` or `sweep_hops`, at their own points if none are given."""
    return sweep_size(points or SIZES) if over == "size" else sweep_hops(points or HOPS)


def sweep_size(sizes: Sequence[int] = SIZES) -> Study:
    """Neighbourhoods of other sizes; refinement keeps the preset's share of them."""

    def sized(size: int) -> Settings:
        def settings(base: RunConfig) -> Mapping[str, Any]:
            keep = base.model.keep
            return {"sampling.budget": size} | (
                {}
                if keep is None
                else {"model.keep": max(1, round(size * keep / base.sampling.budget))}
            )

        return settings

    variants = tuple(Variant(f"K={size}", settings=sized(size)) for size in sizes)
    return Study(
        "sweep-size",
        "Rows of a neighbourhood",
        variants,
        _middle("K", sizes, 300),
        "rows of a neighbourhood",
        tuple(sizes),
    )


def sweep_hops(hops: Sequence[int] = HOPS) -> Study:
    """Deeper neighbourhoods of the same size."""
    variants = tuple(Variant(f"hops={hop}", settings=fixed({"sampling.hops": hop})) for hop in hops)
    return Study(
        "sweep-hops",
        "Depth of a neighbourhood",
        variants,
        _middle("hops", hops, 2),
        "hops",
        tuple(hops),
    )


def temporal() -> Study:
    """GelGT alone, for μ and σ by epoch."""
    return Study(
        "temporal",
        "Centres and widths of the temporal kernels, epoch by epoch",
        (Variant("gelgt"),),
        "gelgt",
    )


def _with_sampling(base: RunConfig) -> Mapping[str, Any]:
    """Breadth-first search for the newest rows, then refinement to two thirds of the model's own
    budget."""
    gelgt = RunConfig.of(base.preset).sampling
    return {
        "sampling.strategy": gelgt.strategy,
        "sampling.order": gelgt.order,
        "sampling.fanout": gelgt.fanout,
        "sampling.hops": gelgt.hops,
        "model.keep": max(1, round(KEEP * base.sampling.budget)),
    }


def _with_both(base: RunConfig) -> Mapping[str, Any]:
    return {**_with_sampling(base), "model.bias": "gaussian"}


def _middle(word: str, values: Sequence[int], usual: int) -> str:
    """The variant that the others are compared with: the paper's value, or the first."""
    return f"{word}={usual if usual in values else values[0]}"
