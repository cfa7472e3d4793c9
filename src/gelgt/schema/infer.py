"""Keys and time columns that a source does not declare, inferred from names, types, uniqueness and
containment.

Each inference states its evidence. Containment alone proves nothing for whole numbers (1…n lies in
every longer 1…m), so a foreign key needs a name that points to its table, or texts, or numbers
between which most others are no keys.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol

from gelgt.schema.model import ForeignKey, PrimaryKey, TimeColumn
from gelgt.schema.names import (
    NAMESAKE,
    SELF_WORDS,
    is_keylike,
    names_own_table,
    points_to,
    stem,
    words,
)


@dataclass(frozen=True)
class ColumnFacts:
    """What the first pass over the rows counted in a column."""

    name: str
    type: str  # int64, float64, bool, string, timestamp, list
    nulls: int
    rows: int
    is_whole: bool  # whole numbers only, in whatever type

    @property
    def is_key_type(self) -> bool:
        return self.type in ("string", "int64") or (self.type == "float64" and self.is_whole)

    @property
    def family(self) -> str:
        return "text" if self.type == "string" else "number"


class Probe(Protocol):
    """Questions about whole columns, answered on demand because they cost a scan."""

    def is_unique(self, table: str, column: str) -> bool: ...

    def distinct(self, table: str, column: str) -> int: ...

    def contained(self, table: str, column: str, parent: str, key: str) -> int:
        """How many distinct values of a column are keys of the parent."""
        ...

    def key_density(self, table: str, column: str, parent: str, key: str) -> float:
        """The share of keys of the parent among all whole numbers between the least and the
        greatest value of a column."""
        ...

    def repeats(self, table: str, column: str, other: str) -> float:
        """The share of a column's values that another column of the row has as well."""
        ...

    def rank_correlation(self, table: str, column: str, other: str) -> float: ...

    def median(self, table: str, column: str) -> float | None:
        """Median of a time column, in seconds."""
        ...


Facts = Mapping[str, Sequence[ColumnFacts]]
# Ten numbers that have nothing to do with keys of this density are all among them once in 1,000.
DENSE = 0.5
ARCHIVED = 0.1  # of a key's values whose rows are left, where older ones were moved away
COPIED = 0.5  # of a key's values in their own rows: a column that names its row, not another


_RANKS = {4: "named id", 3: "named after its table", 2: "named like a key", 1: "first column"}


def infer_primary_key(
    table: str, columns: Sequence[ColumnFacts], probe: Probe
) -> PrimaryKey | None:
    """The column that identifies the rows, if one does."""
    rows = columns[0].rows if columns else 0
    ranked = sorted(
        ((_key_rank(table, i, c), i) for i, c in enumerate(columns)),
        key=lambda entry: (-entry[0], entry[1]),
    )
    for rank, i in ranked:
        column = columns[i]
        if rank == 0:
            return None
        if column.nulls or not column.is_key_type or (rows < 2 and rank < 3):
            continue
        if probe.is_unique(table, column.name):
            evidence = f"{_RANKS[rank]}, unique in {rows:,} rows"
            return PrimaryKey((column.name,), "inferred", evidence)
    return None


def infer_shared_key(table: str, facts: Facts, probe: Probe) -> PrimaryKey | None:
    """The column that identifies the rows of a table and that rows of other tables share: `season`
    of `teams`, which `batting.season` repeats. Whole numbers need a name like a key, since 1…n lies
    in every longer 1…m."""
    rows = facts[table][0].rows if facts[table] else 0
    for column in facts[table]:
        is_key = column.type == "string" or (column.is_key_type and is_keylike(column.name))
        if column.nulls or not is_key:
            continue
        for other, child in _namesakes(table, column, facts):
            distinct = probe.distinct(other, child.name)
            if not 3 <= distinct < child.rows - child.nulls or not probe.is_unique(
                table, column.name
            ):
                continue
            inside = probe.contained(other, child.name, table, column.name)
            if _holds(inside, distinct, rows):
                evidence = (
                    f"unique in {rows:,} rows, and {inside:,} of {distinct:,} distinct values of "
                    f"'{other}.{child.name}' are among them"
                )
                return PrimaryKey((column.name,), "inferred", evidence)
    return None


