"""Presets: one word for a whole set of choices, and `--set a.b=c` for single ones. Every value
keeps its origin.

>>> run = RunConfig.of("cpu", "regression", {"model.width": 128})
>>> run.model.width, run.origins["model.width"], run.origins["model.layers"]
(128, 'set', 'preset')

gpu     the product: the defaults of every setting
cpu     the same, smaller: trains the demo in two minutes on two cores
paper   every value of the paper's hyper-parameter table, trained as it says: Adam with L2 decay and
        one learning rate, in float32. What the paper leaves open, and where gelgt goes its own way,
        is listed in docs/model.md, "The preset paper", and nowhere else.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field, SerializeAsAny, TypeAdapter, ValidationError, model_validator

from gelgt.config import ENCODERS, GelGTConfig, ModelConfig, SamplingConfig, TrainConfig
from gelgt.errors import GelgtError, did_you_mean
from gelgt.registry import find_model
from gelgt.settings import Config

PRESETS = ("cpu", "gpu", "paper")
# How the paper trains gelgt; a preset `paper` of another model is that model's own, and the rest of
# its training is gelgt's default.
_GELGT_ALONE = ("optimizer", "clip", "precision")
Origin = Literal["default", "preset", "set", "derived"]

# What differs from the class defaults, which are the preset `gpu`.
_VALUES: dict[str, dict[str, dict[str, Any]]] = {
    "cpu": {
        "model": {
            "width": 64,
            "layers": 1,
            "keep": 48,
            "dropout": 0.1,
            "gnn_dropout": 0.1,
            "row_width": 16,
            "column_members": 4,
            "kernels": None,
            # The newest order decides in the demo shop, which was better with these two (one run
            # each, docs/research/quality.md).
            "encoders": ("table", "hop", "age", "row", "recency"),
            "time_scale": "linear",
        },
        "sampling": {"budget": 80, "fanout": 32},
        "train": {
            "epochs": 30,
            "ensemble": "auto",
            "steps_per_epoch": 100,
            "patience": 8,
            "eval_rows": 4000,
        },
    },
    "gpu": {"model": {}, "sampling": {}, "train": {}},
    "paper": {
        "model": {
            "width": 512,
            "layers": 4,
            "heads": 4,
            "keep": 200,
            "gnn_layers": 3,
            "gnn_mean": "all",
            "wiring": "parallel",
            "dropout": 0.3,
            "attention_dropout": None,
            "gnn_dropout": 0.1,
            "encoders": ENCODERS,
            "row_width": 128,
            "row_layers": 4,
            "row_names": True,
            "row_times": True,
            "structure_width": 128,
            "history": 0,
            "calendar": False,
            "trees": False,
            "futures": 0.0,
            "kernels": None,
            "kernel": "published",
            "time_scale": "linear",
            "time_rate": 1.0,
            "norm": "batch",
            "centroids": 4096,
        },
        "sampling": {"fanout": None},
        "train": {
            "epochs": 10,
            "batch_size": 64,
            "windows": 1,
            "ensemble": 1,
            "stale": 0,
            "steps_per_epoch": 500,
            "rate": 1e-4,
            "optimizer": "adam",
            "weight_decay": 1e-5,
            "warmup": 10,
            "clip": None,
            "patience": 10,  # as many as there are epochs: none is left out
            "weight_average": 0.0,
            "best_epochs": 1,
            "retrain": False,
            "precision": "float32",
            "time_limit": None,
        },
    },
}


class RunConfig(Config):
    """Everything that decides how a run goes.

    Attributes:
        preset: The name of the preset that it began with.
        kind: Which model, by its name in `gelgt.registry`.
        model: The model.
        sampling: The neighbourhoods; visibility, horizon and causality follow from the task and the
            regime.
        train: The training.
        origins: For each value, such as ``model.width``: ``default``, ``preset``, ``set`` (by the
            user) or ``derived`` (from the task).
    """

    preset: str = "cpu"
    kind: str = "gelgt"
    model: SerializeAsAny[ModelConfig] = GelGTConfig()
    sampling: SamplingConfig = SamplingConfig()
    train: TrainConfig = TrainConfig()
    origins: dict[str, Origin] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _typed(cls, content: Any) -> Any:
        """Settings of a model as they stand in a file become those of its kind."""
        if isinstance(content, dict) and isinstance(content.get("model"), dict):
            return content | {
                "model": config_type(content.get("kind", "gelgt"))(**content["model"])
            }
        return content

    @classmethod
    def of(
        cls,
        preset: str = "cpu",
        task_type: str | None = None,
        changes: Mapping[str, Any] | None = None,
        kind: str = "gelgt",
    ) -> "RunConfig":
        """A preset for a kind of task and of model, with single values changed.

        Raises:
            GelgtError: no such preset, model or value.

        Example:
            >>> run = RunConfig.of("paper", "regression", {"model.width": 64})
            >>> run.model.width, run.model.keep, run.sampling.budget, run.origins["model.width"]
            (64, 300, 500, 'set')
        """
        if preset not in PRESETS:
            raise GelgtError(
                "unknown_preset",
                f"There is no preset '{preset}'.",
                hint=did_you_mean(preset, PRESETS),
            )
        sections: dict[str, type[Config]] = {
            "model": config_type(kind),
            "sampling": SamplingConfig,
            "train": TrainConfig,
        }
        of_model = {} if kind == "gelgt" else find_model(kind).presets.get(preset, {})
        shared = _VALUES[preset]
        if kind != "gelgt":
            shared = shared | {
                "model": {},
                "train": {key: v for key, v in shared["train"].items() if key not in _GELGT_ALONE},
            }
        values = {name: {**shared.get(name, {}), **of_model.get(name, {})} for name in sections}
        origins: dict[str, Origin] = {
            f"{name}.{key}": "preset" if key in values[name] else "default"
            for name, section in sections.items()
            for key in section.model_fields
        }
        for path, value in _derived(preset, task_type).items() if kind == "gelgt" else ():
            name, key = path.split(".")
            values[name][key], origins[path] = value, "derived"
        for path, value in (changes or {}).items():
            if path not in origins:
                raise GelgtError(
                    "unknown_setting",
                    f"There is no setting '{path}'.",
                    hint=did_you_mean(path, origins),
                )
            name, key = path.split(".")
            if value == "none" and "'none'" not in str(sections[name].model_fields[key].annotation):
                value = None  # a word of its own only where a setting knows it, such as model.bias
            values[name][key], origins[path] = value, "set"
        checked: dict[str, Any] = {
            name: section(**values[name]) for name, section in sections.items()
        }
        return cls(preset=preset, kind=kind, origins=origins, **checked)

    def with_values(self, origin: Origin, **changes: Any) -> "RunConfig":
        """A copy with values changed, each named as ``section__key``."""
        content, origins = self.model_dump(), dict(self.origins)
        for name, value in changes.items():
            section, key = name.split("__")
            content[section][key] = value
            origins[f"{section}.{key}"] = origin
        return RunConfig(**(content | {"origins": origins}))


def config_type(kind: str) -> type[ModelConfig]:
    """The class of a model's settings; gelgt's own is known without importing the model."""
    return GelGTConfig if kind == "gelgt" else find_model(kind).config_type


def _derived(preset: str, task_type: str | None) -> dict[str, Any]:
    """What follows from the task: the paper gives regression larger neighbourhoods."""
    if preset == "paper" and task_type == "regression":
        return {"model.keep": 300, "sampling.budget": 500}
    return {}


def parse_settings(texts: Iterable[str]) -> dict[str, Any]:
    """``model.width=64`` as written after ``--set``: numbers, true, false, text, or a list with
    commas.

    Example:
        >>> parse_settings(["model.width=64", "model.encoders=table,hop,row", "model.bias=none"])
        {'model.width': 64, 'model.encoders': ('table', 'hop', 'row'), 'model.bias': 'none'}
    """
    changes = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            raise GelgtError(
                "bad_setting", f"'{text}' sets nothing.", hint="Write it as model.width=64."
            )
        changes[path.strip()] = _value(value.strip())
    return changes


def _value(text: str) -> Any:
    if "," in text:
        return tuple(_value(part.strip()) for part in text.split(",") if part.strip())
    try:
        return TypeAdapter(bool | int | float).validate_json(text.lower())
    except ValidationError:
        return text
