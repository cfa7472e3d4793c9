"""What sentences ask for, and what they cannot ask for."""

from collections.abc import Callable

import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks.predict import parse, plan_sentence

Make = Callable[..., Database]


@pytest.mark.parametrize(
    ("target", "task_type"),
    [
        ("COUNT(orders.*, 0, 30, days)", "regression"),
        ("COUNT(orders.*, 0, 30, days) > 1", "binary_classification"),
        (
            "NOT (COUNT(orders.*, 0, 30, days) > 1 AND MAX(orders.amount, 0, 10, days) > 5)",
            "binary_classification",
        ),
        ("AVG(orders.is_gift, 0, 30, days)", "regression"),
        ("FIRST(orders.amount, 0, 30, days)", "regression"),
        ("LAST(orders.status, 0, 30, days)", "multiclass_classification"),
        ("LAST(orders.is_gift, 0, 30, days)", "binary_classification"),
        ("LIST_DISTINCT(items.product_id, 0, 30, days)", "recommendation"),
    ],
)
def test_task_type(shop_db: Database, target: str, task_type: str) -> None:
    assert (
        plan_sentence(shop_db, parse(f"PREDICT {target} FOR EACH customers.id")).task_type
        == task_type
    )


def test_horizon_is_that_of_the_farthest_window(shop_db: Database) -> None:
    plan = plan_sentence(
        shop_db,
        parse(
            "PREDICT COUNT(orders.*, 7, 14, days) FOR EACH customers.id "
            "WHERE COUNT(orders.*, 0, 3, weeks) > 0 AND COUNT(orders.*, -9, 0, months) > 0"
        ),
    )
    assert plan.seconds == 21 * 86400
    assert plan.months == 0
    assert plan.has_future_condition
    months = plan_sentence(
        shop_db, parse("PREDICT COUNT(orders.*, 0, 2, months) FOR EACH customers.id")
    )
    assert (months.seconds, months.months) == (60 * 86400, 2)


@pytest.mark.parametrize(
    ("sentence", "code", "message"),
    [
        (
            "PREDICT COUNT(oders.*, 0, 30, days) FOR EACH customers.id",
            "unknown_table",
            "There is no table 'oders'. Did you mean 'orders'?",
        ),
        (
            "PREDICT SUM(orders.amont, 0, 30, days) FOR EACH customers.id",
            "unknown_column",
            "Did you mean 'amount'?",
        ),
        (
            "PREDICT SUM(orders.status, 0, 30, days) FOR EACH customers.id",
            "bad_type",
            "SUM needs a number, but 'status' is a text.",
        ),
        (
            "PREDICT SUM(orders.*, 0, 30, days) FOR EACH customers.id",
            "bad_type",
            "SUM needs a column.",
        ),
        (
            "PREDICT MIN(orders.placed, 0, 30, days) FOR EACH customers.id",
            "bad_target",
            "MIN of a time cannot be predicted.",
        ),
        (
            "PREDICT MAX(orders.status, 0, 30, days) FOR EACH customers.id",
            "bad_target",
            "MAX of a text cannot be predicted. Use FIRST or LAST.",
        ),
        (
            "PREDICT LAST(items.product_id, 0, 30, days) FOR EACH customers.id",
            "bad_target",
            "LAST of a key cannot be predicted.",
        ),
        (
            "PREDICT LIST_DISTINCT(orders.status, 0, 30, days) FOR EACH customers.id",
            "bad_type",
            "LIST_DISTINCT needs a foreign key",
        ),
        (
            "PREDICT COUNT(orders.*, -30, 0, days) FOR EACH customers.id",
            "bad_window",
            "must lie after the seed time",
        ),
        (
            "PREDICT COUNT(products.*, 0, 30, days) FOR EACH customers.id",
            "no_link",
            "No foreign key leads from 'products' to 'customers'.",
        ),
        (
            "PREDICT COUNT(orders.* VIA amount, 0, 30, days) FOR EACH customers.id",
            "no_link",
            "'orders.amount' is no foreign key. There are: customer_id.",
        ),
        (
            "PREDICT COUNT(items.*, 0, 30, days) FOR EACH orders.id",
            "no_time",
            "in a file for --schema (Python: schema=): items: {time_col: …}, or what dates",
        ),
        (
            "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers",
            "bad_entity",
            "Write FOR EACH table.key.",
        ),
        (
            "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.country",
            "bad_entity",
            "is not the key of 'customers'. Write customers.id.",
        ),
        (
            "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH items.order_id",
            "bad_entity",
            "State one in a file for --schema (Python: schema=): items: {pkey: …}.",
        ),
        (
            "PREDICT customers.country = 'DE' FOR EACH customers.id",
            "bad_target",
            "A column of the entity is known already.",
        ),
        (
            "PREDICT orders.amount FOR EACH customers.id",
            "wrong_table",
            "Only columns of 'customers' can be used as a target",
        ),
        (
            "PREDICT orders.customer_id FOR EACH orders.id",
            "bad_target",
            "'orders.customer_id' is a key.",
        ),
        ("PREDICT orders.* FOR EACH orders.id", "bad_target", "A whole row cannot be predicted."),
        (
            "PREDICT products.price FOR EACH products.id",
            "no_time",
            "The table 'products' has no time",
        ),
        (
            "PREDICT orders.amount FOR EACH orders.id WHERE COUNT(items.*, 0, 3, days) > 0",
            "bad_window",
            "A column is predicted at the time of its row, so nothing later can be used.",
        ),
        (
            "PREDICT COUNT(orders.* WHERE customers.country = 'DE', 0, 3, days) FOR EACH "
            "customers.id",
            "wrong_table",
            "Only columns of 'orders'",
        ),
        (
            "PREDICT COUNT(orders.* WHERE COUNT(items.*, 0, 3, days) > 1, 0, 3, days) FOR EACH "
            "customers.id",
            "bad_sentence",
            "inside another one",
        ),
        (
            "PREDICT COUNT(orders.*, 0, 3, days) FOR EACH customers.id WHERE "
            "LIST_DISTINCT(items.product_id, -3, 0, days) = 3",
            "bad_type",
            "A list",
        ),
    ],
)
def test_errors(shop_db: Database, sentence: str, code: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        shop_db.task(sentence)
    assert caught.value.code == code
    assert message in str(caught.value)
    assert "^" in str(caught.value)


def test_ambiguous_link_says_how_to_choose(make_db: Make, days: Callable[..., object]) -> None:
    db = make_db(
        {
            "users": {"columns": {"id": [0, 1]}, "pkey": "id"},
            "messages": {
                "columns": {
                    "at": days("2024-01-01", "2024-06-01"),
                    "sender": [0, 1],
                    "to user": [1, 0],
                },
                "time_col": "at",
                "fkeys": {"sender": "users", "to user": "users"},
            },
        }
    )
    with pytest.raises(TaskError) as caught:
        db.task("PREDICT COUNT(messages.*, 0, 30, days) FOR EACH users.id")
    assert caught.value.code == "ambiguous_link"
    assert "in 2 ways: messages.sender → users; messages.to user → users." in caught.value.message
    assert caught.value.hint == "Say which: COUNT(messages.* VIA sender, …)."
    with pytest.raises(TaskError, match="foreign key"):
        db.task("PREDICT COUNT(messages.* VIA at, 0, 30, days) FOR EACH users.id")
