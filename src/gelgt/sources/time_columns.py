"""Which column of a table says since when its rows exist: names propose, values veto.

Vetoed is a date

    empty       in more than 2 % of the rows that timed rows name: these exist without it
                (`customers.churn_date`)
    constant    the same in all rows, such as the day of a load
    copied      from a row that it names, where it does not ascend with the rows' own numbers: these
                came later (`payments.customer_since`)
    late        after the rows that name it, in most tables that do, where these go on for long:
                the rows were there before (`customers.snapshot_date`)

A row without its date exists no later than the first timed row that names it, so where its foreign
keys do not date the table (`dating.py`), rows exist from that one on.

Rows up to `inferred_until` decide; later ones can only add a veto.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from gelgt.schema.infer import ColumnFacts, ends, time_candidates
from gelgt.schema.model import Finding, ForeignKey, PrimaryKey, TimeColumn
from gelgt.sources.probe import StagedProbe
from gelgt.sources.row_times import for_long

EMPTY = 0.02  # share of the named rows that may lack the date
LATE = 0.5  # share of the naming rows that may come before it
COPIED = 0.9  # share of the rows that repeat a date of what they name
ASCENDING = 0.9  # correlation of ranks
LASTING = 0.1  # share of a table's rows that are named for long, from which it goes on for long
FEWEST = 5  # rows below which shares say nothing
_DAY = 86_400 * 10**6  # µs
_BUCKETS = 100_000

Keys = Mapping[str, PrimaryKey | None]
ForeignKeys = Mapping[str, Sequence[ForeignKey]]


@dataclass
class Times:
    """What became of the time columns of a source.

    Attributes:
        chosen: For each table its time column, or none.
        vetoed: Tables that lost their time column, and why.
        until: `inferred_until` in microseconds since 1970; None for a source without times.
        findings: The vetoes.
    """

    chosen: dict[str, TimeColumn | None]
    vetoed: dict[str, str] = field(default_factory=dict)
    until: int | None = None
    findings: list[Finding] = field(default_factory=list)


def choose_times(
    stated: Mapping[str, TimeColumn | None],
    facts: Mapping[str, list[ColumnFacts]],
    keys: Keys,
    foreign: ForeignKeys,
    probe: StagedProbe,
    until: int | None = None,
) -> Times:
    """The time columns of all tables.

    Args:
        stated: Those that the user states; None where a table is stated to have none.
        facts: The columns of each table.
        keys: The primary keys.
        foreign: The foreign keys of each table.
        probe: Answers questions about the rows.
        until: `inferred_until`, where it is stated.
    """
    candidates = {
        name: _candidates(name, columns, keys[name], probe)
        for name, columns in facts.items()
        if name not in stated
    }
    times = Times(dict(stated) | {name: next(iter(c), None) for name, c in candidates.items()})
    if probe is not None:
        times.until = _inferred_until(times.chosen, probe) if until is None else until
    if times.until is not None:
        _Veto(candidates, facts, keys, foreign, probe, times).apply()
    return times


def _candidates(
    name: str, columns: list[ColumnFacts], key: PrimaryKey | None, probe: StagedProbe
) -> list[TimeColumn]:
    """What may be the time of a table. The date of a folder counts from midnight, before most of
    its rows exist: a time of the rows themselves comes first, however it is called."""
    partitions = probe.tables[name].partitions
    own = [column for column in columns if column.name not in partitions]
    found = time_candidates(name, own, key, probe)
    if not partitions:
        return found
    every = time_candidates(name, columns, key, probe)
    return [*found, *(time for time in every if time.column in partitions)]


def _inferred_until(chosen: Mapping[str, TimeColumn | None], probe: StagedProbe) -> int | None:
    """The start of the last fifth of the timed rows, from counts in even steps of time."""
    parts = [
        f"SELECT epoch_us({probe.tables[name].columns[time.column].stored}) AS t "
        f"FROM {probe.relation(name)}"
        for name, time in chosen.items()
        if time is not None
    ]
    if not parts:
        return None
    rows = " UNION ALL ".join(parts)
    low, high, count = probe.one(f"SELECT min(t), max(t), count(t) FROM ({rows})")
    if not count:
        return None
    step = max(1, (high - low) // _BUCKETS)
    buckets = probe.all(
        f"SELECT (t - {low}) // {step} AS b, count(*) FROM ({rows}) WHERE t IS NOT NULL "
        "GROUP BY b ORDER BY b"
    )
    seen = 0
    for bucket, rows_in in buckets:
        seen += rows_in
        if seen >= 0.8 * count:
            return int(low + (bucket + 1) * step)
    return int(high)


@dataclass(frozen=True)
class _Naming:
    """What the timed rows of one table say of a date of the rows that they name.

    Attributes:
        table: The table that names.
        rows: Its timed rows that name a row.
        named: The rows that they name.
        empty: Those of them without the date.
        before: Rows that come before the date of the row that they name.
        lasting: The share of the named rows that are named for long.
    """

    table: str
    rows: int
    named: int
    empty: int
    before: int
    lasting: float

    def is_worse(self, other: "_Naming") -> bool:
        """Whether it says more against the date."""
        mine, theirs = (
            (n.empty / n.named > EMPTY, n.before / n.rows, n.empty) for n in (self, other)
        )
        return mine > theirs


class _Veto:
    """Takes out proposed time columns, from the tables that name others to those that are named."""

    def __init__(
        self,
        candidates: Mapping[str, list[TimeColumn]],
        facts: Mapping[str, list[ColumnFacts]],
        keys: Keys,
        foreign: ForeignKeys,
        probe: StagedProbe,
        times: Times,
    ) -> None:
        self.candidates, self.facts, self.times = candidates, facts, times
        self.keys, self.probe = keys, probe
        self.foreign = {
            name: [fk for fk in of_table if self._is_usable(name, fk)]
            for name, of_table in foreign.items()
        }
        columns = [
            probe.tables[name].columns[time.column]
            for name, time in times.chosen.items()
            if time is not None
        ]
        lows = [int(c.low) for c in columns if c.low is not None]
        self.long = for_long(min(lows), max(int(c.high) for c in columns if c.high is not None))
        self.is_daily = cache(self._is_daily)

    def apply(self) -> None:
        for name in self._order():
            reasons = {}
            for time in self.candidates.get(name, []):
                reason = self._reason(name, time.column)
                if not reason:
                    self.times.chosen[name] = time
                    break
                reasons[time.column] = reason
                self.times.chosen[name] = None
            if reasons:
                self._tell(name, reasons)
            elif self.times.chosen[name] is None and name in self.candidates:
                self._look_at_ends(name)

    def _look_at_ends(self, name: str) -> None:
        """A table whose only dates are those of what happens to its rows, such as their end: timed
        rows name them before."""
        for column in ends(self.facts[name]):
            if reason := self._emptiness(name, column):
                self.times.vetoed[name] = f"'{column}' is {reason}"

    def _order(self) -> list[str]:
        """The tables, each after those that name it, as far as they do not name each other."""
        namers = {
            name: {
                other
                for other, keys in self.foreign.items()
                if other != name and any(fk.table == name for fk in keys)
            }
            for name in self.foreign
        }
        order: list[str] = []
        while len(order) < len(namers):
            left = [name for name in namers if name not in order]
            ready = [name for name in left if namers[name] <= set(order)]
            order += ready or [min(left, key=lambda name: len(namers[name] - set(order)))]
        return order

    def _tell(self, name: str, reasons: Mapping[str, str]) -> None:
        chosen = self.times.chosen[name]
        if chosen is None:
            told = "; ".join(f"'{column}' is {reason}" for column, reason in reasons.items())
            self.times.vetoed[name] = told
        instead = f"; '{chosen.column}' is taken" if chosen is not None else ""
        for column, reason in reasons.items():
            message = f"no time of its rows, because it is {reason}{instead}"
            self.times.findings.append(Finding("vetoed_time", name, column, message=message))

    def _reason(self, name: str, column: str) -> str:
        """Why a date is no time of its rows; empty where it may be."""
        facts = self.probe.tables[name].columns[column]
        filled = self.probe.tables[name].rows - facts.nulls
        if facts.low == facts.high and filled >= FEWEST:
            return "the same in all rows"
        if reason := self._emptiness(name, column):
            return reason
        namings = self._namings(name, column)
        late = [n for n in namings if n.before > LATE * n.rows and n.lasting > LASTING]
        if late and 2 * len(late) > len(namings):
            most = max(late, key=lambda n: n.before / n.rows)
            share = f"{most.before / most.rows:.0%}"
            return f"later than {share} of the rows of '{most.table}' that name it"
        copy = self._copied_from(name, column)
        return f"a copy of '{copy}'" if copy else ""

    def _emptiness(self, name: str, column: str) -> str:
        """How many of the rows that timed rows name lack a date, if these are too many."""
        namings = self._namings(name, column)
        named, empty = sum(n.named for n in namings), sum(n.empty for n in namings)
        if named < FEWEST or empty <= EMPTY * named:
            return ""
        tables = ", ".join(n.table for n in namings if n.empty)
        return f"empty in {empty:,} of {named:,} rows that timed rows name ({tables})"

    def _namings(self, name: str, column: str) -> list[_Naming]:
        """What each table says whose timed rows name the rows of a table."""
        found = []
        for other, time, keys in self._namers(name):
            asked = [self._naming(name, column, other, time, fk) for fk in keys]
            told = [naming for naming in asked if naming is not None and naming.rows >= FEWEST]
            if told:
                found.append(max(told, key=lambda naming: naming.rows))
        return found

    def _namers(self, name: str) -> Iterator[tuple[str, str, list[ForeignKey]]]:
        """The tables with a time column that name the rows of a table, and their keys."""
        for other, keys in self.foreign.items():
            time, named = self.times.chosen.get(other), [fk for fk in keys if fk.table == name]
            if other != name and time is not None and named:
                yield other, time.column, named

    def _naming(
        self, name: str, column: str, other: str, time: str, fk: ForeignKey
    ) -> _Naming | None:
        """Of the rows up to `inferred_until`, or of all rows where these say worse."""
        moment, date = self._comparable(("c", other, time), ("p", name, column))
        rows = self._joined(other, fk, f"{moment} AS t, {date} AS d, p.number AS parent")
        worst = None
        for limit in self._limits:
            facts = self.probe.one(
                "SELECT sum(n), count(*), count(*) FILTER (NOT has_date), sum(before), "
                f"count(*) FILTER (span > {self.long}) FROM (SELECT count(*) AS n, "
                "bool_or(d IS NOT NULL) AS has_date, count(*) FILTER (t < d) AS before, "
                f"epoch_us(max(t)) - epoch_us(min(t)) AS span FROM ({rows}) "
                f"WHERE {limit} GROUP BY parent)"
            )
            count, named, empty, before, lasting = (int(fact or 0) for fact in facts)
            if named:
                naming = _Naming(other, count, named, empty, before, lasting / named)
                worst = naming if worst is None or naming.is_worse(worst) else worst
        return worst

    @property
    def _limits(self) -> tuple[str, str]:
        """Conditions on the time `t`: up to `inferred_until`, and of all rows."""
        assert self.times.until is not None
        return f"t <= make_timestamp({self.times.until}::BIGINT)", "t IS NOT NULL"

    def _copied_from(self, name: str, column: str) -> str:
        """The date of a named row that a date repeats, as ``table.column``."""
        for fk in self.foreign[name]:
            types = self.probe.tables[fk.table].types()
            dates = [date for date, kind in types.items() if kind == "timestamp"]
            for date in dates if fk.table != name else ():
                if self._is_copy(name, column, fk, date) and not self._ascends(name, column):
                    return f"{fk.table}.{date}"
        return ""

    def _ascends(self, name: str, column: str) -> bool:
        """Whether dates ascend with the primary key, or without a number there with the rows."""
        key = self.keys[name]
        types = self.probe.tables[name].types()
        if key is not None and len(key.columns) == 1 and types[key.columns[0]] == "int64":
            return self.probe.rank_correlation(name, column, key.columns[0]) > ASCENDING
        stored = self.probe.tables[name].columns[column].stored
        ranks = f"SELECT row_number() OVER () AS a, {stored} AS d FROM {self.probe.relation(name)}"
        ranks = f"SELECT a, rank() OVER (ORDER BY d) AS b FROM ({ranks}) WHERE d IS NOT NULL"
        return float(self.probe.one(f"SELECT corr(a, b) FROM ({ranks})")[0] or 0.0) > ASCENDING

    def _is_copy(self, name: str, column: str, fk: ForeignKey, date: str) -> bool:
        """Whether a date is that of the named row, where several rows name the same one."""
        own, theirs = self._comparable(("c", name, column), ("p", fk.table, date))
        rows = self._joined(name, fk, f"{own} AS t, {theirs} AS d, p.number AS parent")
        count, equal, parents = self.probe.one(
            "SELECT count(*), count(*) FILTER (t = d), count(DISTINCT parent) "
            f"FROM ({rows}) WHERE t IS NOT NULL"
        )
        return bool(count >= FEWEST and equal >= COPIED * count and parents < 0.98 * count)

    def _comparable(
        self, one: tuple[str, str, str], other: tuple[str, str, str]
    ) -> tuple[str, str]:
        """Two dates (alias, table, column) at the coarser resolution of both."""
        names = [f"{a}.{self.probe.tables[t].columns[c].stored}" for a, t, c in (one, other)]
        if self.is_daily(*one[1:]) != self.is_daily(*other[1:]):
            names = [f"date_trunc('day', {name})" for name in names]
        return names[0], names[1]

    def _is_daily(self, name: str, column: str) -> bool:
        stored = self.probe.tables[name].columns[column].stored
        query = f"SELECT bool_and(epoch_us({stored}) % {_DAY} = 0) FROM {self.probe.relation(name)}"
        return bool(self.probe.one(query)[0])

    def _joined(self, child: str, fk: ForeignKey, select: str) -> str:
        """A selection from the rows of a child `c`, each beside the row `p` that it names."""
        primary = self.keys[fk.table]
        referred = fk.referred or (primary.columns if primary else ())
        on = " AND ".join(
            f"{self._key('c', child, column)} = {self._key('p', fk.table, key)}"
            for column, key in zip(fk.columns, referred)
        )
        numbered = f"SELECT *, row_number() OVER () AS number FROM {self.probe.relation(fk.table)}"
        return f"SELECT {select} FROM {self.probe.relation(child)} c JOIN ({numbered}) p ON {on}"

    def _key(self, alias: str, table: str, column: str) -> str:
        stored = self.probe.tables[table].columns[column].stored
        return self.probe.value(table, column).replace(stored, f"{alias}.{stored}")

    def _is_usable(self, child: str, fk: ForeignKey) -> bool:
        """Whether a key can be followed; one that cannot is an error that is told later."""
        primary = self.keys[fk.table]
        referred = fk.referred or (primary.columns if primary else ())
        return len(referred) == len(fk.columns) and all(
            key in self.probe.tables[fk.table].columns
            and self.probe.key_type(child, column) == self.probe.key_type(fk.table, key)
            for column, key in zip(fk.columns, referred)
        )
