"""What a score is compared with: two baselines that stand beside every figure, on the same seeds, splits and rows.

    entity_mean(task)                                       the entity's own past labels, averaged
    lightgbm_baseline(db, graph, features, task, sampling)  boosted trees on causal aggregates of the neighbouring tables

Both know of time what the model knows: a label when its window has closed, a row when it lies before the seed's limit.

Beside them, one file each, models of other papers that read the same subgraphs: `--model rdl`, `relgnn`, … (docs/models.md). They are
imported when they are asked for (`gelgt.registry`); `parts.py` has what they share.
"""

from gelgt.zoo.aggregates import Aggregates, aggregates
from gelgt.zoo.entity_mean import entity_mean
from gelgt.zoo.labels import label_space, targets
from gelgt.zoo.lightgbm import Examples, LightGBMResult, lightgbm_baseline

__all__ = ["Aggregates", "Examples", "LightGBMResult", "aggregates", "entity_mean", "label_space", "lightgbm_baseline", "targets"]
