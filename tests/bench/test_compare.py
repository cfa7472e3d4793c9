"""Who is better than whom: rows and seeds must agree."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gelgt.bench.compare import NO_DIFFERENCE, ONE_SEED, compare
from gelgt.runs.record import RunRecord, TaskFacts


class Made:
    """A finished cell with given predictions."""

    def __init__(
        self,
        label: np.ndarray,
        prediction: np.ndarray,
        entity: np.ndarray | None = None,
        **parts: np.ndarray,
    ) -> None:
        self.label, self.prediction, self.entity, self.parts = label, prediction, entity, parts
        self.record = RunRecord(
            regime="frozen",
            seconds=1.0,
            task=TaskFacts(name="t", task_type="binary_classification"),
            metric="roc_auc",
            metrics={},
        )
        self.cell = SimpleNamespace()

    def predictions(self, split: str, part: str = "") -> tuple[np.ndarray, np.ndarray]:
        return self.label, self.parts.get(part, self.prediction)

    def entities(self, split: str) -> np.ndarray | None:
        return self.entity


def compared(
    task_type: str, label: np.ndarray, draws: int = 200, **models: list[np.ndarray]
) -> dict[tuple[str, str], dict[str, Any]]:
    outcomes: Any = {
        name: [Made(label, values) for values in each] for name, each in models.items()
    }
    found = compare("t", task_type, outcomes, dict.fromkeys(models, "gelgt"), draws)
    return {(entry["metric"], entry["model"]): entry for entry in found}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_who_beats_whom(rng: np.random.Generator) -> None:
    label = rng.integers(0, 2, 400)
    good, bad = label + rng.normal(0, 0.7, 400), label + rng.normal(0, 5, 400)
    found = compared(
        "binary_classification",
        label,
        gelgt=[good],
        weak=[bad],
        same=[good + 1e-9],
        best=[1.0 * label],
    )
    verdicts = {name: entry.get("gelgt beats it") for (_, name), entry in found.items()}
    assert verdicts == {
        "gelgt": None,
        "weak": "yes",
        "same": "undecided",
        "best": "no, it is beaten",
    }
    best = found["roc_auc", "best"]
    assert best["test"] == best["low"] == best["high"] == 1.0
    own = found["roc_auc", "gelgt"]
    assert own["low"] < own["test"] < own["high"]


def test_one_seed_is_not_judged(rng: np.random.Generator) -> None:
    label = rng.integers(0, 2, 400)
    found = compared(
        "binary_classification", label, gelgt=[label + rng.normal(0, 5, 400)], best=[1.0 * label]
    )
    assert found["roc_auc", "best"]["shown"] == ONE_SEED


def test_nor_is_one_finished_seed_of_several(rng: np.random.Generator) -> None:
    label = rng.integers(0, 2, 400)
    own = [label + rng.normal(0, 5, 400) for _ in range(3)]
    found = compared(
        "binary_classification",
        label,
        gelgt=own,
        best=[1.0 * label],
        **{"entity-mean": [1.0 * label]},
    )
    assert found["roc_auc", "best"]["shown"] == ONE_SEED
    assert found["roc_auc", "entity-mean"]["shown"] == "better", (
        "a baseline without a seed has one outcome, and that is all of it"
    )


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
    found = compared(
        "regression",
        label,
        draws=100,
        gelgt=[0.1 * label + rng.random(500) * 0.01],
        constant=[np.zeros(500)],
    )
    assert found["any_auc", "gelgt"]["test"] > 0.99
    assert found["any_auc", "constant"]["test"] == 0.5
    assert found["mae", "constant"]["test"] == pytest.approx(label.mean(), abs=1e-4)
    assert found["mae", "constant"]["gelgt beats it"] == "yes"


def test_classes_are_compared_by_their_seeds() -> None:
    def made(value: float) -> Any:
        cell = Made(np.zeros(1), np.zeros(1))
        scores = {"val": {"mrr": value}, "test": {"mrr": value}}
        cell.record = cell.record.model_copy(update={"metrics": scores})
        return cell

    outcomes: Any = {
        "gelgt": [made(0.5), made(0.52)],
        "near": [made(0.51), made(0.53)],
        "far": [made(0.7), made(0.71)],
        "none": [],
    }
    found = {
        e["model"]: e
        for e in compare(
            "t", "multiclass_classification", outcomes, dict.fromkeys(outcomes, "gelgt")
        )
    }
    assert found["near"]["shown"] == NO_DIFFERENCE
    assert found["far"]["shown"] == "better"
    assert "none" not in found


def test_a_large_test_set_needs_fewer_draws(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gelgt.bench import compare as module

    drawn: list[int] = []
    before = module._resampled
    monkeypatch.setattr(module, "MOST_ROWS", 3000)
    monkeypatch.setattr(module, "FEW_DRAWS", 5)
    monkeypatch.setattr(
        module, "_resampled", lambda *given: drawn.append(given[-1]) or before(*given)
    )
    for rows in (10, 300, 3000):
        label = np.arange(rows) % 2
        compared("binary_classification", label, gelgt=[rng.random(rows)])
    assert drawn == [200, 10, 5]


def test_entities_are_drawn_not_rows(rng: np.random.Generator) -> None:
    """A hundred entities with twenty rows each, which are alike, are a hundred draws of luck and
    not two thousand."""
    entity = np.repeat(np.arange(100), 20)
    label = np.repeat(rng.integers(0, 2, 100), 20)
    score = np.repeat(rng.normal(size=100), 20) + label
    width = {}
    for name, numbers in (("rows", None), ("entities", entity), ("each its own", np.arange(2000))):
        outcomes: Any = {"gelgt": [Made(label, score, numbers)]}
        (found,) = compare("t", "binary_classification", outcomes, {"gelgt": "gelgt"}, 300)
        width[name] = found["high"] - found["low"]
    assert width["entities"] > 3 * width["rows"]
    assert width["each its own"] == width["rows"]


def test_a_model_is_told_apart(rng: np.random.Generator) -> None:
    label = rng.integers(0, 2, 400)
    network, trees = label + rng.normal(0, 2, 400), label + rng.normal(0, 1, 400)
    cells = [
        Made(label, network + trees, network=network, trees=trees),
        Made(label, network, network=network),
    ]
    for cell, share in zip(cells, (0.5, 0.0)):
        cell.record = cell.record.model_copy(update={"tree_share": share})
    outcomes: Any = {"gelgt": cells, "other": [Made(label, trees)]}
    own, other = compare(
        "t", "binary_classification", outcomes, dict.fromkeys(outcomes, "gelgt"), 50
    )
    assert own["parts"]["trees"]["scores"] == other["scores"]
    assert (
        own["parts"]["network"]["scores"][0]
        == own["parts"]["network"]["scores"][1]
        == own["scores"][1]
    )
    assert (own["parts"]["network"]["seeds"], own["parts"]["trees"]["seeds"]) == (2, 1)
    assert own["tree_share"] == 0.25
    assert (
        own["parts"]["trees"]["low"] < own["parts"]["trees"]["test"] < own["parts"]["trees"]["high"]
    )
    assert "parts" not in other
