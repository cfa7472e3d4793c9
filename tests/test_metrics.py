"""Metrics against scikit-learn and by hand."""

import numpy as np
import pytest
from sklearn import metrics as sk

from gelgt.metrics import SMALLER_IS_BETTER, WORDS, is_better, mrr, roc_auc, score

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("ties", [False, True])
def test_binary_scores_are_those_of_scikit_learn(ties: bool) -> None:
    labels, p = RNG.integers(0, 2, 500), RNG.random(500)
    p = p.round(1) if ties else p
    found = score("binary_classification", labels, p)
    assert found["roc_auc"] == pytest.approx(sk.roc_auc_score(labels, p), abs=1e-12)
    assert found["average_precision"] == pytest.approx(
        sk.average_precision_score(labels, p), abs=1e-12
    )
    assert found["accuracy"] == sk.accuracy_score(labels, p > 0.5)
    assert found["f1"] == sk.f1_score(labels, p > 0.5)
    assert next(iter(found)) == "roc_auc"


def test_one_class_leaves_the_curves_out() -> None:
    found = score("binary_classification", np.ones(5, np.int64), RNG.random(5))
    assert set(found) == {"accuracy", "log_loss"}
    assert roc_auc(np.zeros(3), np.arange(3)) is None
    assert score("regression", np.zeros(0), np.zeros(0)) == {}


def test_regression_scores_are_those_of_scikit_learn() -> None:
    labels, values = RNG.normal(size=300), RNG.normal(size=300)
    found = score("regression", labels, values)
    assert found["mae"] == pytest.approx(sk.mean_absolute_error(labels, values))
    assert found["rmse"] == pytest.approx(sk.mean_squared_error(labels, values) ** 0.5)
    assert found["r2"] == pytest.approx(sk.r2_score(labels, values))
    assert found["nmae"] == pytest.approx(found["mae"] / labels.std())


def test_mrr_is_the_mean_of_inverse_ranks() -> None:
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.4, 0.2]])
    assert mrr(np.array([0, 1, 0]), p) == pytest.approx((1 + 1 / 2 + 1 / 1.5) / 3)
    labels, p = RNG.integers(0, 7, 200), RNG.random((200, 7))
    ranks = [1 + int((row > row[c]).sum()) for row, c in zip(p, labels)]
    assert mrr(labels, p) == pytest.approx(np.mean([1 / r for r in ranks]))
    found = score("multiclass_classification", labels, p / p.sum(1, keepdims=True))
    assert found["accuracy"] == sk.accuracy_score(labels, p.argmax(1))
    assert found["macro_f1"] == pytest.approx(sk.f1_score(labels, p.argmax(1), average="macro"))


def test_multilabel_scores_are_those_of_scikit_learn() -> None:
    labels, p = RNG.integers(0, 2, (300, 4)), RNG.random((300, 4))
    found = score("multilabel_classification", labels, p)
    assert found["macro_auprc"] == pytest.approx(
        sk.average_precision_score(labels, p, average="macro")
    )
    assert found["micro_auprc"] == pytest.approx(
        sk.average_precision_score(labels, p, average="micro")
    )
    assert found["macro_roc_auc"] == pytest.approx(sk.roc_auc_score(labels, p, average="macro"))
    labels[:, 0] = 1  # a label that everybody has says nothing
    assert score("multilabel_classification", labels, p)["macro_auprc"] == pytest.approx(
        sk.average_precision_score(labels[:, 1:], p[:, 1:], average="macro")
    )


def test_better_depends_on_the_metric() -> None:
    assert is_better("roc_auc", 0.8, 0.7)
    assert not is_better("mae", 0.8, 0.7)
    assert is_better("mae", 0.6, 0.7)
    assert is_better("mae", 9.0, None)


def test_every_metric_has_words() -> None:
    labels, p = RNG.integers(0, 2, (50, 2)), RNG.random((50, 2))
    names = {
        name
        for task_type, truth, predictions in (
            ("binary_classification", labels[:, 0], p[:, 0]),
            ("regression", p[:, 1], p[:, 0]),
            ("multiclass_classification", labels[:, 0], p),
            ("multilabel_classification", labels, p),
            ("recommendation", labels, labels),
        )
        for name in score(task_type, truth, predictions)
    }
    assert names == set(WORDS)
    assert set(WORDS) >= SMALLER_IS_BETTER


def test_recommendations_by_hand() -> None:
    """Of rows with a label: hits at ranks 1 and 3 of three, and no hit at all."""
    labels = np.array([[4, 7, -1], [2, -1, -1], [-1, -1, -1]])
    ranked = np.array([[7, 1, 4], [5, -1, -1], [2, 4, 7]])
    scores = score("recommendation", labels, ranked)
    assert scores["map"] == pytest.approx(((1 + 2 / 3) / 2 + 0) / 2)
    assert scores["precision"] == pytest.approx((2 / 3 + 0) / 2)
    assert scores["recall"] == pytest.approx((1 + 0) / 2)
    best = 1 + 1 / np.log2(3)
    assert scores["ndcg"] == pytest.approx(((1 + 1 / 2) / best + 0) / 2)
    assert score("recommendation", labels[2:], ranked[2:]) == {}


def test_recommendations_are_scored_as_relbench_scores_them() -> None:
    from relbench import metrics

    labels = np.full((200, 6), -1)
    for row in labels:
        count = RNG.integers(0, 7)
        row[:count] = RNG.choice(40, count, replace=False)
    ranked = np.stack([RNG.choice(40, 10, replace=False) for _ in range(200)])
    hits = np.array([np.isin(r, y[y >= 0]) for r, y in zip(ranked, labels)]).astype(int)
    expected = metrics.map(hits, (labels >= 0).sum(1))
    assert score("recommendation", labels, ranked)["map"] == pytest.approx(expected, abs=1e-12)
