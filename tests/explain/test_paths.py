"""Paths, whatever tables and columns are called."""

from types import SimpleNamespace

import pytest

from gelgt.explain.paths import Path
from gelgt.graph.store import Relation

GRAPH = SimpleNamespace(
    relations=[
        Relation("orders", "customer", "customers"),
        Relation("orders", "customer > shop", "shops"),
        Relation("odd < name", "of > order", "orders"),
        Relation("customers", "referrer", "customers"),
    ]
)


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("< orders.customer", ("customers", "orders")),
        ("< orders.customer > customer > shop", ("customers", "orders", "shops")),
        ("< orders.customer < odd < name.of > order", ("customers", "orders", "odd < name")),
        ("> referrer < orders.customer", ("customers", "customers", "orders")),
    ],
)
def test_a_name_is_read_as_it_was_made(name: str, tables: tuple[str, ...]) -> None:
    path = Path.parse(name, "customers", GRAPH)  # type: ignore[arg-type]
    assert (path.name, path.tables) == (name, tables)
    assert path.first_step == ("> referrer" if name.startswith(">") else "< orders.customer")
    assert path.length == len(tables) - 1


def test_the_newest_row_is_one_of_a_path() -> None:
    assert Path.name_of("< orders.customer > newest shop ") == "< orders.customer > shop"
