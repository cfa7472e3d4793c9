"""Row features per table: PyTorch Frame tensors, sliced from memory-mapped arrays.

    features = open_features(db)            # statistics from rows up to the validation time only
    features.frame("orders", rows)          # a TensorFrame of those rows, in that order
    features.col_stats("orders")            # the statistics that PyTorch Frame's encoders take

At prediction time `open_features(newer_db, statistics=features.statistics)` encodes new rows with
the statistics that the model was trained with.
"""

from gelgt.features.build import open_features
from gelgt.features.statistics import FeatureStatistics
from gelgt.features.store import Features
from gelgt.features.text import HashedNgrams, TextEmbedder

__all__ = ["FeatureStatistics", "Features", "HashedNgrams", "TextEmbedder", "open_features"]
