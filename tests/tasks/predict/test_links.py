from gelgt.schema.model import ForeignKey, PrimaryKey, TableSchema, TimeColumn
from gelgt.tasks.predict.links import chains, link


def table(name: str, keys: dict[str, str], time: str | None = None) -> TableSchema:
    return TableSchema(
        name, {}, PrimaryKey(("id",)), TimeColumn(time) if time else None, tuple(ForeignKey((c,), t) for c, t in keys.items())
    )


TABLES = {
    "customers": table("customers", {}),
    "products": table("products", {}),
    "orders": table("orders", {"customer": "customers"}, "placed"),
    "items": table("items", {"order": "orders", "product": "products"}),
    "returns": table("returns", {"item": "items"}, "at"),
    "friends": table("friends", {"one": "customers", "other": "customers"}, "since"),
    "posts": table("posts", {"parent": "posts", "author": "customers"}, "at"),
}


def shown(start: str, goal: str, via: tuple[str, str] | None = None) -> list[str]:
    return [", ".join(str(hop) for hop in chain) for chain in chains(TABLES, start, goal, via)]


def test_shortest_chain() -> None:
    assert shown("orders", "customers") == ["orders.customer → customers"]
    assert shown("items", "customers") == ["items.order → orders, orders.customer → customers"]
    assert len(chains(TABLES, "returns", "customers")[0]) == 3


def test_no_chain() -> None:
    assert shown("customers", "orders") == []
    assert shown("orders", "orders") == []


def test_ambiguous_and_said() -> None:
    assert len(shown("friends", "customers")) == 2
    assert shown("friends", "customers", ("friends", "other")) == ["friends.other → customers"]


def test_a_table_that_refers_to_itself() -> None:
    assert shown("posts", "posts") == ["posts.parent → posts"]
    assert shown("posts", "customers") == ["posts.author → customers"]
    assert shown("posts", "customers", ("posts", "parent")) == []


def test_which_table_dates_a_row() -> None:
    def dated(start: str, goal: str) -> str | None:
        found = link(TABLES, start, chains(TABLES, start, goal)[0])
        return found.timed if found else None

    assert dated("orders", "customers") == "orders"
    assert dated("items", "customers") == "orders"
    assert dated("returns", "products") == "returns"
    assert dated("items", "products") == "orders"  # not on the way, but its only parent with a time
    assert dated("items", "orders") is None  # the entity's own time says nothing about when the row came
