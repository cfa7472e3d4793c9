"""Inference: predictions, seed vectors and scores of a trained run, on a source that may have
changed since.

predictor = Predictor(load_run("runs/churn"), "sqlite:///shop.db")
predictor.predict(entities=[42, 57], at="2026-11-01").to_pandas()
chosen = predictor.seeds(at="2026-11-01")                               # everyone
write_predictions(predictor.predict_table(chosen.rows, chosen.times), "all.parquet")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gelgt.inference.bounds import bounds_of
from gelgt.inference.drift import Opened
from gelgt.inference.prediction import Prediction
from gelgt.inference.predictor import Predictor
from gelgt.inference.recommend import Recommend
from gelgt.inference.seeds import SeedRows
from gelgt.inference.source import open_for
from gelgt.inference.write import check_path, write_predictions

if TYPE_CHECKING:
    from gelgt.inference.evaluate import evaluate_run
    from gelgt.inference.relbench import write_relbench

# Scores read labels as training does; a prediction does without it.
_LATER = {
    "evaluate_run": "gelgt.inference.evaluate",
    "write_relbench": "gelgt.inference.relbench",
}
__all__ = [
    "Opened",
    "Prediction",
    "Predictor",
    "Recommend",
    "SeedRows",
    "bounds_of",
    "check_path",
    "evaluate_run",
    "open_for",
    "write_predictions",
    "write_relbench",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'gelgt.inference' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
