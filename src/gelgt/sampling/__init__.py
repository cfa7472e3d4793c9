"""② Structural integrity sampling: causal subgraphs around (entity, time) seeds, while training."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gelgt.config import SamplingConfig
from gelgt.sampling.sample import Sample
from gelgt.sampling.sampler import Sampler
from gelgt.sampling.seeds import Seeds, entity_keys, make_seeds, task_seeds

if TYPE_CHECKING:
    from gelgt.sampling.batch import SubgraphBatch
    from gelgt.sampling.loader import SubgraphLoader

__all__ = [
    "Sample",
    "Sampler",
    "SamplingConfig",
    "Seeds",
    "SubgraphBatch",
    "SubgraphLoader",
    "entity_keys",
    "make_seeds",
    "task_seeds",
]


def __getattr__(name: str) -> Any:
    # Tensors need torch; sampling itself does not.
    homes = {"SubgraphBatch": "gelgt.sampling.batch", "SubgraphLoader": "gelgt.sampling.loader"}
    if name not in homes:
        raise AttributeError(f"module 'gelgt.sampling' has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)
