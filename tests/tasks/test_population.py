import numpy as np
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database


def test_entities_that_exist_at_the_time(shop_db: Database) -> None:
    task = shop_db.task("PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id")
    joined = shop_db.read("customers", ["joined"]).column(0).to_numpy()
    for at in ("2022-01-01", "2023-06-01", "2026-01-01"):
        np.testing.assert_array_equal(
            task.population(shop_db, at), np.flatnonzero(joined <= np.datetime64(at))
        )
    assert task.population_sql is None


def test_all_rows_of_a_table_without_time(shop_db: Database) -> None:
    task = shop_db.task("PREDICT COUNT(items.*, 0, 30, days) FOR EACH products.id")
    np.testing.assert_array_equal(task.population(shop_db, "2020-01-01"), np.arange(8))


def test_past_conditions_apply_and_future_ones_do_not(shop_db: Database) -> None:
    past = "customers.country = 'DE' AND COUNT(orders.*, -60, 0, days) > 0"
    plain = shop_db.task(
        f"PREDICT SUM(orders.amount, 0, 30, days) FOR EACH customers.id WHERE {past}"
    )
    both = shop_db.task(
        f"PREDICT SUM(orders.amount, 0, 30, days) FOR EACH customers.id WHERE {past} AND "
        "COUNT(orders.*, 0, 30, days) > 0"
    )
    at = "2024-05-01"
    orders = shop_db.read("orders").to_pandas()
    recent = orders[(orders.placed <= at) & (orders.placed > "2024-03-02")].customer_id.unique()
    country = shop_db.read("customers", ["country"]).column(0).to_pylist()
    expected = sorted(int(c) for c in recent if c == c and country[int(c)] == "DE")
    assert plain.population(shop_db, at).tolist() == expected
    assert both.population(shop_db, at).tolist() == expected
    assert both.population_sql == plain.population_sql
    assert (
        "the condition on the future applies to the labels; predictions leave it out"
        in both.notices
    )
    assert len(both.table("train")) < len(plain.table("train"))


def test_label_rows_at_a_time_are_its_population(shop_db: Database) -> None:
    task = shop_db.task(
        "PREDICT SUM(orders.amount, 0, 30, days) FOR EACH customers.id WHERE COUNT(orders.*, -60, "
        "0, days) > 0"
    )
    table = task.table("val").to_pandas()
    for time, rows in table.groupby("timestamp"):
        assert rows["id"].tolist() == task.population(shop_db, time).tolist()


def test_a_time_with_a_zone_and_a_bad_one(shop_db: Database) -> None:
    task = shop_db.task("PREDICT COUNT(orders.*, 0, 30, days) FOR EACH customers.id")
    np.testing.assert_array_equal(
        task.population(shop_db, "2023-06-01T02:00:00+02:00"),
        task.population(shop_db, "2023-06-01"),
    )
    with pytest.raises(TaskError, match="The prediction time must be a time, got 'soon'"):
        task.population(shop_db, "soon")