def _namesakes(table: str, column: ColumnFacts, facts: Facts) -> Iterator[tuple[str, ColumnFacts]]:
    """Columns of other tables of the same name, whose values can be compared."""
    for other, columns in facts.items():
        for each in columns:
            is_same = each.name.lower() == column.name.lower() and each.family == column.family
            if other != table and is_same and each.is_key_type:
                yield other, each


def _holds(inside: int, distinct: int, keys: int) -> bool:
    """Whether so many of the distinct values of a column are keys that this is no accident: a few
    values that lie among many keys may be."""
    return inside >= 0.95 * distinct and (distinct >= 10 or 10 * inside >= keys)


def _key_rank(table: str, position: int, column: ColumnFacts) -> int:
    if words(column.name) in (("id",), ("uuid",), ("guid",)):
        return 4
    if names_own_table(column.name, table):
        return 3
    if position == 0 and is_keylike(column.name):
        return 2
    return 1 if position == 0 and column.type in ("string", "int64") else 0


def infer_foreign_keys(
    table: str,
    facts: Facts,
    keys: Mapping[str, PrimaryKey | None],
    declared: set[str],
    probe: Probe,
    *,
    is_strict: bool = False,
) -> list[ForeignKey]:
    """Foreign keys of a table, besides the columns of `declared` ones.

    Args:
        is_strict: The source declares keys; what it leaves out needs the name of a table or of its
            key, and a primary key the name of a table.
    """
    primary = keys.get(table)
    inferred = []
    for column in facts[table]:
        if column.name in declared or not column.is_key_type or column.nulls == column.rows:
            continue
        is_primary = primary is not None and primary.columns == (column.name,)
        candidates = _candidates(table, column, facts, keys, is_primary)
        if is_strict:
            least = NAMESAKE + 1 if is_primary else 1
            candidates = [c for c in candidates if c.score >= least]
        for score, group in groupby(candidates, lambda c: c.score):
            matches = (_by_values(table, column, c, is_primary, is_strict, probe) for c in group)
            passing = (match for match in matches if match is not None)
            # Of tables whose keys have one name, the one that holds the keys of the others.
            best = max(passing, key=lambda m: m[:2], default=None) if score else next(passing, None)
            if best is not None:
                inferred.append(best[2])
                break
    return inferred


class Candidate(NamedTuple):
    """A table that a column may refer to."""

    score: int  # of the name
    parent: str
    key: str
    rows: int


def _candidates(
    table: str,
    column: ColumnFacts,
    facts: Facts,
    keys: Mapping[str, PrimaryKey | None],
    is_primary: bool,
) -> list[Candidate]:
    """Parents that a column may refer to, the best name first; `is_primary` says that it is the
    primary key of its table."""
    candidates = []
    for parent, key in keys.items():
        if key is None or len(key.columns) != 1 or (parent == table and is_primary):
            continue
        key_facts = next(c for c in facts[parent] if c.name == key.columns[0])
        if key_facts.family != column.family:
            continue
        score = points_to(column.name, parent, key.columns[0])
        if is_primary and (score < NAMESAKE or names_own_table(column.name, table)):
            continue
        is_self_word = bool(set(stem(column.name)) & SELF_WORDS) and is_keylike(column.name)
        if parent == table and is_self_word:
            score = max(score, 10)
        candidates.append(Candidate(score, parent, key.columns[0], key_facts.rows))
    return sorted(candidates, reverse=True)


