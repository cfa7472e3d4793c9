"""Keys and time columns that a source does not declare, inferred from names, types, uniqueness and
containment.

Every guess carries its evidence. Containment alone proves nothing for whole numbers (1…n lies in
every longer 1…m), so a foreign key needs a name that points to its table; only text keys may be
found by their values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gelgt.schema.model import ForeignKey, PrimaryKey, TimeColumn
from gelgt.schema.names import SELF_WORDS, is_keylike, names_own_table, points_to, stem, words


@dataclass(frozen=True)
class ColumnFacts:
    """What the first pass knows of a column."""

    name: str
    type: str  # int64, float64, bool, string, timestamp, list
    nulls: int
    rows: int
    is_whole: bool  # whole numbers only, in whatever type

    @property
    def is_key_type(self) -> bool:
        return (
            self.type == "string"
            or self.type == "int64"
            or (self.type == "float64" and self.is_whole)
        )

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

    def rank_correlation(self, table: str, column: str, other: str) -> float: ...

    def median(self, table: str, column: str) -> float | None:
        """Median of a time column, in seconds."""
        ...


Facts = Mapping[str, Sequence[ColumnFacts]]


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
            why = {
                4: "named id",
                3: "named after its table",
                2: "named like a key",
                1: "first column",
            }[rank]
            return PrimaryKey((column.name,), "inferred", f"{why}, unique in {rows:,} rows")
    return None


def _key_rank(table: str, position: int, column: ColumnFacts) -> int:
    if words(column.name) in (("id",), ("uuid",), ("guid",)):
        return 4
    if names_own_table(column.name, table):
        return 3
    if position == 0 and is_keylike(column.name):
        return 2
    return 1 if position == 0 and column.type in ("string", "int64") else 0


def infer_foreign_keys(
    table: str, facts: Facts, keys: Mapping[str, PrimaryKey | None], taken: set[str], probe: Probe
) -> list[ForeignKey]:
    """Foreign keys of a table, beyond the columns that are `taken` by declared ones."""
    own = keys.get(table)
    found = []
    for column in facts[table]:
        if column.name in taken or not column.is_key_type or column.nulls == column.rows:
            continue
        is_own_key = own is not None and own.columns == (column.name,)
        guess = _best_parent(table, column, facts, keys, is_own_key, probe)
        if guess is not None:
            found.append(guess)
    return found


def _best_parent(
    table: str,
    column: ColumnFacts,
    facts: Facts,
    keys: Mapping[str, PrimaryKey | None],
    is_own_key: bool,
    probe: Probe,
) -> ForeignKey | None:
    candidates = []
    for parent, key in keys.items():
        if key is None or len(key.columns) != 1 or (parent == table and is_own_key):
            continue
        key_facts = next(c for c in facts[parent] if c.name == key.columns[0])
        if key_facts.family != column.family:
            continue
        score = points_to(column.name, parent, key.columns[0])
        if is_own_key and (score < 20 or names_own_table(column.name, table)):
            continue
        if (
            parent == table
            and not is_own_key
            and stem(column.name)[:1]
            and set(stem(column.name)) & SELF_WORDS
            and is_keylike(column.name)
        ):
            score = max(score, 10)
        candidates.append((score, parent, key.columns[0]))
    candidates.sort(reverse=True)
    for score, parent, key_column in candidates:
        if score == 0 and (column.family != "text" or is_own_key):
            continue
        distinct = probe.distinct(table, column.name)
        inside = probe.contained(table, column.name, parent, key_column)
        share = inside / distinct if distinct else 0.0
        needed = 0.8 if score >= 20 else 0.95
        if score == 0 and (
            distinct < 3 or (distinct < 10 and 10 * inside < probe.distinct(parent, key_column))
        ):
            continue
        if share >= needed:
            why = f"the name points to '{parent}', " if score else "by value: "
            return ForeignKey(
                (column.name,),
                parent,
                (),
                "inferred",
                f"{why}{inside:,} of {distinct:,} distinct values are keys there",
            )
    return None


# A row becomes known when it is created; what is planned, ends, changes or lies in a person's past
# is another time.
_STRONG = (
    "creat",
    "timestamp",
    "ts",
    "date",
    "time",
    "datetime",
    "insert",
    "record",
    "occur",
    "place",
    "post",
)
# fmt: off
_CREATED = (
    *_STRONG, "at", "on", "when", "dt", "day", "order", "purchas", "regist", "signup", "sign", "join", "log", "sent", "receiv",
    "paid", "publish", "observ", "visit", "event", "open", "start", "admit", "enter", "submit", "issu", "add", "since", "moment",
    "epoch",
)
_OTHER = (
    "birth", "dob", "born", "death", "died", "expir", "due", "deadline", "valid", "until", "to", "end", "ended", "clos", "finish",
    "complet", "deliver", "arriv", "return", "cancel", "resol", "updat", "modif", "chang", "edit", "last", "latest", "delet", "remov",
    "schedul", "plan", "planned", "estimat", "expect", "target", "found", "establish", "built", "manufactur", "releas", "retir",
    "terminat", "next", "renew", "effectiv",
)
# Of these, what a table of such events is made by: `returns.returned_at`. Plans and ends are not
# known when they are named.
_EVENTS = ("deliver", "arriv", "return", "cancel", "resol", "updat", "modif", "chang", "edit", "delet", "remov", "terminat", "renew")
# fmt: on


def _says(name: str, prefixes: tuple[str, ...]) -> bool:
    """Whether a word of the name is, or for longer prefixes starts with, one of these."""
    return any(w == p or (len(p) >= 4 and w.startswith(p)) for w in words(name) for p in prefixes)


def infer_time_column(
    table: str, columns: Sequence[ColumnFacts], key: PrimaryKey | None, probe: Probe
) -> TimeColumn | None:
    """The column that says when a row became known; None where no column clearly does."""
    times = [c for c in columns if c.type == "timestamp" and c.nulls < max(c.rows, 1)]
    likely = [c for c in times if _says(c.name, _CREATED) and not _says(c.name, _OTHER)]
    if likely:
        # The best name first, then the fullest column, then the earliest time: a row is known from
        # its first moment.
        best = min(
            likely,
            key=lambda c: (not _says(c.name, _STRONG), c.nulls, probe.median(table, c.name) or 0.0),
        )
        return TimeColumn(
            best.name,
            "inferred",
            f"named like the moment of an event, {best.rows - best.nulls:,} of {best.rows:,} "
            "filled",
        )
    event = [p for p in _EVENTS if _says(table, (p,))]
    # Filled in nearly every row: a delivery that waits for its `delivered_at` is known before.
    named = [c for c in times if c.nulls <= c.rows / 20 and any(_says(c.name, (p,)) for p in event)]
    if len(named) == 1:
        only = named[0]
        return TimeColumn(
            only.name,
            "inferred",
            f"named after the events of '{table}', {only.rows - only.nulls:,} of {only.rows:,} "
            "filled",
        )
    unnamed = [c for c in times if not _says(c.name, _OTHER)]
    for column in unnamed:
        number_key = (
            key is not None
            and len(key.columns) == 1
            and any(c.name == key.columns[0] and c.family == "number" for c in columns)
        )
        if (
            number_key
            and key is not None
            and probe.rank_correlation(table, column.name, key.columns[0]) > 0.9
        ):
            return TimeColumn(column.name, "inferred", f"grows with '{key.columns[0]}'")
    return None
