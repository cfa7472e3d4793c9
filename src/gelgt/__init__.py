"""gelgt: predictions on relational databases with the Gaussian Relational Graph Transformer.

    import gelgt
    db = gelgt.open("sqlite:///shop.db")
    task = db.task("PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id")

Every public name is imported on first use, so that `import gelgt` stays light (no torch, no pandas).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "open": "gelgt.sources",
    "Database": "gelgt.sources",
    "Task": "gelgt.tasks",
    "GelGTConfig": "gelgt.config",
    "SamplingConfig": "gelgt.config",
    "GelgtError": "gelgt.errors",
}
__all__ = ["Database", "GelGTConfig", "GelgtError", "SamplingConfig", "Task", "__version__", "open"]

if TYPE_CHECKING:
    from gelgt.config import GelGTConfig, SamplingConfig
    from gelgt.errors import GelgtError
    from gelgt.sources import Database, open
    from gelgt.tasks import Task


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gelgt' has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
