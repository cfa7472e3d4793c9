"""Explanations: why a model predicts what it does, checked by deletion.

why = Explainer(predictor).explain(42, at="2026-11-01")
why.save("why.html")

neighbourhood.py   the rows that a prediction rests on, and the paths to them
reader.py, survey.py   what lies on these paths, and what of it the sample left out
variants.py        the same seed without some rows, or with other values in some columns
history.py, lists.py, blocks.py   their history columns
game.py, owen.py   what each path, row and column adds
check.py           whether removing what is named changes the prediction
whole.py           what a model as a whole rests on
items.py, item_reasons.py   why a row is recommended
explanation.py     the result, in the user's own tables, keys and times
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gelgt.explain.explainer import Explainer
    from gelgt.explain.explanation import Effect, Explanation
    from gelgt.explain.owen import Effort
    from gelgt.explain.whole import WholeExplanation, explain_whole

_HOME = {
    "Effect": "gelgt.explain.explanation",
    "Effort": "gelgt.explain.owen",
    "Explainer": "gelgt.explain.explainer",
    "Explanation": "gelgt.explain.explanation",
    "WholeExplanation": "gelgt.explain.whole",
    "explain_whole": "gelgt.explain.whole",
}
__all__ = [
    "Effect",
    "Effort",
    "Explainer",
    "Explanation",
    "WholeExplanation",
    "explain_whole",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gelgt.explain' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
