"""What a score is compared with: two baselines, on the same seeds, splits and rows.

    entity_mean(task)           the entity's own past labels, averaged
    lightgbm_baseline(data)     boosted trees on causal aggregates of the neighbouring tables

Both know of time what the model knows: a label when its window has closed, a row when it lies
before the seed's limit.
"""

from gelgt.baselines.entity_mean import entity_mean
from gelgt.baselines.lightgbm import Examples, LightGBMResult, has_lightgbm, lightgbm_baseline

__all__ = ["Examples", "LightGBMResult", "entity_mean", "has_lightgbm", "lightgbm_baseline"]
