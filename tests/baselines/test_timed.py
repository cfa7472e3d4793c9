"""LightGBM with an end in time."""

import math
import time

import lightgbm
import numpy as np

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


def test_all_rounds_are_taken_where_nothing_is_held_out() -> None:
    found = timed_train(PARAMETERS, tables()[0], 7, deadline=math.inf)
    assert (found.rounds, found.is_cut_off, found.booster.num_trees()) == (7, False, 7)