def _by_values(
    table: str,
    column: ColumnFacts,
    candidate: Candidate,
    is_primary: bool,
    is_strict: bool,
    probe: Probe,
) -> tuple[int, int, ForeignKey] | None:
    """The foreign key to a candidate, if enough values are keys there, after the numbers of these
    values and of all keys."""
    score, parent, key_column, keys = candidate
    is_number = column.family == "number"
    if score == 0 and (is_primary or (is_number and not is_keylike(column.name))):
        return None
    distinct = probe.distinct(table, column.name)
    # Tables that share their key: each names the rows of one that has more.
    is_shared = is_primary and score == NAMESAKE
    if is_shared and keys <= distinct:
        return None
    inside = probe.contained(table, column.name, parent, key_column)
    if score == 0 and (distinct < 3 or not _holds(inside, distinct, keys)):
        return None
    is_named = score >= NAMESAKE and not (is_shared or is_strict)
    # The rows that a key named may be gone, if it names most of those that are left.
    is_rest = is_named and is_keylike(column.name) and 2 * inside > keys
    least = 0.95 if not is_named else ARCHIVED if is_rest else 0.8
    if distinct == 0 or inside / distinct < least:
        return None
    if score == 0 and parent == table and probe.repeats(table, column.name, key_column) > COPIED:
        return None  # a second name of the row itself
    reason, gaps = f"the name points to '{parent}', " if score else "by value: ", ""
    if score == 0 and is_number:
        density = probe.key_density(table, column.name, parent, key_column)
        if distinct < 10 or density > DENSE:
            return None
        gaps = f", and {density:.0%} of all numbers between them"
    evidence = f"{reason}{inside:,} of {distinct:,} distinct values are keys there{gaps}"
    return inside, keys, ForeignKey((column.name,), parent, (), "inferred", evidence)


# A row exists from its creation on; planned, final and changed times and those of a person's past
# are others.
_STRONG = (
    *("creat", "timestamp", "ts", "date", "time", "datetime"),
    *("insert", "record", "occur", "place", "post"),
)
_CREATED = (
    *_STRONG,
    *("at", "on", "when", "dt", "day", "since", "moment", "epoch"),
    *("order", "purchas", "paid", "regist", "signup", "sign", "join", "log", "sent", "receiv"),
    *("publish", "observ", "visit", "event", "open", "start", "admit", "enter", "submit", "issu"),
    *("add", "hire"),
)
_LIFE = ("birth", "dob", "born", "death", "died", "found", "establish", "built", "manufactur")
_HAPPENED = (
    *("end", "ended", "clos", "finish", "complet", "deliver", "arriv", "return", "cancel", "resol"),
    *("releas", "retir", "terminat", "delet", "remov"),
)
_NOT_YET = (
    *("expir", "due", "deadline", "valid", "until", "to", "schedul", "plan", "planned", "estimat"),
    *("expect", "target", "next", "renew", "effectiv"),
)
_OVERWRITTEN = ("updat", "modif", "chang", "edit", "last", "latest")
_OTHER = (*_LIFE, *_HAPPENED, *_NOT_YET, *_OVERWRITTEN)
# Of these, the ones that create the rows of a table of such events: `returns.returned_at`. Planned
# and final times lie after the row's creation there too.
_EVENTS = (
    *("deliver", "arriv", "return", "cancel", "resol", "updat", "modif", "chang", "edit"),
    *("delet", "remov", "terminat", "renew"),
)
# From when a version of a row holds: no version is older than that.
_BEGINS = (("valid", "from"), ("effective", "from"), ("effective", "date"), ("valid", "since"))
_GLUED = re.compile(r"^([a-z]{3,})(date|datetime|time|timestamp)$")


def _time_words(name: str) -> tuple[str, ...]:
    """The words of a column, `hiredate` taken apart like `HireDate`."""
    parts: list[str] = []
    for word in words(name):
        glued = _GLUED.match(word)
        parts += glued.groups() if glued else (word,)
    return tuple(parts)


