"""Dates inside rows that a model must not know before they happen, inferred from the rows.

`orders.cancelled_at` is empty while an order is open. A seed before the cancellation must read
neither the date nor the columns that were written along with it:

    filled     `cancel_reason` is empty, and `is_active` true, wherever `cancelled_at` is empty.
               Before the date a model reads them as what they are there.
    telling    `status` (new, paid, shipped, cancelled) has no single value there, but says all the
               same whether the date is filled. What it was before is lost, so the column is
               ignored.
    keys       `cancelled_by` is empty wherever the date is. A model does not follow it, because an
               edge would tell that the order is cancelled.

A date that is overwritten, such as `last_seen_at`, says more when it is hidden than when it is
shown: that something comes after the seed. It is ignored, and so is what is written along with it.

Every date is unknown before it happens, but for the time of the row and for what `known_ahead`
states. Only dates that lie after their rows hide something, so only these fill or are told.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.schema.infer import says_overwritten
from gelgt.schema.manifest import parse_event_dates
from gelgt.schema.model import ColumnKind, DatabaseSchema, Dating, EventDate, Rest, TableSchema
from gelgt.sources.column_kinds import ALONG, OVERWRITTEN, PLACEHOLDER, TELLS
from gelgt.sources.database import Database
from gelgt.sources.dating import coarse
from gelgt.sources.processes import core_count
from gelgt.sources.resolve import Stated, as_tuple, stated_kinds
from gelgt.sources.row_times import NEVER, STRAY_TIMES, TIMELESS, RowTimes, instant, seen_since

LATE = 1e-3  # share of dates that must lie after their rows: a few typing errors do not count
STRAY = 1e-3  # share of rows without a date in which a filled column may have another value
RATIO = 0.1  # and how rare that must be beside the rows with the date
# The logarithm of how rarely unrelated columns may look related. Of values other than null,
# the most frequent one is taken, which is some value in any case.
CHANCE, CHANCE_OF_NULL = np.log(1000), np.log(20)
FEW = 3  # rows below which a deviation is hidden without such proof, because that costs nothing
NEWEST = 0.5  # share of dates that equal the newest row which names theirs
BEHIND = 0.9  # share of the named rows with a date, and of these dates that no such row follows
OFTEN = 3  # rows that name a row whose date may follow each of them
ERROR = 0.05  # of a column that tells a date, averaged over rows with and without it
FEWEST = 10  # rows with and without a date from which a column can tell it
VALUES = 32  # of a column that are counted one by one
# Dates from then on (9999-12-31) stand for none, and dates before then (1900-01-01) where several
# rows have the same.
FAR, OLD = instant("2070-01-01"), instant("1902-01-01")

Mask = NDArray[np.bool_]


def with_event_dates(db: Database, stated: Stated, until: int) -> DatabaseSchema:
    """The schema of a database with the event dates of every table, where none are stated.

    Args:
        db: The database; its schema says what dates the rows.
        stated: What the user states; `known_ahead` names dates that are no event dates.
        until: Microseconds since 1970. Rows up to it are judged alone and together with all others;
            what either shows counts.
    """
    times, tables = RowTimes(db), {}
    for name, table in db.schema.tables.items():
        entry = stated.get(name, {})
        if "event_dates" in entry:
            dates = parse_event_dates(name, entry["event_dates"], table.columns, "schema")
            tables[name] = replace(table, event_dates=dates)
        else:
            ahead, follows = known_ahead(entry), frozenset(as_tuple(entry.get("follows")))
            kinds = stated_kinds(stated, name)
            tables[name] = _inferred(db, table, times, until, ahead, follows, kinds)
    return replace(db.schema, tables=tables)


def known_ahead(entry: Mapping[str, Any]) -> frozenset[str]:
    """The dates that a user states to be known before they happen."""
    return frozenset(as_tuple(entry.get("known_ahead")))


def date_columns(table: TableSchema, ahead: Iterable[str] = ()) -> tuple[str, ...]:
    """The dates of a table but for its time, its keys and those that are known ahead."""
    others = {table.time_col, *table.key_columns, *ahead}
    return tuple(c for c, t in table.columns.items() if t == "timestamp" and c not in others)


def _inferred(
    db: Database,
    table: TableSchema,
    times: RowTimes,
    until: int,
    ahead: frozenset[str],
    follows: frozenset[str],
    kinds: Mapping[str, ColumnKind],
) -> TableSchema:
    dates = date_columns(table, ahead)
    if not dates:
        return table
    followed = {fk.column for fk in table.foreign_keys if fk.origin != "manifest"} - follows
    own = {table.time_col, *table.key_columns} - followed
    others = [c for c in table.columns if c not in {*own, *dates, *ahead}]
    found = _along_with(db, table, dates, others, times, until)
    ignored = {c: f"{TELLS} '{date}' is filled" for date in dates for c in found[date].telling}
    for date in dates:
        why = f"{OVERWRITTEN} by the newest event" if is_overwritten(times, table, date) else ""
        if has_placeholder(db, table, date):
            why = f"{PLACEHOLDER} for none in some rows, which are seen to have no date"
        if why:
            ignored[date] = why
            ignored |= dict.fromkeys(found[date].filled, f"{ALONG} '{date}'")
    chosen = {
        c: ColumnKind("ignored", evidence=why)
        for c, why in ignored.items()
        if c in table.kinds and c not in kinds
    }
    event_dates = tuple(
        EventDate(date, found[date].filled, evidence=_evidence(found[date].filled))
        for date in dates
    )
    table = replace(table, event_dates=event_dates, kinds={**table.kinds, **chosen})
    return _without_keys(table, followed)


def has_placeholder(db: Database, table: TableSchema, date: str) -> bool:
    """Whether several rows have the same date long ago in place of none: hidden, the dates of other
    rows would differ from it."""
    batches = db.batches(table.name, [date])
    values = np.concatenate([np.zeros(0, np.int64), *(_microseconds(b.column(0)) for b in batches)])
    old = values[values < OLD]
    return len(old) >= FEW and int(np.unique(old, return_counts=True)[1].max()) >= FEW


def is_overwritten(times: RowTimes, table: TableSchema, date: str) -> bool:
    """Whether a date is written again with each event: by its name, or because it is that of the
    newest row of a table that names its row, or because nearly all rows that are named often have
    one behind all of these."""
    if says_overwritten(date):
        return True
    batches = times.db.batches(table.name, [date])
    values = np.concatenate([_microseconds(batch.column(0)) for batch in batches])
    newest_of_all, named = np.full(len(values), TIMELESS, np.int64), np.zeros(len(values), np.int64)
    for other in times.db.schema.tables.values():
        keys = [fk for fk in other.foreign_keys if fk.table == table.name]
        if other.time_col is None or other.name == table.name:
            continue
        for fk in keys:
            parents, moments = times.parents(other, fk), times.of(other.name)
            is_named = (parents >= 0) & (moments != NEVER)
            newest = np.full(len(values), TIMELESS, np.int64)
            np.maximum.at(newest, parents[is_named], moments[is_named])
            own, other_days = coarse(values, newest)
            both = (own != NEVER) & (other_days != TIMELESS)
            counts = np.bincount(parents[is_named], minlength=len(values))
            if (counts[both] > 1).any() and np.mean(own[both] == other_days[both]) >= NEWEST:
                return True
            newest_of_all, named = np.maximum(newest_of_all, newest), named + counts
    own, newest = coarse(values, newest_of_all)
    is_named, is_filled = named >= OFTEN, own != NEVER
    both = is_named & is_filled
    if both.sum() < FEWEST or np.mean(is_filled[is_named]) < BEHIND:
        return False
    return bool(np.mean(own[both] >= newest[both]) >= BEHIND)


def _evidence(filled: Mapping[str, Rest]) -> str:
    return f"filled along with it: {', '.join(filled)}" if filled else "a date"


def _without_keys(table: TableSchema, followed: set[str]) -> TableSchema:
    """The table with keys that are filled along with a date among those that are not followed."""
    assert table.event_dates is not None
    dating = table.dating or Dating()
    keys = {c: date.column for date in table.event_dates for c in date.filled if c in followed}
    late = [c for c in keys if c not in (*dating.keys, *dating.pointers)]
    if not late:
        return table
    evidence = dating.evidence or f"'{late[0]}' is filled along with '{keys[late[0]]}'"
    dating = replace(dating, pointers=(*dating.pointers, *late), evidence=evidence)
    return replace(table, dating=dating)


@dataclass(frozen=True)
class _Along:
    """What comes along with a date: columns with their value where it is empty, and those that tell
    it."""

    filled: Mapping[str, Rest]
    telling: tuple[str, ...] = ()


def _along_with(
    db: Database,
    table: TableSchema,
    dates: Sequence[str],
    columns: Sequence[str],
    times: RowTimes,
    until: int,
) -> dict[str, _Along]:
    """What comes along with each date: one pass over the rows."""
    moments, bits = times.of(table.name), 1 << np.arange(len(dates))
    since = seen_since(times, table.name, until, STRAY_TIMES)
    patterns: dict[int, int] = {}  # numbers of sets of dates that are filled together
    tallies = {c: _Tally() for c in columns}
    late, filled, start = np.zeros(len(dates)), np.zeros(len(dates)), 0
    with ThreadPoolExecutor(core_count()) as pool:
        for batch in db.batches(table.name, list(dict.fromkeys([*dates, *columns]))):
            some = slice(start, start + batch.num_rows)
            own, start = moments[some], some.stop
            exists = own != NEVER  # rows that are never visible show nothing
            values = np.stack([_microseconds(batch.column(date)) for date in dates])[:, exists]
            has_date = (values < FAR) & (values >= OLD)
            late += (has_date & (values > since[some][exists])).sum(1)
            filled += has_date.sum(1)
            found, which = np.unique(bits @ has_date, return_inverse=True)
            numbers = np.array([patterns.setdefault(p, len(patterns)) for p in found.tolist()])
            group = 2 * numbers[which.reshape(-1)] + (own[exists] > until)
            rows = batch.filter(pa.array(exists))
            add = partial(_add, rows=rows, group=group)
            list(pool.map(add, tallies.items()))
    has = (np.array(list(patterns), np.int64)[:, None] & bits) > 0  # (patterns, dates)
    is_late = late > LATE * filled
    return _judged(dates, tallies, has, is_late)


def _add(tally: "tuple[str, _Tally]", rows: pa.RecordBatch, group: NDArray[np.int64]) -> None:
    tally[1].add(rows.column(tally[0]), group)


def _microseconds(column: pa.Array) -> NDArray[np.int64]:
    """The instants of dates; the largest number where there is none."""
    values: NDArray[np.int64] = (
        column.cast(pa.int64()).fill_null(NEVER).to_numpy(zero_copy_only=False)
    )
    return values


_OTHER, _NULL = VALUES, VALUES + 1  # codes of values that are not counted alone, and of none


class _Tally:
    """How often each value of a column comes with which dates."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.has_rest = True  # whether a value other than null can be given back
        # value, which dates are filled, whether the row came after `until`
        self.counts = np.zeros((VALUES + 2, 0, 2), np.int64)

    def add(self, column: pa.Array, group: NDArray[np.int64]) -> None:
        """Count the values of some rows: (n,) twice the number of their pattern of dates, plus one
        for later rows."""
        if not len(column):
            return
        patterns = max(self.counts.shape[1], int(group.max()) // 2 + 1)
        pairs = self._codes(column) * 2 * patterns + group
        counts = np.bincount(pairs, minlength=(VALUES + 2) * 2 * patterns)
        grown = counts.reshape(VALUES + 2, patterns, 2)
        grown[:, : self.counts.shape[1]] += self.counts
        self.counts = grown

    def _codes(self, column: pa.Array) -> NDArray[np.int64]:
        if pa.types.is_list(column.type):
            self.has_rest = False
            column = pc.greater(pc.list_value_length(column), 0)
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_finite(column), column, pa.scalar(None, column.type))
        known = self._known(column)
        if len(self.values) < VALUES and self._learn(column.filter(pc.is_null(known)).drop_null()):
            known = self._known(column)
        codes: NDArray[np.int64] = np.array(known.fill_null(_OTHER), np.int64)
        codes[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
        return codes

    def _known(self, column: pa.Array) -> pa.Array:
        """The codes of values that are counted one by one."""
        return pc.index_in(column, value_set=pa.array(self.values, column.type))

    def _learn(self, new: pa.Array) -> bool:
        """Count the most frequent of new values one by one, as long as there is room."""
        if len(new):
            counted = pc.value_counts(new)
            order = np.argsort(-counted.field("counts").to_numpy(), kind="stable")
            few = order[: VALUES - len(self.values)]
            self.values += counted.field("values").take(pa.array(few)).to_pylist()
        return len(new) > 0

    def scopes(self, patterns: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(values, patterns) counts of the early rows, and of all."""
        counts = np.zeros((VALUES + 2, patterns, 2), np.int64)
        counts[:, : self.counts.shape[1]] = self.counts
        return counts[:, :, 0], counts.sum(2)

    def rest(self, code: int) -> Rest:
        value: Rest = None if code == _NULL else self.values[code]
        return value


def _judged(
    dates: Sequence[str], tallies: Mapping[str, _Tally], has: Mask, is_late: Mask
) -> dict[str, _Along]:
    """What comes along with each date.

    Args:
        has: (patterns, dates) which dates are filled.
        is_late: (dates,) which dates lie after their rows.
    """
    filled: dict[str, dict[str, Rest]] = {date: {} for date in dates}
    telling: dict[str, list[str]] = {date: [] for date in dates}
    for column, tally in tallies.items():
        scopes, told = tally.scopes(len(has)), np.zeros(len(dates), np.bool_)
        rests = {d: _rest(scopes, has[:, d]) for d in np.flatnonzero(is_late).tolist()}
        for d, code in rests.items():
            if code is not None and (code == _NULL or tally.has_rest):
                filled[dates[d]][column] = tally.rest(code)
                told[d] = True
        # Where the column is filled along with earlier dates, these say as much as it does.
        is_there: Mask = np.all(has[:, told], axis=1)
        for d, code in rests.items():
            if not told[d] and (code is not None or _tells(scopes, has[:, d], is_there)):
                telling[dates[d]].append(column)
    return {date: _Along(filled[date], tuple(telling[date])) for date in dates}


def _rest(scopes: Sequence[NDArray[np.int64]], has: Mask) -> int | None:
    """The value that a column has wherever a date is empty, if it hardly ever has it elsewhere."""
    for counts in scopes:
        without, having = counts[:, ~has].sum(1), counts[:, has].sum(1)
        single = without.copy()
        single[_OTHER] = -1
        code = int(np.argmax(single))
        totals = int(without.sum()), int(having.sum())
        strays = totals[0] - int(without[code]), totals[1] - int(having[code])
        if _comes_along(strays, totals, CHANCE_OF_NULL if code == _NULL else CHANCE):
            return code
    return None


def _tells(scopes: Sequence[NDArray[np.int64]], has: Mask, is_there: Mask) -> bool:
    """Whether the values of a column say if a date is filled, among some patterns of dates."""
    for counts in scopes:
        without, having = counts[:, ~has & is_there].sum(1), counts[:, has & is_there].sum(1)
        if min(without.sum(), having.sum()) >= FEWEST:
            error = np.minimum(without / without.sum(), having / having.sum()).sum() / 2
            if error <= ERROR:
                return True
    return False


def _comes_along(strays: tuple[int, int], totals: tuple[int, int], chance: float) -> bool:
    """Whether a column deviates from its value at rest hardly ever in rows without a date, and in
    rows with it much more often than by chance.

    The chance that so few of all deviations fall on the rows without the date is at most
    exp(-n · KL(share there, share in all)) (Chernoff; Hoeffding 1963 for draws without
    replacement).

    Args:
        strays: Rows without and with the date that deviate.
        totals: Rows without and with it.
        chance: The logarithm of one in how many pairs may belong by chance.
    """
    if not all(totals) or not strays[1]:
        return False
    if strays[1] < FEW:
        return not strays[0]
    without, having = (stray / total for stray, total in zip(strays, totals))
    if without > min(STRAY, RATIO * having):
        return False
    every = sum(strays) / sum(totals)
    terms = [(p, q) for p, q in ((without, every), (1 - without, 1 - every)) if p > 0]
    return bool(totals[0] * sum(p * np.log(p / q) for p, q in terms) >= chance)
