from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database

Make = Callable[..., Database]


def frame(
    start: str = "2023-02-01", periods: int = 60, unit: str = "us", zone: str | None = None
) -> pd.DataFrame:
    """One label every ten days, customers in turn."""
    times = pd.date_range(start, periods=periods, freq="10D").as_unit(unit)
    times = times.tz_localize("UTC").tz_convert(zone) if zone else times
    return pd.DataFrame(
        {"id": np.arange(periods) % 5, "when": times, "score": np.arange(periods) + 0.5}
    )


def test_split_rules_with_a_window(shop_db: Database) -> None:
    labels = frame()
    task = shop_db.task(labels, entity="customers.id", timedelta="20 days")
    assert (task.kind, task.task_type, task.entity_col, task.time_col, task.target_col) == (
        "external",
        "regression",
        "id",
        "when",
        "score",
    )
    val, test, step = pd.Timestamp("2024-03-01"), pd.Timestamp("2024-05-01"), pd.Timedelta(days=20)
    expected = {
        "train": labels[labels.when <= val - step],
        "val": labels[(labels.when >= val) & (labels.when <= test - step)],
        "test": labels[labels.when >= test],
    }
    for split, rows in expected.items():
        assert task.table(split).column("score").to_pylist() == rows.score.tolist()
    gaps = len(labels) - sum(map(len, expected.values()))
    gap_notices = [n for n in task.notices if "in the gap before" in n]
    assert len(gap_notices) == 2
    assert sum(int(n.split(": ")[1].split()[0]) for n in gap_notices) == gaps


def test_split_rules_without_a_window(shop_db: Database) -> None:
    task = shop_db.task(frame(), entity="customers.id")
    assert sum(task.rows.values()) == 60
    assert task.preview().seed_times["train"][-1] <= np.datetime64("2024-03-01")
    assert task.preview().seed_times["val"][0] > np.datetime64("2024-03-01")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_times_of_any_unit_and_zone(shop_db: Database, unit: str, zone: str | None) -> None:
    plain = shop_db.task(frame(), entity="customers.id")
    task = shop_db.task(frame(unit=unit, zone=zone), entity="customers.id")
    assert all(plain.table(s).equals(task.table(s)) for s in ("train", "val", "test"))


def test_times_as_texts_and_as_dates(shop_db: Database) -> None:
    plain = shop_db.task(frame(), entity="customers.id")
    texts = frame().assign(when=lambda f: f.when.dt.strftime("%Y-%m-%dT%H:%M:%S+00:00"))
    dates = pa.Table.from_pandas(frame()).set_column(1, "when", pa.array(frame().when.dt.date))
    for labels in (texts, dates):
        assert (
            shop_db.task(labels, entity="customers.id", time_col="when")
            .table("test")
            .equals(plain.table("test"))
        )


def test_the_users_own_keys(make_db: Make, random_shop: Callable[..., Any]) -> None:
    db = make_db(random_shop(), keys={"customers": {"code": [f"c{i}" for i in range(30)]}})
    labels = frame().assign(code=lambda f: "c" + f.id.astype(str)).drop(columns="id")
    task = db.task(labels, entity="customers")
    assert task.table("train").column("id").to_pylist() == frame().id[: task.rows["train"]].tolist()
    renamed = db.task(labels.rename(columns={"code": "who"}), entity="customers.who")
    assert renamed.table("train").equals(task.table("train"))
    with pytest.raises(TaskError) as caught:
        db.task(labels.replace({"code": {"c1": "zz", "c2": "yy"}}), entity="customers")
    assert caught.value.code == "unknown_key"
    assert "24 keys are not in the table 'customers': 'zz', 'yy'." in caught.value.message


