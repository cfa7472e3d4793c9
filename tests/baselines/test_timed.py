"""LightGBM with an end in time."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

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


def test_threads_set_up_their_trainings_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that share datasets once wrote their column names at the same moment, and one of
    them read half a name: rounds may overlap, what comes before them may not."""
    table, held_out = tables()
    table.construct()
    held_out.construct()
    before, inside, most = lightgbm.Dataset.set_feature_name, 0, 0

    def named(self: lightgbm.Dataset, names: object) -> lightgbm.Dataset:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.02)
        inside -= 1
        return before(self, names)

    monkeypatch.setattr(lightgbm.Dataset, "set_feature_name", named)
    met = Barrier(3, timeout=30)  # in the first round of each

    def grown(seed: int) -> str:
        def is_stopped() -> bool:
            met.wait()
            return False

        parameters = PARAMETERS | {"seed": seed, "bagging_fraction": 0.5, "bagging_freq": 1}
        model = timed_train(parameters, table, 5, held_out=held_out, is_stopped=is_stopped)
        return str(model.booster.model_to_string())

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(grown, range(3)))) == 3
    assert most == 1


def test_a_training_that_cannot_begin_leaves_the_next_one_its_turn() -> None:
    for _ in range(2):
        with pytest.raises(lightgbm.basic.LightGBMError, match="no_such_objective"):
            timed_train({"objective": "no_such_objective", "verbosity": -1}, tables()[0], 3)
    assert timed_train(PARAMETERS, tables()[0], 3).rounds == 3
