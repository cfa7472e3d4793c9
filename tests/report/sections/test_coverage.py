"""Prediction intervals and calibrated probabilities, as the report shows them."""

from typing import Any

import numpy as np
import pytest
from pages import update, words
from sklearn.metrics import log_loss

from gelgt.report.run import Run
from gelgt.report.sections import calibration, coverage
from gelgt.report.write import page

TIMES = [
    {"first": "2024-07-01T00:00:00", "last": "2024-07-01T00:00:00", "rows": 300, "coverage": 0.93},
    {"first": "2024-08-01T00:00:00", "last": "2024-08-01T00:00:00", "rows": 300, "coverage": 0.84},
]
MEASURED = {
    "0.9": {
        "coverage": 0.8849,
        "mean_width": 3.21,
        "rows": 600,
        "times": TIMES,
        "by_entity": {"entities": 120, "below": 0.09, "by_chance": 0.03},
    },
    "0.95": {
        "coverage": 0.9417,
        "mean_width": 4.6,
        "rows": 600,
        "times": TIMES,
        "by_entity": None,
    },
}


def test_coverage_of_each_level(made_run: Any) -> None:
    folder = made_run("regression")
    assert coverage.section(Run(folder)) is None
    update(folder, intervals=MEASURED)
    run = Run(folder)
    section = coverage.section(run)
    assert section is not None
    text = words(section.body)
    assert "90 % 88.5 % 3.210 9.0 % (3.0 %)" in text
    assert "95 % 94.2 % 4.600 –" in text
    assert "Coverage of 90 % intervals" in text
    assert "2024-08-01: 84.0 % of 300 rows" in text
    assert "120 entities" in text
    assert section.body.count("<circle") == len(TIMES)
    assert '<section id="intervals">' in page(run)


@pytest.mark.parametrize("kind", ["binary_classification", "multiclass_classification"])
def test_reliability_before_and_after(made_run: Any, kind: str) -> None:
    folder = made_run(kind)
    plain = calibration.section(Run(folder))
    assert plain is not None
    assert "Reliability before" not in plain.body
    slope = 0.5
    used = {"kind": "temperature", "slope": slope, "gain": 0.02, "error": 0.005, "rows": 500}
    update(folder, probabilities=used)
    run = Run(folder)
    section = calibration.section(run)
    assert section is not None
    text = words(section.body)
    assert "Reliability before" in text
    assert "Reliability after" in text
    assert run.test is not None
    after = run.test.scores["gelgt"]
    if kind == "binary_classification":
        before = 1 / (1 + ((1 - after) / after) ** (1 / slope))
    else:
        before = after ** (1 / slope) / (after ** (1 / slope)).sum(1, keepdims=True)
    losses = [log_loss(run.test.label.astype(int), p) for p in (before, after)]
    assert f"goes from {losses[0]:.3f} to {losses[1]:.3f}" in text
    assert len({f"{loss:.3f}" for loss in losses}) == 2


def test_the_likeliest_class_is_what_comes_true(made_run: Any) -> None:
    run = Run(made_run("multiclass_classification"))
    section = calibration.section(run)
    assert section is not None
    assert run.test is not None
    p = run.test.scores["gelgt"]
    right = float(np.mean(p.argmax(1) == run.test.label))
    assert f"all 600 {p.max(1).mean():.3f} {right:.3f}" in words(section.body)