def test_keys_of_several_parts(make_db: Make, random_shop: Callable[..., Any]) -> None:
    db = make_db(
        random_shop(), keys={"products": {"a": [i // 2 for i in range(8)], "b": ["x", "y"] * 4}}
    )
    labels = (
        frame()
        .assign(a=lambda f: f.id // 2, b=lambda f: np.where(f.id % 2, "y", "x"))
        .drop(columns="id")
    )
    assert db.task(labels, entity="products").table("val").column("id").to_pylist() == [
        (i % 5) for i in range(40, 46)
    ]


def test_what_is_left_out_is_counted(shop_db: Database) -> None:
    labels = frame()
    labels.loc[3, "score"] = None
    labels.loc[4, "score"] = np.inf
    late = int(shop_db.num_rows("customers") - 1)
    labels.loc[59, "id"] = late
    task = shop_db.task(pd.concat([labels, labels.iloc[:1]]), entity="customers.id")
    assert "train: 2 rows without a target (in all splits) were left out" in task.notices
    assert "test: 1 rows whose entity does not exist at the test time were left out" in task.notices
    assert "1 rows repeat the entity and time of another row" in task.notices


def test_max_rows(shop_db: Database) -> None:
    task = shop_db.task(frame(), entity="customers.id", max_rows=7)
    assert task.rows["train"] == 7


@pytest.mark.parametrize(
    ("change", "options", "code", "message"),
    [
        (lambda f: f.iloc[:0], {}, "no_labels", "The frame of labels is empty."),
        (
            lambda f: f.rename(columns={"id": "idd"}),
            {},
            "unknown_column",
            "The frame has no column 'id' for the key of 'customers'. Did you mean 'idd'?",
        ),
        (
            lambda f: f.drop(columns="when"),
            {},
            "unknown_column",
            "The frame must have one column with times, but has 0.",
        ),
        (
            lambda f: f.assign(x=1),
            {},
            "unknown_column",
            "The frame has 2 columns that could be the target: score, x.",
        ),
        (
            lambda f: f,
            {"target_col": "scor"},
            "unknown_column",
            "The frame has no column 'scor' (target). Did you mean 'score'?",
        ),
        (
            lambda f: f,
            {"time_col": "whn"},
            "unknown_column",
            "The frame has no column 'whn' (time). Did you mean 'when'?",
        ),
        (
            lambda f: f.assign(when=1),
            {"time_col": "when"},
            "bad_time",
            "The column 'when' of the frame holds int64, not times.",
        ),
        (
            lambda f: f.assign(when="soon"),
            {"time_col": "when"},
            "bad_time",
            "holds texts that are no times: 'soon'.",
        ),
        (
            lambda f: f.assign(when=f.when.where(f.id > 0)),
            {},
            "bad_time",
            "12 rows of the frame have no time in 'when'.",
        ),
        (
            lambda f: f.assign(score=f.when),
            {"time_col": "when"},
            "bad_target",
            "The target 'score' is a timestamp[us], which cannot be predicted.",
        ),
        (
            lambda f: f.assign(score=[1, "a"] * 30),
            {},
            "bad_frame",
            "The frame of labels mixes types in a column",
        ),
        (
            lambda f: f[f.when < "2024-01-01"],
            {},
            "no_labels",
            "has no label rows in val and test (train 34, val 0, test 0).",
        ),
    ],
)
def test_errors(
    shop_db: Database,
    change: Callable[[pd.DataFrame], pd.DataFrame],
    options: dict[str, str],
    code: str,
    message: str,
) -> None:
    with pytest.raises(TaskError) as caught:
        shop_db.task(change(frame()), entity="customers.id", **options)
    assert caught.value.code == code
    assert message in str(caught.value)


def test_entity_is_needed(shop_db: Database) -> None:
    with pytest.raises(TaskError, match="A task from a frame needs entity"):
        shop_db.task(frame())
    with pytest.raises(TaskError, match="Did you mean 'customers'"):
        shop_db.task(frame(), entity="custmers.id")


def test_guessed_split_times_follow_the_labels(
    make_db: Make, random_shop: Callable[..., Any]
) -> None:
    db = make_db(random_shop(), val="2024-07-01", test="2024-07-15", split_origin="inferred")
    labels = frame(periods=30)
    task = db.task(labels, entity="customers.id", timedelta="10 days")
    assert all(task.rows.values())
