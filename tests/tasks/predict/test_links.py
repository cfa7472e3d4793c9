from gelgt.schema.model import Dating, ForeignKey, PrimaryKey, TableSchema, TimeColumn
from gelgt.tasks.predict.links import chains, link


def table(
    name: str, keys: dict[str, str], time: str | None = None, dated_by: tuple[str, ...] = ()
) -> TableSchema:
    foreign_keys = tuple(ForeignKey((c,), t) for c, t in keys.items())
    return TableSchema(
        name,
        {},
        PrimaryKey(("id",)),
        TimeColumn(time) if time else None,
        foreign_keys,
        dating=Dating(dated_by),
    )


TABLES = {
    "customers": table("customers", {}),
    "products": table("products", {}),
    "orders": table("orders", {"customer": "customers"}, "placed"),
    "items": table("items", {"order": "orders", "product": "products"}, dated_by=("order",)),
    "labels": table("labels", {"item": "items", "product": "products"}, dated_by=("item",)),
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


def test_which_rows_have_a_time() -> None:
    def has_time(start: str, goal: str) -> bool:
        return link(TABLES, start, chains(TABLES, start, goal)[0]) is not None

    assert has_time("orders", "customers")
    assert has_time("items", "customers")
    assert has_time("returns", "products")
    assert has_time("items", "products")  # dated by their order
    assert has_time("labels", "products")  # through a chain of tables without a time
    # the entity's own time says nothing about when the row came
    assert not has_time("items", "orders")
