"""Homophily of graphs small enough to count by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import gelgt
from gelgt import Database, SamplingConfig, Task
from gelgt.bench.homophily import homophily
from gelgt.errors import GelgtError


@pytest.fixture(scope="module")
def followers() -> tuple[Database, Task]:
    """Five people, four of whom follow another; all labels but one are known on day 10, and all are
    asked again on day 20.

    b → a, c → a, d → b, e → d        labels of day 10: a 1, b 1, c 0, d 1, e unknown until day 20
    """
    people = pd.DataFrame(
        {
            "id": list("abcde"),
            "follows": [None, "a", "a", "b", "d"],
            "size": [1.0, 2.0, 3.0, 4.0, 5.0],
        }
    )
    visits = pd.DataFrame({"person": list("abcde"), "at": pd.to_datetime(["2024-01-01"] * 5)})
    schema = {
        "people": {"pkey": "id", "fkeys": {"follows": "people"}},
        "visits": {"pkey": None, "time_col": "at", "fkeys": {"person": "people"}},
    }
    db = gelgt.open({"people": people, "visits": visits}, schema=schema)
    first, second = pd.Timestamp("2024-01-10"), pd.Timestamp("2024-01-20")
    rows = [(first, "a", 1), (first, "b", 1), (first, "c", 0), (first, "d", 1)] + [
        (second, p, y) for p, y in zip("abcde", (1, 1, 0, 1, 1))
    ]
    later = [(pd.Timestamp("2024-02-10"), "a", 1), (pd.Timestamp("2024-03-10"), "a", 0)]
    labels = pd.DataFrame([*rows, *later], columns=["at", "id", "label"])
    task = db.task(
        labels,
        name="likes",
        entity="people.id",
        timedelta="5 days",
        val="2024-02-01",
        test="2024-03-01",
    )
    return db, task


def test_by_hand(followers: tuple[Database, Task]) -> None:
    """On day 10 no label has closed: none of the edges around a, b, c and d agrees.

    On day 20, with one hop, a sees b and c; b sees a and d; c sees a; d sees b and e (unlabelled);
    e sees d. Visits have no label. Pairs of labelled people: a-b same, a-c not, b-a same, b-d same,
    c-a not, d-b same, e-d same: 5 of 7. Each seed's own visit is one more edge, whose one end has
    no label.
    """
    db, task = followers
    assert task.rows["train"] == 9
    found = homophily(db, task, SamplingConfig(hops=1, budget=50))
    assert found["seeds"] == 9
    assert (found["linked pairs"], found["linked ratio"]) == (7, round(5 / 7, 4))
    assert found["nearest hop"] == 1
    # Day 10: a has edges to b, c and its visit (3), b to a, d, visit (3), c to a, visit (2), d to
    # b, e, visit (3): 11, none agrees. Day 20: the same and e to d, visit (2): 13, of which a-b,
    # b-a, b-d, d-b, e-d agree.
    assert found["edges"] == 24
    assert found["edge ratio"] == round(5 / 24, 4)
    assert found["chance"] == round((7 / 9) ** 2 + (2 / 9) ** 2, 4)
    assert found["paper"] is None


def test_a_label_counts_only_once_its_window_has_closed(followers: tuple[Database, Task]) -> None:
    db, task = followers
    longer = replace(task, timedelta=pd.Timedelta(days=30))
    assert homophily(db, longer, SamplingConfig(hops=1, budget=50))["linked pairs"] == 0


def test_values_are_high_or_low(followers: tuple[Database, Task]) -> None:
    db, task = followers
    values = replace(task, task_type="regression")
    found = homophily(db, values, SamplingConfig(hops=1, budget=50))
    assert 0 <= found["linked ratio"] <= 1
    assert np.isclose(found["chance"], 1.0)  # no label lies above the median, which is 1


def test_entities_that_do_not_exist_yet_are_left_out() -> None:
    people = pd.DataFrame({"id": [1, 2], "joined": pd.to_datetime(["2024-01-01", "2024-01-15"])})
    db = gelgt.open({"people": people}, schema={"people": {"pkey": "id", "time_col": "joined"}})
    labels = pd.DataFrame(
        {
            "at": pd.to_datetime(["2024-01-10"] * 2 + ["2024-01-12", "2024-01-14"]),
            "id": [1, 2, 1, 1],
            "label": [1, 0, 1, 1],
        }
    )
    task = db.task(
        labels,
        name="t",
        entity="people.id",
        timedelta="1 days",
        val="2024-01-12",
        test="2024-01-14",
    )
    own = task.table("train")
    # RelBench's own tables have such rows
    late = own.set_column(own.column_names.index(task.entity_col), task.entity_col, pa.array([1]))
    with_late = replace(task, labels={**task.labels, "train": pa.concat_tables([own, late])})
    assert with_late.rows["train"] == 2
    assert homophily(db, with_late, SamplingConfig())["seeds"] == 1


def test_lists_have_no_single_label(followers: tuple[Database, Task]) -> None:
    db, task = followers
    with pytest.raises(GelgtError, match="one class or value per row"):
        homophily(db, replace(task, task_type="multilabel_classification"), SamplingConfig())
