"""Whom predictions are asked for, and when: keys, times and frames in the forms that users have,
and what is said where they cannot be read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gelgt import Database
from gelgt.inference import Predictor
from gelgt.training import Run

from .conftest import Twins, failure, tiny_run


# Keys.
@pytest.mark.parametrize(
    "give",
    [
        list,
        np.array,
        pd.Series,
        pa.array,
        lambda k: [str(v) for v in k],
        lambda k: [float(v) for v in k],
    ],
)
def test_keys_in_many_forms(
    predictor: Predictor, twins: Twins, ids: list[int], give: Callable[[list[int]], Any]
) -> None:
    wanted = [ids[7], ids[2], ids[7]]
    found = predictor.predict(give(wanted), at=twins.at).table
    assert found.column("id").to_pylist() == wanted, "their order, and twice what is asked twice"
    values = found.column("probability").to_numpy()
    assert values[0] == pytest.approx(values[2], abs=1e-6)


def test_one_key_and_text_keys(
    twins: Twins, run_of: Callable[[str], Run], predictor: Predictor, ids: list[int]
) -> None:
    assert predictor.predict(ids[0], at=twins.at).table.column("id").to_pylist() == [ids[0]]
    products = Predictor(run_of("products"), twins.whole)
    keys = twins.whole.keys("products")
    assert keys is not None
    sku = keys.column(0).to_pylist()[3]
    assert products.predict(sku, at=twins.at).table.column("sku").to_pylist() == [sku]
    assert "'nope'" in failure(lambda: products.predict([sku, "nope"], at=twins.at)).message


def test_unknown_keys_are_listed(predictor: Predictor, twins: Twins, ids: list[int]) -> None:
    error = failure(lambda: predictor.predict([ids[0], -5, -6, -5], at=twins.at))
    assert (error.code, error.message) == (
        "unknown_keys",
        "3 keys are not in the table 'customers': -5, -6.",
    )
    error = failure(lambda: predictor.predict([str(ids[0]), "ann", "1.5"], at=twins.at))
    assert (error.code, error.message) == (
        "unknown_keys",
        "2 keys are not in the table 'customers': 'ann', '1.5'.",
    )
    assert failure(lambda: predictor.predict([None], at=twins.at)).code == "unknown_keys"
    assert failure(lambda: predictor.predict([], at=twins.at)).code == "no_entities"
    frame = pd.DataFrame({"id": [ids[0], -7], "time": twins.at})
    error = failure(lambda: predictor.predict(frame=frame))
    assert (error.code, error.message) == (
        "unknown_keys",
        "1 key is not in the table 'customers': -7.",
    )


def test_entities_that_are_not_there_yet(
    predictor: Predictor, twins: Twins, ids: list[int]
) -> None:
    times = twins.cut.read("customers", ["signed_up_at"]).column(0).to_pylist()
    before = times[-1] - pd.Timedelta(days=1)
    late = [key for key, time in zip(ids, times) if time > before]
    error = failure(lambda: predictor.predict(ids, at=before))
    assert error.code == "not_there_yet"
    assert all(str(key) in error.message for key in late[:5])
    everyone = predictor.predict(at=before).table.column("id").to_pylist()
    assert everyone == [key for key in ids if key not in late]
    assert failure(lambda: predictor.predict(at="1990-01-01")).code == "no_entities"


# Times.
def test_now_is_just_after_the_newest_row(predictor: Predictor, twins: Twins) -> None:
    made = predictor.predict()
    [time] = set(made.table.column("time").to_pylist())
    newest = max(
        max(t for t in twins.whole.read(n, [c]).column(0).to_pylist())
        for n, c in _timed(twins.whole)
    )
    assert time == newest.replace(microsecond=0) + pd.Timedelta(seconds=1)
    [notice] = made.notices
    assert str(time) in notice
    assert predictor.predict(at=time).notices == ()


def test_now_is_now_while_rows_are_fresh(
    predictor: Predictor, twins: Twins, monkeypatch: Any
) -> None:
    now = pd.Timestamp(
        twins.whole.read("page_pings", ["pinged_at"]).column(0).to_pylist()[-1]
    ) + pd.Timedelta(days=3)
    monkeypatch.setattr(pd.Timestamp, "now", lambda zone: now.tz_localize(zone))
    made = predictor.predict()
    assert set(made.table.column("time").to_pylist()) == {now.floor("s").to_pydatetime()}
    assert made.notices == ()


def _timed(db: Database) -> list[tuple[str, str]]:
    return [
        (name, column) for name in db.table_names if (column := db.table(name).time_col) is not None
    ]


@pytest.mark.parametrize(
    "give",
    [str, pd.Timestamp.to_pydatetime, pd.Timestamp.to_datetime64, lambda t: t.tz_localize("UTC")],
)
def test_times_in_many_forms(
    predictor: Predictor, twins: Twins, ids: list[int], give: Callable[[pd.Timestamp], Any]
) -> None:
    expected = predictor.predict(ids[:3], at=twins.at).table
    assert predictor.predict(ids[:3], at=give(twins.at)).table.equals(expected)


def test_a_time_that_is_none(predictor: Predictor) -> None:
    assert failure(lambda: predictor.predict(at="soon")).code == "bad_time"


def test_future_conditions_are_left_out_with_a_notice(twins: Twins, tmp_path: Path) -> None:
    sentence = (
        "PREDICT SUM(orders.shipping_fee, 0, 10, days) FOR EACH customers.id WHERE "
        "COUNT(orders.*, 0, 10, days) > 0"
    )
    run = tiny_run(
        twins.cut, twins.cut.task(sentence, val=twins.val, test=twins.test), tmp_path / "run"
    )
    made = Predictor(run, twins.cut).predict(at=twins.at)
    assert len(made) == twins.cut.num_rows("customers")
    assert made.notices == ("The condition on the future cannot be known and is left out.",)


# Frames.
def test_a_frame_keeps_its_order(predictor: Predictor, twins: Twins, ids: list[int]) -> None:
    at = twins.at.floor("s")
    frame = pd.DataFrame(
        {
            "other": 1.5,
            "when": [at, at - pd.Timedelta(hours=1), at],
            "id": [ids[4], ids[3], ids[0]],
        },
        index=[9, 8, 7],
    )
    found = predictor.predict(frame=frame).to_pandas()
    assert found["id"].tolist() == frame["id"].tolist()
    assert found["time"].tolist() == frame["when"].tolist()
    for row in range(3):
        single = predictor.predict([found["id"][row]], at=found["time"][row]).to_pandas()
        assert single["probability"][0] == pytest.approx(found["probability"][row], abs=1e-6)
    assert predictor.predict(frame=pa.Table.from_pandas(frame)).to_pandas().equals(found)
    assert predictor.predict(frame=found).to_pandas().equals(found), "what comes out goes in"
    assert predictor.predict(frame=found.set_index(["id", "time"])).to_pandas().equals(found)
    texts = frame.assign(when=frame["when"].astype(str))
    assert predictor.predict(frame=texts).to_pandas().equals(found)


def test_frames_that_cannot_be_read(predictor: Predictor, twins: Twins, ids: list[int]) -> None:
    at = twins.at.floor("s")
    assert (
        failure(lambda: predictor.predict(frame=pd.DataFrame({"customer": [1], "time": [at]}))).code
        == "unknown_column"
    )
    assert (
        failure(lambda: predictor.predict(frame=pd.DataFrame({"id": [ids[0]]}))).code
        == "unknown_column"
    )
    assert (
        failure(lambda: predictor.predict(frame=pd.DataFrame({"id": [], "time": []}))).code
        == "no_entities"
    )
    assert (
        failure(
            lambda: predictor.predict(frame=pd.DataFrame({"id": [ids[0]], "time": ["soon"]}))
        ).code
        == "bad_time"
    )
    assert (
        failure(lambda: predictor.predict(pd.DataFrame({"id": [ids[0]]}), at=at)).code
        == "bad_option"
    )
    assert (
        failure(lambda: predictor.predict([1], frame=pd.DataFrame({"id": [1], "time": [at]}))).code
        == "bad_option"
    )