def _says(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a word of the name is, or for longer prefixes starts with, one of these."""
    return any(
        w == p or (len(p) >= 4 and w.startswith(p)) for w in _time_words(name) for p in prefixes
    )


def says_overwritten(name: str) -> bool:
    """Whether a date is called like one that each event writes again: `updated_at`, `last_seen`."""
    return _says(name, (*_OVERWRITTEN, "newest", "recent", "current", "seen"))


def ends(columns: Sequence[ColumnFacts]) -> list[str]:
    """The dates that may be those of what happens to a row, such as its end: it exists before. A
    birth or a foundation says nothing of that."""
    times = [c for c in columns if c.type == "timestamp" and c.nulls]
    before = tuple(word for word in _LIFE if word not in ("death", "died"))
    return [c.name for c in times if not _says(c.name, before)]


def time_candidates(
    table: str, columns: Sequence[ColumnFacts], key: PrimaryKey | None, probe: Probe
) -> list[TimeColumn]:
    """The columns that may say since when a row exists, by their names: the likeliest first."""
    times = [c for c in columns if c.type == "timestamp" and c.nulls < max(c.rows, 1)]
    # A date that identifies a row, together with what it is about: (employee, changed on).
    of_key = set(key.columns) if key is not None and key.origin != "inferred" else set()
    keyed = [c for c in times if c.name in of_key and not _says(c.name, _LIFE)]
    likely = [c for c in times if _says(c.name, _CREATED) and not _says(c.name, _OTHER)]
    # The best name first, then the fullest column, then the earliest time: a row exists from its
    # first moment on.
    likely.sort(
        key=lambda c: (not _says(c.name, _STRONG), c.nulls, probe.median(table, c.name) or 0.0)
    )
    found = [_time_column(c, "part of the primary key") for c in keyed]
    found += [_time_column(c, "named like the moment of an event") for c in likely]
    # Filled in nearly every row: a delivery that waits for its `delivered_at` exists before.
    filled = [c for c in times if c.nulls <= c.rows / 20]
    events = [p for p in _EVENTS if _says(table, (p,))]
    named = [c for c in filled if any(_says(c.name, (p,)) for p in events)]
    if len(named) == 1:
        found.append(_time_column(named[0], f"named after the events of '{table}'"))
    number = _number_key(columns, key)
    for column in times if number is not None and not found else ():
        if not _says(column.name, _OTHER) and (
            probe.rank_correlation(table, column.name, str(number)) > 0.9
        ):
            found.append(TimeColumn(column.name, "inferred", f"grows with '{number}'"))
    begins = [c for c in filled if _time_words(c.name)[-2:] in _BEGINS]
    found += [_time_column(c, "no version is older") for c in begins]
    # Without a better one, what happened to nearly every row: `stays.arrived_at`.
    no_moment = (*_LIFE, *_NOT_YET, *_OVERWRITTEN)
    happened = [c for c in filled if _says(c.name, _HAPPENED) and not _says(c.name, no_moment)]
    happened.sort(key=lambda c: (c.nulls, probe.median(table, c.name) or 0.0))
    found += [_time_column(c, "what happened to nearly every row") for c in happened]
    unique: dict[str, TimeColumn] = {}
    for time in found:
        unique.setdefault(time.column, time)
    return list(unique.values())


def _time_column(column: ColumnFacts, reason: str) -> TimeColumn:
    filled = f"{column.rows - column.nulls:,} of {column.rows:,} filled"
    return TimeColumn(column.name, "inferred", f"{reason}, {filled}")


def _number_key(columns: Sequence[ColumnFacts], key: PrimaryKey | None) -> str | None:
    """The primary key, if it is one column of numbers."""
    if key is None or len(key.columns) != 1:
        return None
    numbers = [c.name for c in columns if c.family == "number"]
    return key.columns[0] if key.columns[0] in numbers else None
