"""The smallest set of rows found whose absence turns the decision: rows are removed greedily until
it turns, then put back one by one where it stays turned. A smaller set may exist."""

from dataclasses import dataclass

import numpy as np

from gelgt.explain.stand_ins import ABSENT, ITSELF
from gelgt.explain.variants import Floats, Variants

CANDIDATES = 16  # rows that each step tries
STEPS = 16
LEAST = 1e-4  # what a step has to move


@dataclass(frozen=True)
class Counterfactual:
    """Units without which the prediction lies on the other side of the threshold; empty where no
    set was found."""

    units: tuple[int, ...]
    prediction: float
    threshold: float


def counterfactual(variants: Variants, score: Floats, threshold: float) -> Counterfactual:
    """Look for the rows whose absence turns a decision.

    Args:
        score: (U,) effects of the units, which propose the candidates.
        threshold: The decision turns where the prediction crosses it.
    """
    state = variants.full
    value = float(variants.predict(state[None])[0])
    is_above = value > threshold
    sign = 1.0 if is_above else -1.0
    removed: list[int] = []
    while (value > threshold) == is_above and len(removed) < STEPS:
        left = np.array([u for u in range(1, len(state)) if state[u] != ABSENT], np.int64)
        if not len(left):
            break
        tried = left[np.argsort(-sign * score[left], kind="stable")][:CANDIDATES]
        states = np.repeat(state[None], len(tried), 0)
        states[np.arange(len(tried)), tried] = ABSENT
        values = variants.predict(states)
        best = int(np.argmin(sign * values))
        if sign * (value - values[best]) < LEAST:
            break
        state, value = states[best], float(values[best])
        removed.append(int(tried[best]))
    if (value > threshold) == is_above:
        return Counterfactual((), value, threshold)
    for unit in list(removed):
        again = state.copy()
        again[unit] = ITSELF
        back = float(variants.predict(again[None])[0])
        if (back > threshold) != is_above:
            state, value = again, back
            removed.remove(unit)
    return Counterfactual(tuple(removed), value, threshold)
