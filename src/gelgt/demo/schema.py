"""The tables of the demo shop, written down once and rendered for every kind of database.

    categories ◄─ products ◄─┬─ order_items ─► orders ─► customers ◄─ page_pings
                             └─ visits ─► customers ◄─ support_tickets ─► orders

`order_items` also names its customer, as the line items of many shops do, so that a product is two
steps away from the customer who bought it, and it carries its own time. `categories.parent_id`
refers to its own table, products are keyed by text, and guests visit without a customer.
"""

from dataclasses import dataclass
from typing import Literal

Type = Literal["int", "float", "bool", "time", "word", "text"]

# A `word` is short text that may serve as a key: MySQL wants a length for it.
WORD_LENGTH = 64
_SQLITE: dict[Type, str] = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "bool": "BOOLEAN",
    "time": "DATETIME",
    "word": f"VARCHAR({WORD_LENGTH})",
    "text": "TEXT",
}
_DUCKDB: dict[Type, str] = {**_SQLITE, "time": "TIMESTAMP"}


@dataclass(frozen=True)
class Column:
    """A column, and the table whose primary key it holds, if any."""

    name: str
    type: Type
    is_nullable: bool = False
    references: str | None = None


@dataclass(frozen=True)
class Table:
    """A table; its first column is the primary key."""

    name: str
    columns: tuple[Column, ...]
    time_column: str | None = None

    @property
    def key(self) -> Column:
        return self.columns[0]

    @property
    def foreign_keys(self) -> dict[str, str]:
        """Column → table that it refers to."""
        return {c.name: c.references for c in self.columns if c.references}


def _table(name: str, *columns: Column, time: str | None = None) -> Table:
    return Table(name, columns, time)


# Parents come before children, so that rows can be inserted in this order.
TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        _table(
            "customers",
            Column("id", "int"),
            Column("signed_up_at", "time"),
            Column("country", "word", is_nullable=True),
            Column("birth_year", "int", is_nullable=True),
            Column("wants_newsletter", "bool"),
            time="signed_up_at",
        ),
        _table(
            "categories",
            Column("id", "int"),
            Column("name", "word"),
            Column("parent_id", "int", is_nullable=True, references="categories"),
        ),
        _table(
            "products",
            Column("sku", "word"),
            Column("category_id", "int", references="categories"),
            Column("name", "text"),
            Column("description", "text", is_nullable=True),
            Column("price", "float"),
            Column("quality", "float"),
            Column("weight_grams", "int", is_nullable=True),
            Column("is_refurbished", "bool"),
        ),
        _table(
            "orders",
            Column("id", "int"),
            Column("customer_id", "int", references="customers"),
            Column("placed_at", "time"),
            Column("channel", "word"),
            Column("shipping_fee", "float"),
            Column("coupon", "word", is_nullable=True),
            Column("is_gift", "bool"),
            time="placed_at",
        ),
        _table(
            "order_items",
            Column("id", "int"),
            Column("order_id", "int", references="orders"),
            Column("customer_id", "int", references="customers"),
            Column("product_sku", "word", references="products"),
            Column("ordered_at", "time"),
            Column("quantity", "int"),
            Column("unit_price", "float"),
            time="ordered_at",
        ),
        _table(
            "visits",
            Column("id", "int"),
            Column("customer_id", "int", is_nullable=True, references="customers"),
            Column("product_sku", "word", is_nullable=True, references="products"),
            Column("visited_at", "time"),
            Column("device", "word"),
            Column("seconds", "int", is_nullable=True),
            time="visited_at",
        ),
        _table(
            "support_tickets",
            Column("id", "int"),
            Column("customer_id", "int", references="customers"),
            Column("order_id", "int", is_nullable=True, references="orders"),
            Column("opened_at", "time"),
            Column("subject", "text"),
            Column("body", "text", is_nullable=True),
            Column("is_urgent", "bool", is_nullable=True),
            time="opened_at",
        ),
        _table(
            "page_pings",
            Column("id", "int"),
            Column("customer_id", "int", references="customers"),
            Column("pinged_at", "time"),
            Column("latency_ms", "float", is_nullable=True),
            Column("status_code", "int"),
            time="pinged_at",
        ),
    )
}


def create_statement(table: Table, dialect: Literal["sqlite", "duckdb"]) -> str:
    """`CREATE TABLE` with declared keys."""
    types = _SQLITE if dialect == "sqlite" else _DUCKDB
    lines = [
        f"{c.name} {types[c.type]}{'' if c.is_nullable else ' NOT NULL'}" for c in table.columns
    ]
    lines.append(f"PRIMARY KEY ({table.key.name})")
    lines += [
        f"FOREIGN KEY ({column}) REFERENCES {parent} ({TABLES[parent].key.name})"
        for column, parent in table.foreign_keys.items()
    ]
    return f"CREATE TABLE {table.name} (\n  " + ",\n  ".join(lines) + "\n)"
