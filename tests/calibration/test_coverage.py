"""Coverage: in all, over time and by entity."""

import numpy as np
from scipy.stats import binom

from gelgt.calibration import coverage


def test_coverage_by_hand() -> None:
    lower, upper = np.array([0.0, 0.0, 0.0, 5.0]), np.array([1.0, 1.0, 2.0, 6.0])
    labels = np.array([1.0, 1.5, np.nan, 5.0])
    found = coverage((lower, upper), labels, np.array([0, 0, 0, 86_400]), np.arange(4), 0.9)
    assert found is not None
    assert (found.coverage, found.mean_width, found.rows) == (2 / 3, 1.0, 3)
    assert [(part.first, part.rows, part.coverage) for part in found.times] == [
        ("1970-01-01T00:00:00", 2, 0.5),
        ("1970-01-02T00:00:00", 1, 1.0),
    ]
    assert found.by_entity is None  # one row says nothing about its entity
    nothing = coverage((lower, upper), np.full(4, np.nan), np.zeros(4, int), np.arange(4), 0.9)
    assert nothing is None


def test_many_seed_times_are_grouped() -> None:
    rows = 1_000
    ends = np.zeros(rows), np.ones(rows)
    found = coverage(ends, np.full(rows, 0.5), np.arange(rows) * 3_600, np.arange(rows), 0.9)
    assert found is not None
    assert len(found.times) == 12
    assert sum(part.rows for part in found.times) == rows
    assert all(a.last < b.first for a, b in zip(found.times, found.times[1:]))


def test_entities_below_the_level_are_counted_beside_chance() -> None:
    """Independent rows give about the share of chance; entities of their own coverage more."""
    generator = np.random.default_rng(0)
    entity = np.repeat(np.arange(2_000), 10)
    is_inside = generator.random(20_000) < 0.9
    bad = entity < 400
    for is_mixed in (False, True):
        share = np.where(bad & is_mixed, 0.4, 0.9)
        is_inside = generator.random(20_000) < share
        labels = np.where(is_inside, 0.5, 2.0)
        ends = np.zeros(20_000), np.ones(20_000)
        found = coverage(ends, labels, np.zeros(20_000, int), entity, 0.9)
        assert found is not None
        assert found.by_entity is not None
        by_entity = found.by_entity
        assert by_entity.entities == 2_000
        expected = binom.cdf(6, 10, 0.9)  # at most 6 of 10 is rarer than 5 %, at most 7 is not
        assert np.isclose(by_entity.by_chance, expected)
        if is_mixed:
            assert by_entity.below > 0.15
        else:
            assert abs(by_entity.below - expected) < 4 * np.sqrt(expected / 2_000)
