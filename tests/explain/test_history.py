"""The history columns of variants: those of the seed itself, for every kind of plan, and the
fixed-shape record of a model beside the model."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from gelgt import Database
from gelgt.demo import Shop
from gelgt.explain import Explainer
from gelgt.explain.history import VariantHistory
from gelgt.explain.stand_ins import StandIns
from gelgt.explain.variants import Variants, neighbourhood
from gelgt.history.seed_history import HistoryPlan
from gelgt.inference import Predictor
from gelgt.sampling import Seeds, make_seeds
from gelgt.scoring.seed_data import SeedData
from gelgt.scoring.variants import RecordedVariants
from gelgt.training import Run

PLANS = {
    "one hop": HistoryPlan(1, False, False),
    "siblings": HistoryPlan(1, True, True),
    "two hops": HistoryPlan(2, True, True),
    "calendar alone": HistoryPlan(0, True, False),
}


def some_seeds(explainer: Explainer, at: str, count: int) -> list[Seeds]:
    chosen, data = explainer.predictor.seeds(None, at), explainer.data
    return [
        make_seeds(data.db, data.graph, "customers", [row], chosen.times[:1])
        for row in chosen.rows[:count]
    ]


def limit_of(data: SeedData, seed: Seeds) -> int:
    return int(data.sampler.limits(seed.time)[0])


@pytest.mark.parametrize("labels", ["binary", "value"])
@pytest.mark.parametrize("name", PLANS)
def test_a_whole_variant_has_the_seed_s_own_columns(
    explainer_of: Callable[[str], Explainer], small_shop: Shop, name: str, labels: str
) -> None:
    """Without names, a plan has all columns that there are: each kind of column is computed, for
    numbers also the medians over windows."""
    explainer = explainer_of(labels)
    data = replace(explainer.data, plan=PLANS[name])
    for seed in some_seeds(explainer, small_shop.test_timestamp, 6):
        hood = neighbourhood(explainer.scorer, seed)
        history = VariantHistory(data, hood, StandIns(data.features, limit_of(data, seed)))
        made = history.columns(np.ones((2, hood.num_units), np.int64))
        expected = data.history(seed)
        assert made is not None
        assert expected is not None
        assert made.shape[1] > 0
        np.testing.assert_array_equal(made, expected.numpy().repeat(2, 0))


def test_a_plan_reads_every_column_that_it_names(explainer: Explainer, small_shop: Shop) -> None:
    """A column that the steps do not reach would stay empty for everybody."""
    data = replace(explainer.data, plan=PLANS["two hops"])
    seeds = some_seeds(explainer, small_shop.test_timestamp, 12)
    found = np.zeros(0, np.bool_)
    for seed in seeds:
        hood = neighbourhood(explainer.scorer, seed)
        made = VariantHistory(data, hood, StandIns(data.features, limit_of(data, seed))).columns(
            np.ones((1, hood.num_units), np.int64)
        )
        assert made is not None
        found = ~np.isnan(made[0]) if not len(found) else found | ~np.isnan(made[0])
    assert found.mean() > 0.9


@pytest.mark.parametrize("name", ["binary", "value", "classes"])
def test_fixed_shapes_say_what_the_model_says(
    explainer_of: Callable[[str], Explainer], small_shop: Shop, name: str
) -> None:
    """Absent rows, stand-ins, history columns and attention, as a record on CUDA computes them."""
    explainer = explainer_of(name)
    scorer, rng = explainer.scorer, np.random.default_rng(0)
    scorer._evaluate()
    recorded = RecordedVariants(scorer.model, scorer.data, nullcontext, torch.device("cpu"))
    for seed in some_seeds(explainer, small_shop.test_timestamp, 3):
        hood = neighbourhood(scorer, seed)
        states = (rng.random((40, hood.num_units)) < 0.7).astype(np.int64)
        states[:, 0] = 1
        plain, fixed = Variants(scorer, hood), Variants(scorer, hood)
        for variants in (plain, fixed):
            for unit in range(min(4, hood.num_rows)):
                table = hood.table(unit)
                row = int(hood.row_numbers[unit])
                donor = (row + 3) % scorer.data.features.rows[table]
                names = explainer.columns[table][:2]
                states[unit, unit] = variants.stand_ins.state(table, row, donor, names)
        expected, attention = plain.outputs(states), plain.attention()
        scorer._variants = recorded
        try:
            made = fixed.outputs(states)
            np.testing.assert_allclose(made.table, expected.table, atol=2e-6)
            np.testing.assert_allclose(fixed.attention(), attention, atol=1e-6)
        finally:
            scorer._variants = None


def test_the_survey_reads_no_later_row(
    db: Database, explainer: Explainer, small_shop: Shop
) -> None:
    for seed in some_seeds(explainer, small_shop.val_timestamp, 6):
        hood = neighbourhood(explainer.scorer, seed)
        for rest, path in zip(hood.rests, hood.rest_paths):
            nodes = hood.graph.nodes(path.table, rest.rows)
            assert (hood.graph.node_time[nodes] < int(seed.time[0])).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_record_on_cuda_says_what_the_model_says(
    run_of: Callable[[str], Run], db: Database, small_shop: Shop
) -> None:
    explainer = Explainer(Predictor(run_of("binary"), db, device="cuda"))
    scorer, rng = explainer.scorer, np.random.default_rng(0)
    scorer.precision = "float32"
    for seed in some_seeds(explainer, small_shop.test_timestamp, 6):
        hood = neighbourhood(scorer, seed)
        states = (rng.random((60, hood.num_units)) < 0.7).astype(np.int64)
        states[:, 0] = 1
        made = []
        for is_recorded in (False, True):
            scorer.is_recorded = is_recorded
            variants, recorded = Variants(scorer, hood), scorer._variants
            scorer._variants = recorded if is_recorded else None
            made.append((variants.outputs(states).table, variants.attention()))
            scorer._variants = recorded or scorer._variants
        assert scorer._variants is not None
        np.testing.assert_allclose(made[0][0], made[1][0], atol=1e-4)
        np.testing.assert_allclose(made[0][1], made[1][1], atol=1e-4)
