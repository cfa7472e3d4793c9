"""A prediction told apart: the network or networks alone, the trees alone, and both together.

Raw outputs are mixed, (1 - share) · network + share · trees, so each part is computed once for a
split and all three follow from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import TrainConfig
from gelgt.metrics import score
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.trees import Trees
from gelgt.sampling import Seeds
from gelgt.training.data import TrainingData
from gelgt.training.predict import raw_outputs

NETWORK, TREES = "network", "trees"


@dataclass(frozen=True)
class Parts:
    """Predictions for seeds, in their order.

    Attributes:
        together: What the model predicts: probabilities or values.
        alone: What each part predicts by itself, by its name: ``network``, and ``trees`` where some
            were grown.
        share: Of the trees in what the model predicts.
    """

    together: NDArray[np.float64]
    alone: Mapping[str, NDArray[np.float64]]
    share: float = 0.0


def network_outputs(
    model: RelationalModel | Ensemble,
    data: TrainingData,
    seeds: Seeds,
    config: TrainConfig,
    device: torch.device | str,
) -> Tensor:
    """(E, outputs) raw outputs of the network, or of the mean of several, for those seeds that
    exist at their time."""
    some = seeds.take(np.flatnonzero(data.exists(seeds)))
    if not len(some):
        return torch.zeros(0, data.target.outputs)
    return raw_outputs(without_trees(model), data, some, config, device)


def tree_outputs(trees: Trees, data: TrainingData, seeds: Seeds) -> Tensor:
    """(E, outputs) raw outputs of trees for those seeds that exist at their time."""
    columns = data.history(seeds.take(np.flatnonzero(data.exists(seeds))))
    assert columns is not None  # trees are grown on nothing else
    with torch.inference_mode():
        found: Tensor = trees(columns.to(trees.leaf.device)).float().cpu()
    return found


def in_parts(
    data: TrainingData, seeds: Seeds, network: Tensor, trees: Trees | None, share: float
) -> Parts:
    """Predictions from the outputs of the network, and of trees where there are some; the base rate
    for entities that do not exist yet."""
    alone = {NETWORK: _decoded(data, seeds, network)}
    if trees is None:
        return Parts(alone[NETWORK], alone)
    beside = tree_outputs(trees, data, seeds)
    alone[TREES] = _decoded(data, seeds, beside)
    together = (
        _decoded(data, seeds, (1 - share) * network + share * beside) if share else alone[NETWORK]
    )
    return Parts(together, alone, share)


def predict_parts(
    model: RelationalModel | Ensemble,
    data: TrainingData,
    seeds: Seeds,
    config: TrainConfig,
    device: torch.device | str,
) -> Parts:
    """Predictions of a model with its trees, if it has some."""
    trees = model.trees if isinstance(model, Ensemble) else None
    share = float(model.share) if isinstance(model, Ensemble) and trees is not None else 0.0
    return in_parts(data, seeds, network_outputs(model, data, seeds, config, device), trees, share)


def without_trees(model: RelationalModel | Ensemble) -> RelationalModel | Ensemble:
    """The network alone, or several as one."""
    if not isinstance(model, Ensemble) or model.trees is None:
        return model
    return model.first if len(model.members) == 1 else Ensemble(list(model.members))  # type: ignore[arg-type]  # a ModuleList does not say


def part_scores(
    task_type: str, labels: Mapping[str, NDArray[Any]], parts: Mapping[str, Parts]
) -> dict[str, dict[str, dict[str, float]]]:
    """The scores of each part alone: part → split → metric → value."""
    names = [
        name for name in (NETWORK, TREES) if any(name in found.alone for found in parts.values())
    ]
    return {
        name: {
            split: score(task_type, labels[split], found.alone[name])
            for split, found in parts.items()
            if name in found.alone
        }
        for name in names
    }


def _decoded(data: TrainingData, seeds: Seeds, raw: Tensor) -> NDArray[np.float64]:
    found: NDArray[np.float64] = data.target.decode(torch.tensor([data.target.start])).repeat(
        len(seeds), axis=0
    )
    there = data.exists(seeds)
    if there.any():
        found[there] = data.target.decode(raw)
    return found
