import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks import make_task

Make = Callable[..., Database]
SENTENCE = "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id"
SQL = """
SELECT t.timestamp AS timestamp, c.id AS customer, COUNT(o.id) AS orders
FROM timestamps t JOIN customers c ON c.joined <= t.timestamp
LEFT JOIN orders o ON o.customer_id = c.id
  AND o.placed > t.timestamp AND o.placed <= t.timestamp + INTERVAL '{timedelta}'
GROUP BY ALL
"""


def test_sql_and_sentence_agree(shop_db: Database) -> None:
    sql = make_task(shop_db, SQL, timedelta="30 days", entity="customers.customer")
    sentence = make_task(shop_db, SENTENCE)
    assert (sql.kind, sql.task_type, sql.entity_table, sql.entity_col, sql.target_col) == (
        "forecast",
        "regression",
        "customers",
        "customer",
        "orders",
    )
    for split in ("train", "val", "test"):
        assert [c.to_pylist() for c in sql.table(split).columns] == [
            c.to_pylist() for c in sentence.table(split).columns
        ]
    assert sql.num_eval_timestamps == sentence.num_eval_timestamps == 3


@pytest.mark.parametrize(
    ("target", "task_type"),
    [
        ("COUNT(o.id) > 0", "binary_classification"),
        ("CAST(COUNT(o.id) > 0 AS INTEGER)", "binary_classification"),
        ("CAST(COUNT(o.id) > 0 AS DOUBLE)", "binary_classification"),
        ("SUM(o.amount)", "regression"),
        ("SUM(CAST(o.amount AS INTEGER))", "regression"),
        ("MAX(o.status)", "multiclass_classification"),
    ],
)
def test_task_type_is_inferred(shop_db: Database, target: str, task_type: str) -> None:
    task = make_task(
        shop_db,
        SQL.replace("COUNT(o.id)", target, 1),
        timedelta="30 days",
        entity="customers.customer",
    )
    assert task.task_type == task_type


def test_null_targets_and_entities_are_counted(shop_db: Database) -> None:
    sql = SQL.replace("COUNT(o.id)", "AVG(o.amount)", 1)
    task = make_task(shop_db, sql, timedelta="30 days", entity="customers.customer")
    everyone = make_task(shop_db, SQL, timedelta="30 days", entity="customers.customer")
    missing = everyone.rows["train"] - task.rows["train"]
    assert f"train: {missing} rows without a target were left out" in task.notices
    nobody = make_task(
        shop_db,
        "SELECT t.timestamp AS timestamp, o.customer_id AS customer, COUNT(*) AS n "
        "FROM timestamps t JOIN orders o ON o.placed > t.timestamp "
        "AND o.placed <= t.timestamp + INTERVAL '{timedelta}' GROUP BY ALL",
        timedelta="30 days",
        entity="customers.customer",
    )
    assert any("without an entity or a time" in n for n in nobody.notices)


@pytest.mark.parametrize(
    ("sql", "options", "code", "message"),
    [
        (SQL, {}, "missing_option", "A task from SQL needs timedelta and entity."),
        (
            SQL,
            {"timedelta": "30 days", "entity": "customers.custmer"},
            "unknown_column",
            "Did you mean 'customer'?",
        ),
        (
            SQL,
            {"timedelta": "30 days", "entity": "customers"},
            "unknown_column",
            "The label SQL returns no column 'id' (entity).",
        ),
        (
            SQL,
            {"timedelta": "30 days", "entity": "custmers.customer"},
            "unknown_table",
            "Did you mean 'customers'?",
        ),
        (
            SQL.replace("AS orders", "AS orders, 1 AS x"),
            {"timedelta": "30 days", "entity": "customers.customer"},
            "unknown_column",
            "not clear",
        ),
        (
            SQL.replace("customers c", "custmers c"),
            {"timedelta": "30 days", "entity": "customers.customer"},
            "bad_sql",
            "custmers",
        ),
        (
            SQL,
            {"timedelta": "soon", "entity": "customers.customer"},
            "bad_timedelta",
            "must be a positive duration",
        ),
        (
            SQL.replace("c.id AS", "c.country AS"),
            {"timedelta": "30 days", "entity": "customers.customer"},
            "bad_entity",
            "VARCHAR, not a row number",
        ),
        (
            SQL.replace("COUNT(o.id)", "MAX(o.placed)", 1),
            {"timedelta": "30 days", "entity": "customers.customer"},
            "bad_target",
            "TIMESTAMP",
        ),
        (
            SQL.replace("c.id AS", "-c.id - 1 AS"),
            {"timedelta": "30 days", "entity": "customers.customer"},
            "unknown_key",
            "are no rows of 'customers'",
        ),
        (SENTENCE, {"task_type": "regresion"}, "unknown_task_type", "Did you mean 'regression'?"),
        (
            SENTENCE,
            {"max_rows": 0},
            "bad_option",
            "max_rows must be a whole number of at least 1, got 0",
        ),
        (SENTENCE, {"name": "../up"}, "bad_name", "A task cannot be named '../up'."),
        (
            SENTENCE,
            {"task_type": "binary_classification"},
            "bad_target",
            "holds values other than 0 and 1",
        ),
        (
            SENTENCE,
            {"remove_columns": ["orders.amont"]},
            "unknown_column",
            "Did you mean 'orders.amount'?",
        ),
        (
            SENTENCE + " WHERE customers.country = 'XX'",
            {},
            "no_labels",
            "has no label rows in train and val and test (train 0, val 0, test 0).",
        ),
        ("churn", {}, "unknown_task", "'tiny' has no task 'churn'. There are none."),
        ("count the orders", {}, "bad_sentence", "Expected PREDICT, but there is 'count'."),
        (Path("nowhere"), {}, "unknown_task", "There is no task in nowhere."),
    ],
)
def test_errors(
    shop_db: Database, sql: Any, options: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(TaskError) as caught:
        make_task(shop_db, sql, **options)
    assert caught.value.code == code
    assert message in str(caught.value)


def test_explicit_split_times(shop_db: Database) -> None:
    task = make_task(
        shop_db, SENTENCE, val="2024-01-01", test="2024-02-15T00:00:00Z", eval_timestamps=1
    )
    assert (task.val_timestamp, task.test_timestamp) == (
        pd.Timestamp("2024-01-01"),
        pd.Timestamp("2024-02-15"),
    )
    assert [str(t)[:10] for t in task.preview().seed_times["test"]] == ["2024-02-15"]


def test_inferred_split_times_make_room(make_db: Make, random_shop: Callable[..., Any]) -> None:
    db = make_db(random_shop(), val="2024-07-20", test="2024-07-25", split_origin="inferred")
    task = make_task(db, "PREDICT COUNT(orders.*, 0, 2, months) FOR EACH customers.id")
    assert all(task.rows.values())
    assert task.test_timestamp is not None
    assert task.test_timestamp < pd.Timestamp("2024-06-01")


def test_import_is_light() -> None:
    code = (
        "import sys, gelgt.tasks; print([m for m in ('duckdb', 'pandas', 'torch', 'relbench') "
        "if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )
