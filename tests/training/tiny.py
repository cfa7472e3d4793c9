"""The preset `cpu`, made tiny."""

from typing import Any

from gelgt.presets import RunConfig

SMALL: dict[str, Any] = {
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "model.calendar": True,
    "model.trees": True,
    "sampling.budget": 24,
    "train.batch_size": 32,
    "train.epochs": 2,
    "train.steps_per_epoch": 4,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.warmup": 2,
}


def small(task_type: str | None = None, **changes: Any) -> RunConfig:
    """The preset `cpu`, made tiny; changes are named as ``train__rate``."""
    return RunConfig.of(
        "cpu",
        task_type,
        SMALL | {name.replace("__", "."): value for name, value in changes.items()},
    )
