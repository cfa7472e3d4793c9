"""Who is better than whom: rows and seeds must agree."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gelgt.bench.compare import NO_DIFFERENCE, ONE_SEED, compare


class Made:
    """A finished cell with given predictions."""

    def __init__(self, label: np.ndarray, prediction: np.ndarray) -> None:
        self.label, self.prediction = label, prediction
        self.metrics: dict[str, Any] = {"regime": "frozen", "seconds": 1.0}
        self.cell = SimpleNamespace()

    def predictions(self, split: str) -> tuple[np.ndarray, np.ndarray]:
        return self.label, self.prediction


def compared(task_type: str, label: np.ndarray, draws: int = 200, **models: list[np.ndarray]) -> dict[tuple[str, str], dict[str, Any]]:
    outcomes: Any = {name: [Made(label, values) for values in each] for name, each in models.items()}
    found = compare("t", task_type, outcomes, dict.fromkeys(models, "gelgt"), draws)
    return {(entry["metric"], entry["model"]): entry for entry in found}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_who_beats_whom(rng: np.random.Generator) -> None:
    label = rng.integers(0, 2, 400)
    good, bad = label + rng.normal(0, 0.7, 400), label + rng.normal(0, 5, 400)
    found = compared("binary_classification", label, gelgt=[good], weak=[bad], same=[good + 1e-9], best=[1.0 * label])
    verdicts = {name: entry.get("gelgt beats it") for (_, name), entry in found.items()}
    assert verdicts == {"gelgt": None, "weak": "yes", "same": "undecided", "best": "no, it is beaten"}
    best = found["roc_auc", "best"]
    assert best["test"] == best["low"] == best["high"] == 1.0
    own = found["roc_auc", "gelgt"]
    assert own["low"] < own["test"] < own["high"]


def test_one_seed_is_not_judged(rng: np.random.Generator) -> None:
    label = rng.integers(0, 2, 400)
    found = compared("binary_classification", label, gelgt=[label + rng.normal(0, 5, 400)], best=[1.0 * label])
    assert found["roc_auc", "best"]["shown"] == ONE_SEED


def test_nor_is_one_finished_seed_of_several(rng: np.random.Generator) -> None:
    label = rng.integers(0, 2, 400)
    own = [label + rng.normal(0, 5, 400) for _ in range(3)]
    found = compared("binary_classification", label, gelgt=own, best=[1.0 * label], **{"entity-mean": [1.0 * label]})
    assert found["roc_auc", "best"]["shown"] == ONE_SEED
    assert found["roc_auc", "entity-mean"]["shown"] == "better", "a baseline without a seed has one outcome, and that is all of it"


def test_a_difference_within_the_spread_is_none(rng: np.random.Generator) -> None:
    """The rows agree that one is better, but its seeds differ by more than that."""
    label = rng.integers(0, 2, 2000)
    noise = [0.4, 3.0]
    spread = [label + rng.normal(0, s, 2000) for s in noise]
    better = [label + rng.normal(0, 0.6, 2000) for _ in noise]
    sure = [1.0 * label, 1.0 * label]
    steady = [label + rng.normal(0, 3, 2000) for _ in noise]
    found = compared("binary_classification", label, gelgt=spread, other=better)["roc_auc", "other"]
    assert found["gelgt beats it"] == "no, it is beaten"
    assert found["shown"] == NO_DIFFERENCE
    found = compared("binary_classification", label, gelgt=steady, other=sure)["roc_auc", "other"]
    assert found["shown"] == "better"
    assert found["difference"] > 0


def test_of_errors_the_smaller_is_better(rng: np.random.Generator) -> None:
    label = rng.normal(0, 1, 300)
    near, far = [label + 0.1, label - 0.1], [label + 1.0, label - 1.1]
    found = compared("regression", label, gelgt=near, other=far)["mae", "other"]
    assert (found["shown"], found["gelgt beats it"]) == ("worse", "yes")
    assert found["difference"] == pytest.approx(0.95)
    found = compared("regression", label, gelgt=far, other=near)["mae", "other"]
    assert found["shown"] == "better"


def test_counts_that_are_mostly_zero(rng: np.random.Generator) -> None:
    label = np.where(rng.random(500) < 0.1, 3.0, 0.0)
    found = compared("regression", label, draws=100, gelgt=[0.1 * label + rng.random(500) * 0.01], constant=[np.zeros(500)])
    assert found["any_auc", "gelgt"]["test"] > 0.99
    assert found["any_auc", "constant"]["test"] == 0.5
    assert found["mae", "constant"]["test"] == pytest.approx(label.mean(), abs=1e-4)
    assert found["mae", "constant"]["gelgt beats it"] == "yes"


def test_classes_are_compared_by_their_seeds() -> None:
    def made(value: float) -> Any:
        cell = Made(np.zeros(1), np.zeros(1))
        cell.metrics |= {"metrics": {"val": {"mrr": value}, "test": {"mrr": value}}}
        return cell

    outcomes: Any = {"gelgt": [made(0.5), made(0.52)], "near": [made(0.51), made(0.53)], "far": [made(0.7), made(0.71)], "none": []}
    found = {e["model"]: e for e in compare("t", "multiclass_classification", outcomes, dict.fromkeys(outcomes, "gelgt"))}
    assert found["near"]["shown"] == NO_DIFFERENCE
    assert found["far"]["shown"] == "better"
    assert "none" not in found


def test_a_large_test_set_needs_fewer_draws(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    from gelgt.bench import compare as module

    drawn: list[int] = []
    before = module._resampled
    monkeypatch.setattr(module, "MOST_ROWS", 3000)
    monkeypatch.setattr(module, "FEW_DRAWS", 5)
    monkeypatch.setattr(module, "_resampled", lambda measure, p, y, draws: drawn.append(draws) or before(measure, p, y, draws))
    for rows in (10, 300, 3000):
        label = np.arange(rows) % 2
        compared("binary_classification", label, gelgt=[rng.random(rows)])
    assert drawn == [200, 10, 5]
