"""What dates the rows of tables without a time column, inferred from the rows.

A line of an order cannot be older than the order. So a table without a time is dated by its foreign
keys, and a row is as new as the newest row that it names. If they were always visible, the lines of
next month's orders would tell every prediction what will be sold.

    keys          those that are filled in most rows date; of keys of which exactly one is filled
                  (`post_id` or `photo_id`), each does. Keys that are empty in most rows are filled
                  later or concern few rows (`return_id`): they neither date nor are followed.
    required      a key decides if it names the newest row in some rows. A row without it is never
                  visible: a line without its order must not be dated by its older product. A value
                  that names no row counts as filled: the order was there once.
    named         a table that lost its time column (`time_columns.py`) and that no key dates: its
                  rows exist from the first timed row that names them.
    overwritten   a key to newer rows from which keys lead back (`users.last_order_id`) is changed
                  as time goes on, and so is one to rows that came after the row was first named
                  (`customers.manager_id`). It neither dates nor is followed, whatever its table is
                  dated by.
    lasting       a row under a parent that timed rows name for long after its own time (customers,
                  accounts) may have been written at any moment. It is visible from the parent's
                  time only where nearly every parent has the same number of such rows (a profile);
                  otherwise the table is left out until somebody states what dates it, or if timed
                  rows name its rows, these exist from the first that does. The same holds under
                  such a parent without a time, if nothing names the row.

Inference reads the rows up to `inferred_until`; later rows can only make a rule stricter. A
RelBench folder is read as RelBench reads it: there, no table is left out.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gelgt.schema.model import DatabaseSchema, Dating, ForeignKey, TableSchema, dated_text
from gelgt.sources.database import Database
from gelgt.sources.row_times import NEVER, TIMELESS, RowTimes, Times, for_long, instant

FILLED = 0.98  # share of rows in which a key is filled that is always filled
NEWEST = 0.02  # share of rows in which a key may name the newest row without deciding
OVERWRITTEN = 0.001  # of the rows whose key leads back to the row itself may name newer rows
NEWER = 0.05  # of the rows whose key leads back to another row of the table
OWN = 0.99  # share of rows to which a key leads back that leads back to the own row
LASTING = 0.25  # share of a parent's rows that are named for long after they came
RARELY_LASTING = 0.01  # share from which every parent must have a row
SAME_NUMBER = 0.98  # share of parents with the same number of rows in a profile
_FIRST = "exists from the first timed row that names it: "
_MOST_HOPS, _MOST_KEYS = 4, 5
_DAY = 86_400 * 10**6

Rows = NDArray[np.int64]


def with_dating(
    db: Database,
    until: int | None = None,
    lost: Mapping[tuple[str, str], int] | None = None,
    follows: Collection[tuple[str, str]] = (),
    vetoed: Mapping[str, str] | None = None,
    *,
    is_relbench: bool = False,
) -> DatabaseSchema:
    """The schema of a database with `Dating` for every table that has no time column and names
    other tables, where none is stated, and with the overwritten keys of all tables.

    Args:
        db: The database.
        until: `inferred_until` in microseconds since 1970; by default the validation time.
        lost: How many values of a foreign key, by table and column, named no row and are null now.
        follows: Foreign keys, by table and column, that are stated not to be overwritten.
        vetoed: Tables that lost their time column, and why.
        is_relbench: Whether the rows are those of a RelBench folder.
    """
    if until is None:
        until = NEVER - 1 if db.val_timestamp is None else instant(db.val_timestamp)
    schema, stated = db.schema, (until, lost or {}, follows, is_relbench)

    def evidence_of(schema: DatabaseSchema) -> "_Evidence":
        return _Evidence(Database(db.folder, schema, db.source), *stated)

    vetoed, open_ = vetoed or {}, {t.name for t in schema.tables.values() if t.dating is None}
    undecided = [
        t.name
        for t in schema.tables.values()
        if t.time_column is None and t.dating is None and (t.foreign_keys or t.name in vetoed)
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
        evidence = evidence_of(schema)
        dating = _decide(evidence, schema.tables[name])
        is_unknown = dating.rule == "unknown" or (name in vetoed and not dating.keys)
        if is_unknown and evidence.is_named(name):
            why = _FIRST + vetoed.get(name, dating.evidence)
            dating = Dating((), dating.pointers, evidence=why, rule="named")
        decided = replace(schema.tables[name], dating=dating)
        schema = replace(schema, tables={**schema.tables, name: decided})
        undecided.remove(name)
    evidence = evidence_of(schema)
    tables = {name: _with_overwritten(evidence, schema.tables[name]) for name in open_}
    return replace(schema, tables={name: tables.get(name, t) for name, t in schema.tables.items()})


def needs_dating(schema: DatabaseSchema) -> bool:
    """Whether a table has no time column and names others, and nothing says when its rows become
    visible."""
    return any(
        t.time_column is None and t.dating is None and t.foreign_keys
        for t in schema.tables.values()
    )


def _reachable(schema: DatabaseSchema) -> set[str]:
    """Tables without a time from which keys lead to one that has a time, through such tables
    alone."""
    reachable: set[str] = set()
    changed = True
    while changed:
        changed = False
        for table in schema.tables.values():
            if not table.has_time and table.name not in reachable:
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


@dataclass
class _Evidence:
    """What the rows of a database say; its schema has the tables that are decided already."""

    db: Database
    until: int
    lost: Mapping[tuple[str, str], int]
    follows: Collection[tuple[str, str]]
    is_relbench: bool
    _parents: dict[tuple[str, str], Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.times = RowTimes(self.db)

    @property
    def limits(self) -> tuple[int, int]:
        """Up to when rows are looked at: a rule is as strict as the stricter of both."""
        return self.until, NEVER - 1

    def parents(self, table: TableSchema, fk: ForeignKey) -> Rows:
        """(rows,) the row that each row names by a key, -1 for none."""
        name = table.name, fk.column
        if name not in self._parents:
            self._parents[name] = self.times.parents(table, fk)
        return self._parents[name]

    def named_times(self, table: TableSchema, fk: ForeignKey) -> Times:
        """(rows,) the time of the row that each row names; NEVER for none."""
        parents = self.parents(table, fk)
        times = self.times.of(fk.table)
        named = np.full(len(parents), NEVER, np.int64)
        named[parents >= 0] = times[parents[parents >= 0]]
        return named

    def namers(self, table: str) -> Iterator[tuple[TableSchema, ForeignKey]]:
        """The keys of other tables that name rows of a table."""
        for other in self.db.schema.tables.values():
            for fk in other.foreign_keys:
                if fk.table == table and other.name != table:
                    yield other, fk

    def is_named(self, table: str) -> bool:
        """Whether rows with a time column name rows of a table."""
        return any(other.time_column is not None for other, _ in self.namers(table))

    def first_named(self, table: str, hops: int = 2) -> Times:
        """(rows,) when a row with a time column first named each row, or one that names it; NEVER
        for none."""
        first = np.full(self.db.num_rows(table), NEVER, np.int64)
        for other, fk in self.namers(table):
            if other.time_column is not None:
                times = self.times.of(other.name)
            elif hops:
                times = self.first_named(other.name, hops - 1)
            else:
                continue
            parents = self.parents(other, fk)
            is_named = parents >= 0
            np.minimum.at(first, parents[is_named], times[is_named])
        return first

    def last_named(self, table: str, hops: int = 2) -> Times:
        """(rows,) when a timed row last named each row, or one that names it; TIMELESS for none."""
        last = np.full(self.db.num_rows(table), TIMELESS, np.int64)
        for other, fk in self.namers(table):
            parents, times = self.parents(other, fk), self.times.of(other.name)
            if hops:
                times = np.maximum(times, self.last_named(other.name, hops - 1))
            is_named = (parents >= 0) & (times != NEVER) & (times != TIMELESS)
            np.maximum.at(last, parents[is_named], times[is_named])
        return last

    def lasting(self, table: str) -> float:
        """The share of a table's rows that timed rows name for long after they came, among those
        that are named at all."""
        own, last = self.times.of(table), self.last_named(table)
        if not self.db.table(table).has_time:
            own = self.first_named(table)
        return self.long_after(own, last)

    def long_after(self, one: Times, other: Times) -> float:
        """The share of rows whose second time lies long after the first, of those that are old
        enough for it and have both."""
        low, high = self._span()
        long = for_long(low, high)
        has_both = (one <= high - long) & (one != TIMELESS) & (other != NEVER) & (other != TIMELESS)
        return float(np.mean(other[has_both] - one[has_both] > long)) if has_both.any() else 0.0

    def _span(self) -> tuple[int, int]:
        """When most of the timed rows came: from the first to the last hundredth."""
        ends = [
            np.quantile(times, (0.01, 0.99))
            for table in self.db.schema.tables.values()
            if table.time_column is not None and len(times := _filled(self.times.of(table.name)))
        ]
        return int(min((e[0] for e in ends), default=0)), int(max((e[1] for e in ends), default=0))


def _filled(times: Times) -> Times:
    filled: Times = times[(times != NEVER) & (times != TIMELESS)]
    return filled


# Overwritten keys


def _with_overwritten(evidence: _Evidence, table: TableSchema) -> TableSchema:
    """The table with the keys that are overwritten."""
    known = table.dating.pointers if table.dating is not None else ()
    overwritten = tuple(
        fk.column
        for fk in table.foreign_keys
        if fk.column not in known and _is_overwritten(evidence, table, fk)
    )
    if not overwritten:
        return table
    dating = table.dating or Dating(evidence="its keys are changed after a row is made")
    return replace(table, dating=replace(dating, pointers=(*known, *overwritten)))


def _is_overwritten(evidence: _Evidence, table: TableSchema, fk: ForeignKey) -> bool:
    """Whether a key names newer rows from which keys lead back to its own row or table, or rows
    that are newer than the first row that names its own."""
    schema = evidence.db.schema
    back = list(_ways_back(schema, fk.table, table.name, fk)) if fk.table != table.name else []
    leads_back = fk.table == table.name or bool(back)
    is_dated = table.has_time and fk.column not in {key.column for key in table.dating_keys}
    if not schema.tables[fk.table].has_time or (
        not leads_back and (is_dated or evidence.is_relbench)
    ):
        return False
    if (table.name, fk.column) in evidence.follows:
        return False
    # without a time of its own, the row was there when another one named it
    own = evidence.times.of(table.name) if is_dated else evidence.first_named(table.name)
    own, pointed = coarse(own, evidence.named_times(table, fk))
    is_own = fk.table == table.name or any(_leads_home(evidence, table, fk, way) for way in back)
    tolerated = OVERWRITTEN if is_own else NEWER
    known = (own != NEVER) & (own != TIMELESS) & (pointed != NEVER) & (pointed != TIMELESS)
    for limit in evidence.limits:
        both = known & (own <= limit)
        if both.any() and np.mean(own[both] < pointed[both]) > tolerated:
            return True
    return False


def _ways_back(
    schema: DatabaseSchema, start: str, goal: str, but: ForeignKey
) -> Iterator[tuple[tuple[str, ForeignKey], ...]]:
    """The chains of foreign keys from a table to another, without passing a table twice."""
    waiting: list[tuple[str, tuple[tuple[str, ForeignKey], ...]]] = [(start, ())]
    while waiting:
        here, chain = waiting.pop(0)
        for fk in schema.tables[here].foreign_keys:
            longer = (*chain, (here, fk))
            if fk.table == goal:
                yield longer
            elif len(longer) < _MOST_HOPS and fk.table not in {start, *(t for t, _ in longer)}:
                waiting.append((fk.table, longer))


def _leads_home(
    evidence: _Evidence,
    table: TableSchema,
    fk: ForeignKey,
    way: tuple[tuple[str, ForeignKey], ...],
) -> bool:
    """Whether a key and the keys behind it lead back to the row itself."""
    place = evidence.parents(table, fk)
    for name, key in way:
        parents = evidence.parents(evidence.db.table(name), key)
        place = np.where(place >= 0, parents[np.maximum(place, 0)], -1) if len(parents) else place
    reached = place >= 0
    is_home = place[reached] == np.flatnonzero(reached)
    return bool(reached.any()) and float(np.mean(is_home)) >= OWN


def coarse(one: Times, other: Times) -> tuple[Times, Times]:
    """Two lists of times, cut to days where one of them knows no more."""
    if _is_daily(one) == _is_daily(other):
        return one, other
    return _day(one), _day(other)


def _is_daily(times: Times) -> bool:
    return bool(np.all(_filled(times) % _DAY == 0))


def _day(times: Times) -> Times:
    is_time = (times != NEVER) & (times != TIMELESS)
    return np.where(is_time, times - times % _DAY, times)


# What dates a table


@dataclass
class _Keys:
    """The keys of one table that may date it: (rows,) the time that each gives, NEVER for none."""

    evidence: _Evidence
    table: TableSchema
    times: dict[str, Times]
    parents: dict[str, str]

    def is_early(self, limit: int) -> NDArray[np.bool_]:
        """(rows,) rows whose keys name no row after a time; those that name none are among them."""
        newest = self.newest(tuple(self.times))
        is_early: NDArray[np.bool_] = (newest <= limit) | (newest == NEVER)
        return is_early

    def newest(self, columns: Sequence[str]) -> Times:
        """(rows,) the newest time of some keys; NEVER where a row names none by them."""
        newest = np.full(len(next(iter(self.times.values()))), TIMELESS, np.int64)
        for column in columns:
            times = self.times[column]
            newest = np.where(times == NEVER, newest, np.maximum(newest, times))
        return np.where(newest == TIMELESS, NEVER, newest)

    def filled(self, column: str) -> tuple[float, float]:
        """The least and the largest share of rows in which a key is filled, whether or not what it
        names is there: of those up to `inferred_until`, and of all."""
        lost = self.evidence.lost.get((self.table.name, column), 0) / len(self.times[column])
        shares = [
            min(1.0, float(np.mean(self.evidence_of(column)[early])) + lost)
            for limit in self.evidence.limits
            if (early := self.is_early(limit)).any()
        ]
        return min(shares, default=1.0), max(shares, default=1.0)

    def lasting(self, column: str, among: Sequence[str]) -> float:
        """How much speaks for rows that were written long after what a key names: timed rows go on
        to name it, keys that are not `among` those that date name rows that came long after it, or
        the row is itself named only then."""
        own, evidence = self.times[column], self.evidence
        others = [other for other in self.times if other not in among]
        shares = [
            evidence.lasting(self.parents[column]),
            evidence.long_after(own, evidence.first_named(self.table.name)),
        ]
        if others:
            shares.append(evidence.long_after(own, self.newest(others)))
        return max(shares)

    def evidence_of(self, column: str) -> NDArray[np.bool_]:
        """(rows,) whether a key names a row."""
        fk = next(fk for fk in self.table.foreign_keys if fk.column == column)
        return self.evidence.parents(self.table, fk) >= 0


def _decide(evidence: _Evidence, table: TableSchema) -> Dating:
    candidates = _candidates(evidence.db.schema, table)
    pointers = tuple(fk.column for fk in candidates if _is_overwritten(evidence, table, fk))
    dated = [fk for fk in candidates if fk.column not in pointers]
    if not dated:
        if not evidence.is_relbench and (why := _is_leaf_of_lasting(evidence, table, pointers)):
            return _unknown(evidence, table, pointers, why)
        why = "its keys are changed after a row is made" if pointers else "names no timed row"
        return Dating((), pointers, evidence=f"always visible: {why}")
    if evidence.db.num_rows(table.name) == 0:
        return Dating(tuple(fk.column for fk in dated), pointers)
    keys = _Keys(
        evidence,
        table,
        {fk.column: evidence.named_times(table, fk) for fk in dated},
        {fk.column: fk.table for fk in dated},
    )
    groups = _groups(keys)
    columns = tuple(column for group in groups for column in group)
    pointers = (*pointers, *(column for column in keys.times if column not in columns))
    if not groups:
        return _unknown(evidence, table, pointers, "its keys are empty in most rows")
    required = _required(keys, groups)
    if not evidence.is_relbench and (why := _written_later(keys, required or groups)):
        return _unknown(evidence, table, pointers, why)
    dating = Dating(columns, pointers, required=required)
    return replace(
        dating,
        evidence=_evidence_text(evidence.db.schema, table, dating),
        doubt=_doubt(keys, required),
    )


def _is_leaf_of_lasting(evidence: _Evidence, table: TableSchema, pointers: Sequence[str]) -> str:
    """Why rows may have been written at any time, although they name no row with a time: nothing
    names them, and timed rows go on to name what they belong to. Empty where that is not so."""
    if next(evidence.namers(table.name), None) is not None:
        return ""
    lasting = []
    for fk in table.foreign_keys:
        if fk.column in pointers or fk.table == table.name or not evidence.is_named(fk.table):
            continue
        rows = evidence.parents(table, fk)
        counts = np.bincount(rows[rows >= 0], minlength=evidence.db.num_rows(fk.table))
        if _is_profile(counts):
            return ""
        if evidence.lasting(fk.table) > RARELY_LASTING:
            lasting.append(fk.table)
    return _any_time(", ".join(sorted(set(lasting)))) if lasting else ""


def _any_time(names: str) -> str:
    return (
        f"it names {names} alone, which later rows go on to name: its rows may have been written "
        "at any time after"
    )


def _unknown(
    evidence: _Evidence, table: TableSchema, pointers: tuple[str, ...], why: str
) -> Dating:
    if evidence.is_relbench:
        return Dating((), pointers, evidence=f"always visible: {why}")
    return Dating((), pointers, evidence=why, rule="unknown")


def _evidence_text(schema: DatabaseSchema, table: TableSchema, dating: Dating) -> str:
    text = dated_text(schema, replace(table, dating=dating))
    newest = "the newest of " * (" and " in text)
    return f"no time column: a row is as new as {newest}{text}"


def _groups(keys: _Keys) -> list[tuple[str, ...]]:
    """The keys that date, those of which exactly one is filled together."""
    shares = {column: keys.filled(column) for column in keys.times}
    mostly = [column for column, (_, most) in shares.items() if most > 0.5]
    partial = [column for column, (least, _) in shares.items() if least < FILLED][:_MOST_KEYS]
    filled = {column: keys.evidence_of(column) for column in partial}
    for size in range(len(partial), 1, -1):
        for some in combinations(partial, size):
            count = np.sum([filled[column] for column in some], axis=0)
            takes_part = all(filled[column].any() for column in some)
            is_one = [
                float(np.mean(count[early] == 1))
                for limit in keys.evidence.limits
                if (early := keys.is_early(limit)).any()
            ]
            if takes_part and min(is_one, default=0.0) >= FILLED:
                return [*((column,) for column in mostly if column not in some), some]
    return [(column,) for column in mostly]


def _required(keys: _Keys, groups: Sequence[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
    """The groups without which a row has no time: each that names the newest row in some rows."""
    if len(groups) == 1:
        return (groups[0],)
    required = []
    for group in groups:
        rest = [column for other in groups if other is not group for column in other]
        own, others = coarse(keys.newest(group), keys.newest(rest))
        for limit in keys.evidence.limits:
            both = (own <= limit) & (others <= limit)
            if not both.any() or np.mean(own[both] > others[both]) > NEWEST:
                required.append(group)
                break
    return tuple(required)


def _written_later(keys: _Keys, groups: Sequence[tuple[str, ...]]) -> str:
    """Why rows may have been written long after what they name; empty where they were not.

    One group of keys to rows that do not last is enough: a row is as new as the newest of them.
    """
    columns = [column for group in groups for column in group]
    shares = {column: keys.lasting(column, columns) for column in columns}
    lasting = [max(shares[column] for column in group) for group in groups]
    if min(lasting) <= RARELY_LASTING:
        return ""
    counts = [_counts(keys, group[0]) for group in groups if len(group) == 1]
    if any(_is_profile(count) for count in counts):
        return ""
    is_rare = min(lasting) <= LASTING
    if is_rare and any(len(count) and np.mean(count > 0) >= FILLED for count in counts):
        return ""
    return _any_time(", ".join(sorted({keys.parents[column] for column in shares})))


def _counts(keys: _Keys, column: str) -> Rows:
    """How many rows each row of a parent has that exists up to `inferred_until`."""
    fk = next(fk for fk in keys.table.foreign_keys if fk.column == column)
    parents, times = keys.evidence.parents(keys.table, fk), keys.evidence.times.of(fk.table)
    counts: Rows = np.bincount(parents[parents >= 0], minlength=len(times))[times != NEVER]
    return counts


def _is_profile(counts: Rows) -> bool:
    """Whether nearly every parent has the same number of rows."""
    usual = int(np.bincount(counts).argmax()) if len(counts) else 0
    return usual > 0 and float(np.mean(counts == usual)) >= SAME_NUMBER


def _doubt(keys: _Keys, required: Sequence[tuple[str, ...]]) -> str:
    """Why labels over the rows are refused: a key that decides is empty in some rows, and without
    it others would date these; empty where there is no doubt."""
    for group in required:
        if len(group) > 1 or keys.filled(group[0])[0] >= FILLED:
            continue
        rest = [c for c in keys.times if c not in group and keys.filled(c)[0] >= FILLED]
        if any(keys.lasting(c, rest) <= RARELY_LASTING for c in rest):
            column, rows = group[0], len(keys.times[group[0]])
            empty = int(np.count_nonzero(~keys.evidence_of(column)))
            others = " and ".join(rest)
            return (
                f"'{column}' is empty in {empty:,} of {rows:,} rows: dated by it, these have no "
                f"time; dated by {others} alone, all have one"
            )
    return ""
