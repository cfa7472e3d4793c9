"""Scoring: seeds in, predictions, seed vectors or attention out (`Scorer`).

Validation, evaluate, predict, embed and the benchmarks all go through it.
"""

from gelgt.scoring.parts import Parts
from gelgt.scoring.scorer import Scorer
from gelgt.scoring.seed_data import SeedData

__all__ = ["Parts", "Scorer", "SeedData"]
