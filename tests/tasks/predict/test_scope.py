from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database

Make = Callable[..., Database]
SENTENCE = "PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id WHERE "


@pytest.fixture
def keyed(make_db: Make, random_shop: Callable[..., Any]) -> Database:
    """The shop with keys of its own: customers c0, c1, … and products 100, 99, …"""
    keys = {
        "customers": {"id": [f"c{i}" for i in range(30)]},
        "products": {"sku": [100 - i for i in range(8)]},
    }
    return make_db(random_shop(), keys=keys)


def test_values_in_the_type_of_their_column(shop_db: Database) -> None:
    where = (
        "customers.country IN ('D''E', 'FR') AND customers.joined > "
        "'2023-01-05T12:00:00+01:00' AND joined < 2024-01-01"
    )
    sql = shop_db.task(SENTENCE + where.replace("D''E", "DE")).sql
    assert sql is not None
    assert (
        "e.country IN ('DE', 'FR') AND e.joined > TIMESTAMP '2023-01-05 11:00:00' AND e.joined < "
        "TIMESTAMP '2024-01-01 00:00:00'" in sql
    )


def test_names_ignore_case_where_it_is_clear(shop_db: Database) -> None:
    upper, lower = (
        shop_db.task(s)
        for s in (
            "PREDICT COUNT(ORDERS.*, 0, 30, days) FOR EACH Customers.ID",
            "PREDICT COUNT(orders.*,0,30,days) FOR EACH customers.id",
        )
    )
    assert upper.sql == lower.sql


def test_keys_are_the_users(keyed: Database) -> None:
    task = keyed.task(
        "PREDICT COUNT(items.* WHERE product_id IN (100, 98), 0, 30, days) FOR EACH customers.id "
        "WHERE customers.id != 'c1'"
    )
    assert task.sql is not None
    assert "a.product_id IN (0 /* 100 */, 2 /* 98 */)" in task.sql
    assert "e.id != 1 /* 'c1' */" in task.sql
    assert 1 not in task.table("train").column("id").to_pylist()
    plain = keyed.task(
        "PREDICT COUNT(items.* WHERE product_id = 98, 0, 30, days) FOR EACH customers.id"
    )
    rows = keyed.read("items", ["product_id"]).column(0)
    assert pa.compute.sum(plain.table("train").column("target")).as_py() <= rows.to_pylist().count(
        2
    )


@pytest.mark.parametrize(
    ("where", "code", "message"),
    [
        ("customers.id = 'c99'", "unknown_key", "1 key is not in the table 'customers': 'c99'."),
        ("customers.id = 5", "unknown_key", "1 key is not in the table 'customers': 5"),
        ("customers.id < 'c3'", "bad_type", "Keys can be compared with =, != and IN, not with <."),
        ("customers.id IN ('c1', 5)", "bad_type", "The keys in this list are of different types."),
        ("customers.country = 5", "bad_type", "A text cannot be compared with the number 5."),
        ("customers.joined = 5", "bad_type", "A time cannot be compared with the number 5."),
        ("customers.joined > 'soon'", "bad_type", "'soon' is no time."),
        (
            "COUNT(orders.*, -9, 0, days) = 'x'",
            "bad_type",
            "A number cannot be compared with the text 'x'.",
        ),
        ("customers.joined LIKE '2024%'", "bad_type", "LIKE compares texts, not a time."),
        (
            "customers.joined = customers.country",
            "bad_type",
            "A time cannot be compared with a text.",
        ),
        ("1 = 1", "bad_sentence", "Two fixed values are compared."),
        ("customers.* = 1", "bad_sentence", "A whole row cannot be compared."),
        ("1 IN (1)", "bad_sentence", "A fixed value cannot stand here."),
        (
            "customers.contry = 'DE'",
            "unknown_column",
            "There is no column 'contry' in 'customers'. Did you mean 'country'?",
        ),
        (
            "custmers.country = 'DE'",
            "unknown_table",
            "There is no table 'custmers'. Did you mean 'customers'?",
        ),
        (
            "orders.amount > 3",
            "wrong_table",
            "Only columns of 'customers' can be used in the condition on the entity.",
        ),
    ],
)
def test_errors(keyed: Database, where: str, code: str, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        keyed.task(SENTENCE + where)
    assert caught.value.code == code
    assert message in str(caught.value)
    assert "^" in str(caught.value)
