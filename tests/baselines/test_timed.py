"""LightGBM with an end in time."""

import math
import time

import lightgbm
import numpy as np
import pytest

from gelgt.baselines.timed import timed_train

PARAMETERS = {"objective": "binary", "metric": "auc", "verbosity": -1, "num_threads": 1}


def tables() -> tuple[lightgbm.Dataset, lightgbm.Dataset]:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(600, 4))
    labels = (values[:, 0] + rng.normal(size=600) > 0).astype(float)
    table = lightgbm.Dataset(values[:400], labels[:400], params={"verbosity": -1})
    return table, lightgbm.Dataset(values[400:], labels[400:], reference=table)


def test_without_a_deadline_it_is_lightgbms_own_training() -> None:
    table, held_out = tables()
    found = timed_train(PARAMETERS, table, 60, held_out=held_out, patience=10)
    table, held_out = tables()
    expected = lightgbm.train(
        PARAMETERS,
        table,
        60,
        valid_sets=[held_out],
        callbacks=[lightgbm.early_stopping(10, verbose=False)],
    )
    assert (found.rounds, found.is_cut_off) == (expected.best_iteration, False)
    assert found.booster.model_to_string() == expected.model_to_string()


def test_a_deadline_leaves_the_best_round_so_far() -> None:
    table, held_out = tables()
    passed = time.perf_counter() - 1.0
    found = timed_train(PARAMETERS, table, 60, held_out=held_out, deadline=passed)
    assert (found.rounds, found.is_cut_off) == (1, True)
    assert timed_train(PARAMETERS, tables()[0], 60, deadline=passed).rounds == 1


def test_the_order_in_which_threads_add_up_a_score_makes_no_round_better() -> None:
    rng, noise = np.random.default_rng(1), iter(np.random.default_rng(2).normal(size=60))
    values = rng.normal(size=(300, 2))
    table = lightgbm.Dataset(values, values[:, 0], params={"verbosity": -1})
    held_out = lightgbm.Dataset(values, values[:, 0], reference=table)

    def alike(predicted: object, labels: object) -> tuple[str, float, bool]:
        return "alike", 1e6 + 1e-9 * next(noise), False

    parameters = {"objective": "l1", "metric": "None", "verbosity": -1, "num_threads": 1}
    before = lightgbm.train

    def train(*arguments: object, **options: object) -> lightgbm.Booster:
        return before(*arguments, feval=alike, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lightgbm, "train", train)
        found = timed_train(parameters, table, 60, held_out=held_out, patience=10)
    assert (found.rounds, found.is_cut_off) == (1, False)
    assert len(list(noise)) == 60 - 11, "it has waited for as many rounds as it is patient"


def test_all_rounds_are_taken_where_nothing_is_held_out() -> None:
    found = timed_train(PARAMETERS, tables()[0], 7, deadline=math.inf)
    assert (found.rounds, found.is_cut_off, found.booster.num_trees()) == (7, False, 7)
