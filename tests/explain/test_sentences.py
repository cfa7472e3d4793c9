"""Effects in words."""

from gelgt.explain import Effect
from gelgt.explain.sentences import describe, sentence, summary

ORDERS = ("customers", "orders")
PRODUCTS = ("customers", "order_items", "products")


def order(key: int, effect: float, age: float) -> Effect:
    return Effect("row", "orders", ORDERS, effect, key=key, age_days=age)


def test_one_effect() -> None:
    risk = "the risk"
    row = order(7, -0.214, 31.2)
    assert sentence(row, risk) == "The row 7 of orders (31 days ago) lowers the risk by 0.21."
    column = Effect("column", "products", PRODUCTS, 0.1, key="A", column="quality", value=0.9)
    assert (
        sentence(column, risk) == "quality = 0.9 of the row A of products raises the risk by 0.10."
    )
    several = Effect("age", "orders", ORDERS, 0.0012, age_days=200.0, oldest_days=400.0, rows=12)
    assert (
        sentence(several, risk)
        == "12 rows of orders of 200 days to 400 days ago raise the risk by 0.0012."
    )
    assert describe(several) == "12 × orders of 200 days to 400 days ago"
    own = Effect("row", "customers", ("customers",), 0.3, key=[1, "b"])
    assert sentence(own, risk) == "The columns of the row 1, b of customers raise the risk by 0.30."


def test_rows_that_work_together_are_told_together() -> None:
    effects = [order(1, -0.1, 5.0), order(2, -0.06, 20.0), order(3, -0.05, 40.0)]
    effects += [order(4, -0.001, 300.0), order(5, 0.02, 33.0)]
    told = summary(effects, "the risk")
    assert told[0] == "Three rows of orders in the last 40 days lower the risk by 0.21."
    assert told[1] == "The row 5 of orders (33 days ago) raises the risk by 0.02."


def test_a_row_that_stands_out_is_told_alone() -> None:
    effects = [order(1, -0.3, 5.0), order(2, -0.01, 20.0), order(3, -0.01, 40.0)]
    assert summary(effects, "it") == ("The row 1 of orders (5.0 days ago) lowers it by 0.30.",)
