from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks.keys import key_names, row_numbers

Make = Callable[..., Database]


def column(*values: Any) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values)])


def test_row_numbers_are_the_keys(shop_db: Database) -> None:
    assert key_names(shop_db, "customers") == ["id"]
    assert row_numbers(shop_db, "customers", [column(3, 0)]).tolist() == [3, 0]
    with pytest.raises(TaskError, match="2 keys are not in the table 'customers': -1, 30"):
        row_numbers(shop_db, "customers", [column(3, -1, 30)])


def test_texts_and_several_parts(make_db: Make, random_shop: Callable[..., Any]) -> None:
    keys = {
        "customers": {"code": [f"c{i}" for i in range(30)]},
        "products": {"a": [i // 2 for i in range(8)], "b": ["x", "y"] * 4},
    }
    db = make_db(random_shop(), keys=keys)
    assert row_numbers(db, "customers", [column("c7", "c1")]).tolist() == [7, 1]
    assert row_numbers(db, "products", [column(3, 0), column("y", "x")]).tolist() == [7, 0]
    with pytest.raises(TaskError, match=r"The key of 'products' has 2 parts \(a, b\), but 1"):
        row_numbers(db, "products", [column(1)])
    with pytest.raises(TaskError, match=r"1 key is not in the table 'products': \(9, 'x'\)."):
        row_numbers(db, "products", [column(9), column("x")])


def test_a_key_of_another_type_is_understood_or_named(
    make_db: Make, random_shop: Callable[..., Any]
) -> None:
    db = make_db(random_shop(), keys={"customers": {"code": list(range(100, 130))}})
    assert row_numbers(db, "customers", [column(101.0)]).tolist() == [1]
    with pytest.raises(TaskError, match="The keys of 'customers' are int64, but 'x' were given"):
        row_numbers(db, "customers", [column("x")])
    with pytest.raises(TaskError, match="1 key is not in the table 'customers': None"):
        row_numbers(db, "customers", [column(101, None)])


@pytest.mark.parametrize("count", [1, 2, 20])
def test_a_few_keys_of_many_are_found_where_all_of_them_are(
    make_db: Make, random_shop: Callable[..., Any], count: int
) -> None:
    keys: dict[str, dict[str, list[Any]]] = {
        "customers": {"code": [f"c{i}" for i in range(30)]},
        "orders": {
            "a": [None if i % 7 == 0 else i // 4 for i in range(600)],
            "b": [i % 4 for i in range(600)],
            "c": [-0.0 if i % 2 else 1.5 for i in range(600)],
        },
    }
    db = make_db(random_shop(), keys=keys)
    for table, parts in keys.items():
        every = [column(*values) for values in parts.values()]
        rows = row_numbers(db, table, every)  # many: an index of all keys
        few = [column(*values[-count:][::-1]) for values in parts.values()]
        assert row_numbers(db, table, few).tolist() == rows[-count:][::-1].tolist()
    with pytest.raises(TaskError, match="1 key is not in the table 'customers': 'c30'"):
        row_numbers(db, "customers", [column("c30", "c3")])
    zero = [column(keys["orders"][part][1]) for part in ("a", "b")]
    assert row_numbers(db, "orders", [*zero, column(0.0)]).tolist() == [1], "0.0 is -0.0"
