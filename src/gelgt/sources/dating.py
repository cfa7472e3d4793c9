"""What dates the rows of tables without a time column, inferred from the rows.

A line of an order cannot be older than the order. So a table without a time is dated by every
foreign key that leads to a table with one, also through other such tables, and a row has the time
of the newest row that it names. If they were always visible, the lines of next month's orders would
tell every prediction what will be sold.

Three kinds of keys do not date:

    pointers    `users.last_order_id` changes with every order: dated by it, a user would appear
                only with the last order. The rows show it: the order that a user points to comes
                after other orders that name the user. A model does not follow such a key at all,
                not in a table with a time column either: it says that no later order exists.
    options     keys that are empty in most rows (`coupons.used_in_order`) are filled later and do
                not say when a row came to be. The same holds for keys that are empty in some rows
                and elsewhere name newer rows than the other keys do (`order_items.return_id`):
                dated by it, a line would be hidden until it is returned, so that every visible line
                would be one that is never returned. A model does not follow them either: their
                values were not there before.
    cycles      a key that leads back, through tables without a time, to the table itself
                (`comments.reply_to`).

Rows of a dated table that name no dated row are never visible, like rows without a time in a table
with a time column.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gelgt.schema.model import DatabaseSchema, Dating, ForeignKey, TableSchema, dated_text
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, RowTimes, instant

# share of rows that may be the other way round: real tables have a few wrong dates
TOLERATED = 0.05
LEAST_DATED = 0.5  # share of rows that keys must date


def with_dating(db: Database) -> DatabaseSchema:
    """The schema of a database with `Dating` for every table that has no time column and names
    other tables, where none is stated."""
    schema = db.schema
    undecided = [
        t.name
        for t in schema.tables.values()
        if t.time_column is None and t.dating is None and t.foreign_keys
    ]
    reachable = _reachable(schema)
    while undecided:
        ready = [
            name for name in undecided if not _waits(schema.tables[name], undecided, reachable)
        ]
        if not ready:
            # In a cycle of tables that wait for each other, the first one that some key dates is
            # decided without the others.
            ready = [n for n in undecided if _candidates(schema, schema.tables[n])] or undecided
        name = ready[0]
        decided = replace(schema.tables[name], dating=_decide(db, schema, schema.tables[name]))
        schema = replace(schema, tables={**schema.tables, name: decided})
        undecided.remove(name)
    return _with_pointers(db, schema)


def _with_pointers(db: Database, schema: DatabaseSchema) -> DatabaseSchema:
    """The schema with the pointers of tables that have a time column: a model must not follow these
    either."""
    view = Database(db.folder, schema, db.source)
    times, tables = RowTimes(view), dict(schema.tables)
    for table in schema.tables.values():
        if table.time_column is not None and table.dating is None:
            keys = _candidates(schema, table)
            pointers = tuple(fk.column for fk in keys if _is_pointer(view, times, table, fk))
            if pointers:
                evidence = "its keys are changed after a row is made"
                dating = Dating((), pointers, evidence=evidence)
                tables[table.name] = replace(table, dating=dating)
    return replace(schema, tables=tables)


def _reachable(schema: DatabaseSchema) -> set[str]:
    """Tables without a time from which keys lead to one that has a time, through such tables
    alone."""
    reachable: set[str] = set()
    changed = True
    while changed:
        changed = False
        for table in schema.tables.values():
            if table.time_column is None and table.name not in reachable:
                parents = (schema.tables[fk.table] for fk in table.foreign_keys)
                if any(p.has_time or p.name in reachable for p in parents if p.name != table.name):
                    reachable.add(table.name)
                    changed = True
    return reachable


def _waits(table: TableSchema, undecided: Sequence[str], reachable: set[str]) -> bool:
    return any(
        fk.table != table.name and fk.table in undecided and fk.table in reachable
        for fk in table.foreign_keys
    )


def _candidates(schema: DatabaseSchema, table: TableSchema) -> tuple[ForeignKey, ...]:
    return tuple(
        fk
        for fk in table.foreign_keys
        if fk.table != table.name and schema.tables[fk.table].has_time
    )


def _decide(db: Database, schema: DatabaseSchema, table: TableSchema) -> Dating:
    keys = _candidates(schema, table)
    if not keys:
        return Dating(evidence="names no row that has a time")
    view = Database(db.folder, schema, db.source)  # with the tables that are decided already
    times = RowTimes(view)
    pointers = tuple(fk for fk in keys if _is_pointer(view, times, table, fk))
    dating = tuple(fk for fk in keys if fk not in pointers)
    until = _validation(db)
    # A key does not date if later rows show that it is filled afterwards, even where the training
    # period does not show it yet.
    limits = {until, NEVER - 1}
    later = tuple(
        fk
        for fk in dating
        if any(_is_filled_later(times, table, fk, dating, limit) for limit in limits)
    )
    pointers, dating = (*pointers, *later), tuple(fk for fk in dating if fk not in later)
    if dating and _dated_share(times, table, dating, until) < LEAST_DATED:
        pointers, dating = (*pointers, *dating), ()
    chosen = Dating(tuple(fk.column for fk in dating), tuple(fk.column for fk in pointers))
    evidence = "always visible: its keys are filled or changed after a row is made"
    if dating:
        text = dated_text(schema, replace(table, dating=chosen))
        newest = "the newest of " * (" and " in text)
        evidence = f"no time column: a row is as new as {newest}{text}"
    return replace(chosen, evidence=evidence)


def _validation(db: Database) -> int:
    return NEVER - 1 if db.val_timestamp is None else instant(db.val_timestamp)


def _dated_share(
    times: RowTimes, table: TableSchema, keys: tuple[ForeignKey, ...], until: int
) -> float:
    """The share of rows that some keys date, among those that they date up to a time or not at
    all."""
    dates = times.newest_parent(table, keys)
    dated, undated = np.count_nonzero(dates <= until), np.count_nonzero(dates == NEVER)
    return 1.0 if dated + undated == 0 else float(dated / (dated + undated))


def _is_pointer(db: Database, times: RowTimes, table: TableSchema, fk: ForeignKey) -> bool:
    """Whether the rows that a key points to come after other rows of that table that name the row
    with the key, as a user's last order comes after the first.

    The first ones count up to the validation time; the ones pointed to at any time, because a user
    who still orders points to an order after it.
    """
    target = db.table(fk.table)
    backwards = [other for other in target.foreign_keys if other.table == table.name]
    if not backwards:
        return False
    until = _validation(db)
    moments, first = times.of(target.name), np.full(db.num_rows(table.name), NEVER, np.int64)
    for other in backwards:
        parents = times.parents(target, other)
        is_past = (parents >= 0) & (moments <= until)
        np.minimum.at(first, parents[is_past], moments[is_past])
    pointed = times.newest_parent(table, (fk,))
    both = (first != NEVER) & (pointed != NEVER)
    return bool(both.any()) and float(np.mean(first[both] < pointed[both])) > TOLERATED


def _is_filled_later(
    times: RowTimes, table: TableSchema, fk: ForeignKey, keys: tuple[ForeignKey, ...], until: int
) -> bool:
    """Whether a key is empty in rows that other keys date up to a time, and elsewhere names newer
    rows than these, hardly ever older ones.

    A key that names a row after that time is not empty: a discount of next year's order does not
    exist yet, however old its campaign is. The other keys must date nearly all rows without it: of
    `post_id` and `photo_id`, one of which is filled in each row, both date.
    """
    others = tuple(other for other in keys if other is not fk)
    if not others:
        return False
    date, rest = times.newest_parent(table, (fk,)), times.newest_parent(table, others)
    is_filled, is_dated = date <= until, rest <= until
    both, either = is_filled & is_dated, is_filled | is_dated
    if (
        not both.any()
        or np.mean(is_dated[either]) < 1 - TOLERATED
        or np.mean(date[is_dated] == NEVER) <= TOLERATED
    ):
        return False
    older, newer = np.mean(date[both] < rest[both]), np.mean(date[both] > rest[both])
    return bool(older <= TOLERATED and newer > 1 / 2)


def needs_dating(schema: DatabaseSchema) -> bool:
    """Whether a table has no time column and names others, and nothing says when its rows become
    visible."""
    return any(
        t.time_column is None and t.dating is None and t.foreign_keys
        for t in schema.tables.values()
    )
