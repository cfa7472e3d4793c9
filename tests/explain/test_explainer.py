"""Explanations of tiny runs: they add up, see nothing of the future, and are the same twice."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gelgt
from gelgt import Database, Explanation, GelgtError
from gelgt.demo import Shop
from gelgt.explain import Explainer
from gelgt.explain.variants import neighbourhood
from gelgt.sampling import make_seeds
from gelgt.scoring.recommend import RecommendScorer
from gelgt.training import Run


def customers(explainer: Explainer, at: str) -> list[int]:
    rows = explainer.predictor.seeds(None, at).rows
    return explainer.data.db.keys_of("customers", rows).column(0).to_pylist()


@pytest.fixture(scope="module")
def why(explainer: Explainer, small_shop: Shop) -> Explanation:
    at = small_shop.test_timestamp
    return explainer.explain(customers(explainer, at)[20], at, is_counterfactual=True)


def total(why: Explanation) -> float:
    return sum(effect.effect for effect in why.effects)


@pytest.mark.parametrize("name", ["binary", "value", "classes", "wide"])
def test_effects_add_up_to_prediction_minus_base(
    explainer_of: Callable[[str], Explainer], small_shop: Shop, name: str
) -> None:
    explainer, at = explainer_of(name), small_shop.test_timestamp
    for entity in customers(explainer, at)[30:31]:
        why = explainer.explain(entity, at)
        assert abs(why.prediction - why.base - total(why)) < 1e-9
        assert abs(total(why) - sum(effect.effect for effect in why.paths)) < 1e-9
        expected = explainer.predictor.predict([entity], at).table
        columns = [c for c in expected.column_names if c.startswith("probability")]
        values = [expected.column(c)[0].as_py() for c in columns or ["prediction"]]
        assert min(abs(value - why.prediction) for value in values) < 1e-6
        assert len(why.effects) > 3
        assert any(effect.effect for effect in why.effects)


def test_a_count_is_explained_before_it_is_rounded(
    explainer_of: Callable[[str], Explainer], small_shop: Shop
) -> None:
    explainer, at = explainer_of("count"), small_shop.test_timestamp
    some = customers(explainer, at)[:40]
    table = explainer.predictor.predict(some, at).table
    predicted = table.column("prediction").to_numpy()
    np.testing.assert_array_equal(predicted, np.rint(predicted))
    place = int(predicted.argmax())
    why = explainer.explain(some[place], at)
    assert np.rint(why.prediction) == predicted[place]
    assert why.prediction != predicted[place]
    assert abs(why.prediction - why.base - total(why)) < 1e-9
    assert "before it is rounded" in why.what


def test_parts_add_up_in_the_raw_output(why: Explanation) -> None:
    assert set(why.parts) - {"calibration"} == {"network", "columns", "trees"}
    for name, values in why.parts.items():
        change = values["prediction"] - values["base"]
        assert abs(change - sum(effect.parts[name] for effect in why.effects)) < 1e-6
    raw = sum(values["prediction"] for values in why.parts.values())
    assert abs(1 / (1 + np.exp(-raw)) - why.prediction) < 1e-6


def test_the_same_question_gives_the_same_bits(
    run_of: Callable[[str], Run], db: Database, why: Explanation
) -> None:
    model = gelgt.load(run_of("binary").folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # notices
        again = model.explain(db, entity=why.entity, at=why.at, counterfactual=True)
    assert again.to_json() == why.to_json()


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 10_000), hours=st.integers(0, 24 * 200))
def test_nothing_at_or_after_the_seed_time_is_in_an_explanation(
    explainer: Explainer, small_shop: Shop, place: int, hours: int
) -> None:
    at = pd.Timestamp(small_shop.test_timestamp) - pd.Timedelta(hours=hours)
    rows = explainer.predictor.seeds(None, at).rows
    row, second = int(rows[place % len(rows)]), int(at.timestamp())
    data = explainer.data
    seed = make_seeds(data.db, data.graph, "customers", [row], [second])
    hood = neighbourhood(explainer.scorer, seed)
    for rest in hood.rests:
        assert not (rest.ages <= 0).any()
    if hood.num_units == 1:
        return
    why = explainer.explain_seed(seed)
    for entry in why.timeline:
        assert entry["time"] is None or pd.Timestamp(entry["time"]) < at
    for effect in why.effects:
        assert effect.age_days is None or effect.age_days > 0
        assert effect.time is None or pd.Timestamp(effect.time) < at


def test_the_shape_that_scripts_rely_on(why: Explanation) -> None:
    content = json.loads(why.to_json())
    assert {"entity", "at", "prediction", "base", "effects", "check"} <= set(content)
    for effect in content["effects"]:
        assert {"kind", "table", "key", "column", "path", "age_days", "effect"} <= set(effect)
        assert effect["kind"] in ("row", "column", "path", "age")
        assert effect["path"][0] == "customers"
        assert effect["path"][-1] == effect["table"]
        assert (effect["key"] is not None) == (effect["kind"] in ("row", "column"))
        assert (effect["column"] is not None) == (effect["kind"] == "column")
        assert effect["text"].endswith(".")
    check = content["check"]
    assert (
        list(check["comprehensiveness"])
        == list(check["sufficiency"])
        == ["1", "5", "10", "20", "50"]
    )
    assert {"area", "area_attention", "area_random"} <= set(check)


def test_a_counterfactual_turns_the_decision(explainer: Explainer, small_shop: Shop) -> None:
    at, found = small_shop.test_timestamp, 0
    for entity in customers(explainer, at)[:4]:
        why = explainer.explain(entity, at, is_counterfactual=True)
        turned = why.counterfactual
        assert turned is not None
        if turned["rows"]:
            found += 1
            assert (turned["prediction"] > 0.5) != (why.prediction > 0.5)
        else:
            assert (turned["prediction"] > 0.5) == (why.prediction > 0.5)
            assert turned["text"].startswith("No set of rows")


def test_pages_load_and_run_nothing_else(why: Explanation, tmp_path: Path) -> None:
    page = why.save(tmp_path / "why.html").read_text(encoding="utf-8")
    assert page.count("<script") == 1
    assert "http://" not in page
    assert "https://" not in page
    assert "script-src 'sha256-" in page
    assert "<circle" in page
    assert str(why.entity) in page
    assert json.loads(why.save(tmp_path / "why.json").read_text())["entity"] == why.entity


def fails(code: str, explain: Callable[[], object]) -> GelgtError:
    with pytest.raises(GelgtError) as raised:
        explain()
    assert raised.value.code == code
    assert raised.value.hint
    return raised.value


def test_bad_questions_are_told(
    explainer: Explainer,
    run_of: Callable[[str], Run],
    db: Database,
    small_shop: Shop,
    why: Explanation,
    tmp_path: Path,
) -> None:
    assert "987654" in fails("unknown_keys", lambda: explainer.explain(987654, why.at)).message
    fails("not_there_yet", lambda: explainer.explain(why.entity, "1999-01-01"))
    fails("bad_time", lambda: explainer.explain(why.entity, "yesterday evening"))
    fails("bad_option", lambda: explainer.explain([1, 2], why.at))
    fails("unknown_format", lambda: why.save(tmp_path / "why.pdf"))
    lists = SimpleNamespace(scorer=object.__new__(RecommendScorer))
    fails("not_explained", lambda: Explainer(lists))  # type: ignore[arg-type]
    model = gelgt.load(run_of("binary").folder)
    fails("bad_option", lambda: model.explain(db, at=why.at))
    # the last customer signs up on the last day and never does anything
    last = db.keys_of("customers", np.array([db.num_rows("customers") - 1])).column(0)[0].as_py()
    error = fails("no_rows", lambda: explainer.explain(last, "2100-01-01"))
    assert str(last) in error.message
    assert "customers" in error.message
