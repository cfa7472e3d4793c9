"""The preset `cpu`, made tiny, and what it reads of a task."""

from typing import Any

from gelgt import Database, Task
from gelgt.history import choose
from gelgt.presets import RunConfig
from gelgt.training.budget import columns_budget
from gelgt.training.data import TrainingData

SMALL: dict[str, Any] = {
    "train.retrain": False,
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "model.history_columns": 20,
    "model.column_members": 2,
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


_opened: dict[tuple[Any, ...], TrainingData] = {}


def opened(db: Database, task: Task, config: RunConfig) -> TrainingData:
    """`TrainingData.of`, once for all that read the same: choosing history columns takes longer
    than a few steps of training."""
    reads = (config.model.model_dump_json(), config.sampling.model_dump_json())
    key = (id(db), id(task), *reads, config.train.seed, columns_budget(config), choose.ROUNDS)
    if key not in _opened:
        _opened[key] = TrainingData.of(db, task, config)
    return _opened[key]
