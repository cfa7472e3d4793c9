"""A prediction by its parts: the network alone, its columns network alone, the trees alone, and all
together.

Raw outputs are averaged, (1 - share) · network + share · trees, so each part is computed once for a
list of seeds and all predictions follow from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.metrics import score
from gelgt.sampling import Seeds
from gelgt.scoring.seed_data import SeedData

NETWORK, COLUMNS, TREES, CALIBRATION = "network", "columns", "trees", "calibration"
Scores = dict[str, float | None]


@dataclass(frozen=True)
class Parts:
    """Predictions for seeds, in their order.

    Attributes:
        together: What the model predicts: probabilities, values, or rows that it recommends.
        alone: What each part predicts by itself, by its name: ``network``, ``columns`` where the
            network has a columns network, and ``trees`` where some were grown.
        share: Of the trees in what the model predicts.
    """

    together: NDArray[Any]
    alone: Mapping[str, NDArray[Any]]
    share: float = 0.0


def decoded(data: SeedData, seeds: Seeds, outputs: Mapping[str, Tensor], share: float) -> Parts:
    """Predictions from the raw outputs (E, outputs) of each part for the seeds that exist; the base
    rate for the others."""
    exists = data.exists(seeds)
    base = data.target.decode(torch.tensor([data.target.start]))

    def predictions(raw: Tensor) -> NDArray[np.float64]:
        values: NDArray[np.float64] = base.repeat(len(seeds), axis=0)
        if exists.any():
            values[exists] = data.target.decode(raw)
        return values

    alone = {name: predictions(raw) for name, raw in outputs.items()}
    if not share:
        return Parts(alone[NETWORK], alone)
    together = predictions((1 - share) * outputs[NETWORK] + share * outputs[TREES])
    return Parts(together, alone, share)


def part_scores(
    task_type: str, labels: Mapping[str, NDArray[Any]], parts: Mapping[str, Parts]
) -> dict[str, dict[str, Scores]]:
    """The scores of each part alone: part → split → metric → value."""
    every = (NETWORK, COLUMNS, TREES)
    names = [name for name in every if any(name in p.alone for p in parts.values())]
    return {
        name: {
            split: dict(score(task_type, labels[split], of_split.alone[name]))
            for split, of_split in parts.items()
            if name in of_split.alone
        }
        for name in names
    }
