"""Which columns of the database a history column is read from, by its name.

    < orders.customer_id: cancelled_at last age     orders.customer_id, orders.cancelled_at
    > region_id: name is north                      customers.region_id, regions.name
    signed_up_at age                                customers.signed_up_at

Names are matched against the schema, step by step, since the names of a database may hold anything.
"""

from collections.abc import Iterator

from gelgt.schema.model import DatabaseSchema, TableSchema

_ENDS = (": ", " by day: ", " > ", " < ")  # of a step


def columns_read(schema: DatabaseSchema, entity: str, name: str) -> frozenset[tuple[str, str]]:
    """(table, column) pairs: the foreign keys of the path, and the column at its end.

    Args:
        schema: The schema of the database.
        entity: The table where the path begins.
        name: Of the history column.
    """
    table, rest, pairs = schema.tables[entity], name, set()
    while (step := _step(schema, table, rest)) is not None:
        pair, table, rest = step
        pairs.add(pair)
    rest = rest.removeprefix("by day: ").removeprefix(": ")
    if rest == "age" and table.time_col is not None:
        pairs.add((table.name, table.time_col))
    columns = [c for c in table.columns if rest == c or rest.startswith(f"{c} ")]
    if columns:
        pairs.add((table.name, max(columns, key=len)))
    return frozenset(pairs)


def _step(
    schema: DatabaseSchema, table: TableSchema, rest: str
) -> tuple[tuple[str, str], TableSchema, str] | None:
    """The first step of a path: its foreign key, the table that it leads to, and what follows."""
    best = None
    for text, pair, target in _steps(schema, table):
        is_step = any(rest.startswith(text + end) for end in _ENDS)
        if is_step and (best is None or len(text) > len(best[0])):
            best = text, pair, schema.tables[target]
    if best is None:
        return None
    return best[1], best[2], rest[len(best[0]) :].lstrip(" ")


def _steps(
    schema: DatabaseSchema, table: TableSchema
) -> Iterator[tuple[str, tuple[str, str], str]]:
    """Every step from a table: its text, its foreign key and the table that it leads to."""
    for fk in table.foreign_keys:
        for word in ("> ", "> newest "):
            yield f"{word}{fk.column}", (table.name, fk.column), fk.table
    for child in schema.tables.values():
        for fk in child.foreign_keys:
            if fk.table == table.name:
                yield f"< {child.name}.{fk.column}", (child.name, fk.column), child.name
