"""Maps of probabilities: found where they help, and only there; ranks stay as they were."""

import numpy as np
import pytest
from scipy.special import expit, softmax

from gelgt.calibration import ProbabilityMap, fit_probabilities
from gelgt.metrics import mrr, roc_auc, score

ROWS = 4_000
BINARY = "binary_classification"


def binary(seed: int, slope: float, shift: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of a model, and labels whose log-odds are slope · its own + shift."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(-1, 2, ROWS)
    return expit(logits), (generator.random(ROWS) < expit(slope * logits + shift)).astype(int)


ENTITY, TIMES = np.arange(ROWS) // 4, np.arange(ROWS) % 2


def test_overconfidence_is_corrected() -> None:
    p, labels = binary(0, 0.5)
    found = fit_probabilities(p, labels, ENTITY, TIMES)
    assert found.kind in ("temperature", "platt")
    assert abs(found.slope - 0.5) < 0.06
    assert found.gain > 2 * found.error > 0
    new, truth = binary(1, 0.5)
    before, after = score(BINARY, truth, new), score(BINARY, truth, found(new))
    assert after["log_loss"] < before["log_loss"] - 0.02
    assert roc_auc(truth, found(new)) == roc_auc(truth, new)
    assert after["average_precision"] == before["average_precision"]
    np.testing.assert_allclose(found.before(found(new)), new, rtol=1e-9)


def test_a_wrong_rate_is_shifted_unless_the_model_will_learn_it() -> None:
    p, labels = binary(2, 1.0, 1.0)
    found = fit_probabilities(p, labels, ENTITY, TIMES)
    assert found.kind == "platt"
    assert abs(found.shift - 1.0) < 0.15
    assert fit_probabilities(p, labels, ENTITY, TIMES, can_shift=False).shift == 0.0


def test_probabilities_that_are_right_are_left_alone() -> None:
    kinds = [fit_probabilities(*binary(s, 1.0), ENTITY, TIMES).kind for s in range(10, 20)]
    assert kinds.count("none") >= 7
    same = ProbabilityMap()
    p = binary(0, 1.0)[0]
    assert same(p) is p


def test_what_helps_in_one_period_alone_is_not_taken() -> None:
    """The rate of the event is twice as high in one of two seed times."""
    generator = np.random.default_rng(3)
    p = expit(generator.normal(-2, 1, ROWS))
    shift = np.where(TIMES == 1, 1.5, -0.3)
    labels = (generator.random(ROWS) < expit(np.log(p / (1 - p)) + shift)).astype(int)
    assert fit_probabilities(p, labels, ENTITY, np.zeros(ROWS, int)).kind == "platt"
    assert fit_probabilities(p, labels, ENTITY, TIMES).kind == "none"


def test_classes_keep_their_order() -> None:
    generator = np.random.default_rng(4)
    logits = generator.normal(0, 3, (ROWS, 5))
    labels = np.array([generator.choice(5, p=q) for q in softmax(0.4 * logits, axis=1)])
    p = softmax(logits, axis=1)
    found = fit_probabilities(p, labels, ENTITY, TIMES)
    assert (found.kind, found.shift) == ("temperature", 0.0)
    assert abs(found.slope - 0.4) < 0.05
    np.testing.assert_allclose(found(p).sum(1), 1)
    assert (np.argsort(found(p), axis=1) == np.argsort(p, axis=1)).all()
    assert mrr(labels, found(p)) == mrr(labels, p)
    np.testing.assert_allclose(found.before(found(p)), p, atol=1e-9)


def test_probabilities_of_0_and_1_stay() -> None:
    steep = ProbabilityMap("platt", 0.5, 1.0)
    assert steep(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]
    assert np.isfinite(ProbabilityMap("temperature", 0.5)(np.array([[0.0, 1.0]]))).all()


@pytest.mark.parametrize("rows", [0, 20])
def test_few_rows_decide_nothing(rows: int) -> None:
    p, labels = binary(5, 0.1)
    few = fit_probabilities(p[:rows], labels[:rows], ENTITY[:rows], TIMES[:rows])
    assert (few.kind, few.rows) == ("none", rows)
    alike = fit_probabilities(p, np.zeros(ROWS), ENTITY, TIMES)
    assert alike.kind == "none"
