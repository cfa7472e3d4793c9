"""gelgt: predictions on relational databases with the Gaussian Relational Graph Transformer.

    import gelgt
    db = gelgt.open("sqlite:///shop.db")
    task = db.task("PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id")
    model = gelgt.GelGT(preset="cpu").fit(db, task)
    model.predict(db, entities=[42, 57], at="2026-11-01")

Every public name is imported on first use, so that `import gelgt` stays light (no torch, no
pandas).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "open": "gelgt.sources",
    "Database": "gelgt.sources",
    "Task": "gelgt.tasks",
    "GelGT": "gelgt.estimator",
    "load": "gelgt.estimator",
    "Prediction": "gelgt.inference",
    "Explanation": "gelgt.explain",
    "GelGTConfig": "gelgt.config",
    "SamplingConfig": "gelgt.config",
    "TrainConfig": "gelgt.config",
    "GelgtError": "gelgt.errors",
    "register_model": "gelgt.registry",  # for those who write models (docs/models.md)
}
__all__ = [
    "Database",
    "Explanation",
    "GelGT",
    "GelGTConfig",
    "GelgtError",
    "Prediction",
    "SamplingConfig",
    "Task",
    "TrainConfig",
    "__version__",
    "load",
    "open",
]

if TYPE_CHECKING:
    from gelgt.config import GelGTConfig, SamplingConfig, TrainConfig
    from gelgt.errors import GelgtError
    from gelgt.estimator import GelGT, load
    from gelgt.explain import Explanation
    from gelgt.inference import Prediction
    from gelgt.registry import register_model as register_model
    from gelgt.sources import Database, open
    from gelgt.tasks import Task


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(
            f"module 'gelgt' has no attribute {name!r}; it offers {', '.join(__all__)}"
        )
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
