"""Explanations where dates inside rows lie ahead: variants read rows as their seed knows them, and
predictions do not change when later dates are written."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import gelgt
from coin_shop import SPLITS, VAL, Frames, as_of, coin_shop, write_sqlite
from gelgt.explain import Explainer
from gelgt.explain.history import VariantHistory
from gelgt.explain.stand_ins import StandIns
from gelgt.explain.variants import Variants, neighbourhood
from gelgt.history.seed_history import HistoryPlan
from gelgt.inference import Predictor
from gelgt.presets import RunConfig
from gelgt.sampling import Seeds, make_seeds
from gelgt.scoring.variants import RecordedVariants
from gelgt.training import Options, Run, train_run

AT = pd.Timestamp(VAL) + pd.Timedelta(days=20)
SENTENCE = "PREDICT SUM(orders.amount, 0, 20, days) FOR EACH customers.id"


TINY = {
    "train.epochs": 2,
    "train.steps_per_epoch": 4,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 32,
    "train.rate": 0.01,
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "model.history_columns": 40,
    "sampling.budget": 60,
}


@dataclass(frozen=True)
class World:
    frames: Frames
    folder: Path
    run: Run

    def predictor(self, frames: Frames, name: str) -> Predictor:
        return Predictor(self.run, write_sqlite(frames, self.folder / f"{name}.db"), device="cpu")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, own_cache: None) -> World:
    folder, frames = tmp_path_factory.mktemp("dated"), coin_shop(300, 1_800)
    db = gelgt.open(write_sqlite(frames, folder / "shop.db"), schema=SPLITS)
    task = db.task(SENTENCE)
    config = RunConfig.of("cpu", task.task_type, TINY)
    run = train_run(db, task, folder / "run", config, Options(baseline_hops=(), device="cpu"))
    return World(frames, folder, run)


@pytest.fixture(scope="module")
def explainer(world: World) -> Explainer:
    return Explainer(world.predictor(world.frames, "shop"))


def some_seeds(explainer: Explainer, count: int) -> list[Seeds]:
    chosen, data = explainer.predictor.seeds(None, str(AT)), explainer.data
    return [
        make_seeds(data.db, data.graph, "customers", [row], chosen.times[:1])
        for row in chosen.rows[-count:]
    ]


def test_predictions_do_not_read_later_dates(world: World) -> None:
    whole = world.predictor(world.frames, "shop").predict(at=str(AT)).table
    cut = world.predictor(as_of(world.frames, AT), "cut").predict(at=str(AT)).table
    assert whole.num_rows > 100
    assert len(set(whole.column("prediction").to_pylist())) > 10
    assert whole.equals(cut)


@pytest.mark.parametrize("hops", [1, 2])
def test_a_whole_variant_has_the_seed_s_own_columns(explainer: Explainer, hops: int) -> None:
    data = replace(explainer.data, plan=HistoryPlan(hops, True, True))
    dated = np.zeros(0)
    for seed in some_seeds(explainer, 8):
        hood = neighbourhood(explainer.scorer, seed)
        limit = int(data.sampler.limits(seed.time)[0])
        history = VariantHistory(data, hood, StandIns(data.features, limit))
        made = history.columns(np.ones((2, hood.num_units), np.int64))
        expected = data.history(seed)
        assert made is not None
        assert expected is not None
        np.testing.assert_array_equal(made, expected.numpy().repeat(2, 0))
        dated = np.concatenate([dated, made[0][np.isfinite(made[0])]])
    names = data.__dict__["_explained_program"].places
    assert sum(" @delivered_at: " in name for name in names) > 20


def test_an_absent_row_takes_its_dates_along(explainer: Explainer) -> None:
    data = replace(explainer.data, plan=HistoryPlan(1, False, False))
    lost = 0
    for seed in some_seeds(explainer, 60):
        hood = neighbourhood(explainer.scorer, seed)
        limit = int(data.sampler.limits(seed.time)[0])
        history = VariantHistory(data, hood, StandIns(data.features, limit))
        states = np.ones((1 + hood.num_rows, hood.num_units), np.int64)
        states[np.arange(1, hood.num_rows), np.arange(1, hood.num_rows)] = 0
        made = history.columns(states)
        assert made is not None
        places = data.__dict__["_explained_program"].places
        shipped = data.db.read("orders", ["shipped_at"]).column(0).to_numpy()
        counts = made[:, places["< orders.customer_id @shipped_at: count"]]
        for unit in range(1, hood.num_rows):
            row = int(hood.row_numbers[unit])
            is_order = hood.table(unit) == "orders"
            is_shipped = is_order and shipped[row] < np.datetime64(AT)
            assert counts[unit] == counts[0] - is_shipped
            lost += is_shipped
    assert lost > 5


def test_fixed_shapes_say_what_the_model_says(explainer: Explainer) -> None:
    """Also of rows whose dates lie ahead, and of stand-ins for them."""
    from contextlib import nullcontext

    scorer, rng = explainer.scorer, np.random.default_rng(0)
    scorer._evaluate()
    features = scorer.data.features
    recorded = RecordedVariants(scorer.model, scorer.data, nullcontext, torch.device("cpu"))
    ahead = 0
    for seed in some_seeds(explainer, 6):
        hood = neighbourhood(scorer, seed)
        states = (rng.random((20, hood.num_units)) < 0.7).astype(np.int64)
        states[:, 0] = 1
        plain, fixed = Variants(scorer, hood), Variants(scorer, hood)
        for variants in (plain, fixed):
            for unit in range(min(4, hood.num_rows)):
                table, row = hood.table(unit), int(hood.row_numbers[unit])
                names = explainer.columns[table][:3]
                states[unit, unit] = variants.stand_ins.state(table, row, max(row - 3, 0), names)
        for unit in range(hood.num_rows):
            own = hood.row_numbers[unit : unit + 1]
            ahead += int(features.rows_at(hood.table(unit), own, plain.limit)[0] != own[0])
        expected = plain.outputs(states)
        scorer._variants = recorded
        try:
            np.testing.assert_allclose(fixed.outputs(states).table, expected.table, atol=2e-4)
        finally:
            scorer._variants = None
    assert ahead > 3


def test_an_explanation_shows_what_was_known(world: World) -> None:
    """The same explanation whether or not later dates have been written."""
    made = []
    for name, frames in (("shop", world.frames), ("cut", as_of(world.frames, AT))):
        explainer = Explainer(world.predictor(frames, name))
        explanation = explainer.explain(5, at=str(AT))
        made.append([(e.kind, e.column, e.value, e.effect) for e in explanation.effects])
    assert made[0] == made[1]
    assert made[0]
