"""Variants against databases from which the rows were really deleted, or in which the values were
really changed."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gelgt.demo import Shop
from gelgt.explain import Explainer
from gelgt.explain.naming import Names
from gelgt.explain.neighbourhood import Neighbourhood
from gelgt.explain.stand_ins import ABSENT
from gelgt.explain.variants import Variants, neighbourhood
from gelgt.inference import Predictor
from gelgt.sampling import Seeds, make_seeds
from gelgt.training import Run

PKEYS = {"products": "sku"}


def seed_of(explainer: Explainer, entity: object, at: str) -> Seeds:
    chosen = explainer.predictor.seeds([entity], at)
    data = explainer.data
    return make_seeds(data.db, data.graph, "customers", chosen.rows, chosen.times)


@pytest.fixture(scope="module")
def wide(explainer_of: Callable[[str], Explainer]) -> Explainer:
    return explainer_of("wide")


def some_hood(explainer: Explainer, at: str, least: int) -> Neighbourhood:
    """The rows around some customer who has many, of several tables, and none left out."""
    rows = explainer.predictor.seeds(None, at).rows
    data = explainer.data
    for row in rows:
        seed = make_seeds(
            data.db, data.graph, "customers", [row], explainer.predictor.seeds(None, at).times[:1]
        )
        hood = neighbourhood(explainer.scorer, seed)
        tables = {hood.table(unit) for unit in range(hood.num_rows)}
        if hood.num_rows >= least and {"orders", "order_items", "products"} <= tables:
            assert not hood.sample.is_cut.any()
            return hood
    raise AssertionError("no customer has so many rows")


def test_a_whole_variant_is_the_prediction(explainer: Explainer, small_shop: Shop) -> None:
    for entity in explainer.predictor.seeds(None, small_shop.test_timestamp).rows[:12]:
        chosen = explainer.predictor.seeds(None, small_shop.test_timestamp)
        data = explainer.data
        seed = make_seeds(data.db, data.graph, "customers", [entity], chosen.times[:1])
        variants = Variants(explainer.scorer, neighbourhood(explainer.scorer, seed))
        outputs = variants.outputs(variants.full[None])
        parts = explainer.scorer.predict(seed)
        assert abs(outputs.values[0] - parts.together[0]) < 1e-6
        assert set(outputs.parts) - {"calibration"} == set(parts.alone)


@pytest.mark.parametrize("draw", range(4))
def test_absent_rows_are_rows_that_the_database_does_not_have(
    wide: Explainer, run_of: Callable[[str], Run], small_shop: Shop, tmp_path: Path, draw: int
) -> None:
    at, rng = small_shop.test_timestamp, np.random.default_rng(draw)
    hood = some_hood(wide, at, 40 + 10 * draw)
    variants, names = Variants(wide.scorer, hood), Names(wide.data, hood, [])
    units = np.arange(1, hood.num_rows)
    orders = [unit for unit in units if hood.table(int(unit)) == "orders"]
    gone = rng.choice(units, len(units) // 4, replace=False) if draw else np.array(orders[:1])
    state = variants.full
    state[gone] = ABSENT

    shutil.copy(small_shop.path, tmp_path / "cut.db")
    connection = sqlite3.connect(tmp_path / "cut.db")
    connection.execute("PRAGMA foreign_keys = OFF")
    with connection:
        for unit in gone:
            table = hood.table(int(unit))
            statement = f"DELETE FROM {table} WHERE {PKEYS.get(table, 'id')} = ?"
            assert connection.execute(statement, (names.key(int(unit)),)).rowcount == 1
    connection.close()
    cut = Predictor(run_of("wide"), f"sqlite:///{tmp_path / 'cut.db'}", device="cpu")
    assert isinstance(cut, Predictor)
    seed = seed_of(Explainer(cut), names.key(0), at)
    # history columns, then the prediction of all parts together
    expected = cut.scorer.data.history(seed)
    assert expected is not None
    mine = variants.history.columns(state[None])
    assert mine is not None
    np.testing.assert_array_equal(mine, expected.numpy())
    assert not np.array_equal(mine, wide.data.history(hood.seed).numpy(), equal_nan=True)
    expected_value = cut.scorer.predict(seed).together[0]
    assert abs(variants.predict(state[None])[0] - expected_value) < 1e-6


def test_stand_ins_are_rows_with_the_donor_s_values(
    wide: Explainer, run_of: Callable[[str], Run], small_shop: Shop, tmp_path: Path
) -> None:
    at = small_shop.test_timestamp
    hood = some_hood(wide, at, 40)
    variants, names = Variants(wide.scorer, hood), Names(wide.data, hood, [])
    state = variants.full
    shutil.copy(small_shop.path, tmp_path / "changed.db")
    connection = sqlite3.connect(tmp_path / "changed.db")
    for table in ("orders", "products", "customers"):
        unit = next(u for u in range(hood.num_rows) if hood.table(u) == table)
        columns, key = wide.columns[table][:3], PKEYS.get(table, "id")
        donor = (int(hood.row_numbers[unit]) + 7) % wide.data.features.rows[table]
        donor_key = wide.data.db.keys_of(table, np.array([donor])).column(0)[0].as_py()
        state[unit] = variants.stand_ins.state(table, int(hood.row_numbers[unit]), donor, columns)
        with connection:
            for column in columns:
                connection.execute(
                    f"UPDATE {table} SET {column} = (SELECT {column} FROM {table} WHERE {key} = ?)"
                    f" WHERE {key} = ?",
                    (donor_key, names.key(unit)),
                )
    connection.close()
    changed = Predictor(run_of("wide"), f"sqlite:///{tmp_path / 'changed.db'}", device="cpu")
    seed = seed_of(Explainer(changed), names.key(0), at)
    mine, expected = variants.history.columns(state[None]), changed.scorer.data.history(seed)
    assert mine is not None
    assert expected is not None
    np.testing.assert_array_equal(mine, expected.numpy())
    value = variants.predict(state[None])[0]
    assert abs(value - changed.scorer.predict(seed).together[0]) < 1e-6
    assert value != variants.predict(variants.full[None])[0]


def test_what_only_an_absent_row_links_is_cut_off(wide: Explainer, small_shop: Shop) -> None:
    hood = some_hood(wide, small_shop.test_timestamp, 40)
    variants = Variants(wide.scorer, hood)
    behind = [u for u in range(1, hood.num_rows) if hood.paths[u].length == 2]
    near = [u for u in range(1, hood.num_rows) if hood.paths[u].length == 1]
    assert behind
    some, all_ = variants.full, variants.full
    some[near] = ABSENT
    all_[near + behind] = ABSENT
    assert variants.predict(some[None])[0] == variants.predict(all_[None])[0]
    assert variants.predict(some[None])[0] != variants.predict(variants.full[None])[0]
