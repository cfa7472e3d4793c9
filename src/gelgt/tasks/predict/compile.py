"""Writes a bound sentence as DuckDB SQL over `timestamps` and the tables.

The SQL has one common table expression for the population (every entity that exists at each seed
time and fulfils the conditions on its columns), one for each aggregate (a range join of the
seed times with the rows in the window, grouped by seed time and entity: one pass over the table),
and joins them.

Conditions on entities and on the past see a date inside a row (`schema.model.EventDate`), and what
is filled along with it, only once the date lies before the seed time, as a model does. Windows of
the future count what happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gelgt.schema.model import TableSchema
from gelgt.tasks.predict.joins import Joins
from gelgt.tasks.predict.plan import Plan
from gelgt.tasks.predict.scope import Meaning
from gelgt.tasks.predict.syntax import (
    AGGREGATES,
    UNITS,
    Aggregate,
    Column,
    Comparison,
    Condition,
    aggregates,
    operands,
)
from gelgt.tasks.split import Split
from gelgt.tasks.sql_text import literal, quote, time_literal

_INTERVALS = {unit: unit[:-1].upper() for unit in UNITS}


def label_sql(
    plan: Plan, columns: tuple[str, str, str], split: Split | None = None, latest: Any = None
) -> str:
    """The SQL of the label table.

    Args:
        plan: The sentence.
        columns: The names of time, entity and target.
        split: The split times; needed for windows in months alone.
        latest: The latest row of the database; likewise.
    """
    return _Writer(plan).labels(columns, split, latest)


def population_sql(plan: Plan) -> str:
    """The SQL of (timestamp, entity) without the target and without conditions on the future."""
    return _Writer(plan).eligible()


class _Writer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.binding = plan.binding
        self.scope = plan.binding.scope
        self.entity = plan.entity
        self.target = plan.sentence.target
        self.population = quote(plan.binding.population)

    def labels(self, columns: tuple[str, str, str], split: Split | None, latest: Any) -> str:
        time, entity, target = (quote(c) for c in columns)
        seeds = "timestamps"
        parts = []
        if self.plan.months:
            assert split is not None
            seeds = quote(self.binding.seeds)
            parts.append(f"{seeds} AS (\n{_whole_months(self.plan.months, split, latest)}\n)")
        value, filled = self._target_sql()
        needed = list(dict.fromkeys(aggregates(self.target, *self.binding.conditions)))
        body, where = self._body(needed, self.binding.conditions, seeds)
        where = where + ([filled] if filled else [])
        names = f"{_as('timestamp', time)}, {_as('entity', entity)}, {value} AS {target}"
        select = f"SELECT {names}\nFROM {self.population}"
        return _with([*parts, *body], select, self._joins(needed), where)

    def eligible(self) -> str:
        past = [c for c in self.binding.conditions if not any(a.is_future for a in aggregates(c))]
        needed = list(dict.fromkeys(aggregates(*past)))
        body, where = self._body(needed, past, "timestamps", is_prediction=True)
        select = f"SELECT timestamp, entity\nFROM {self.population}"
        return _with(body, select, self._joins(needed), where)

    def _joins(self, needed: Sequence[Aggregate]) -> list[str]:
        return [f"LEFT JOIN {self.binding.name(a)} USING (timestamp, entity)" for a in needed]

    def _target_sql(self) -> tuple[str, str]:
        """The target as SQL, and the condition that it is not missing."""
        target = self.target
        if isinstance(target, Column):
            column = self.scope.column(target, self.entity, "here")
            return f"{self.population}.{quote(_carried(column))}", ""
        if isinstance(target, Aggregate):
            value = self.binding.lookup_value(target).sql
            return value, f"{value} IS NOT NULL" if AGGREGATES[
                target.function
            ].empty is None else ""
        text = self.scope.condition(target, self.binding.lookup_value)
        value = f"CAST({text} AS BIGINT)"
        nullable = [a for a in aggregates(target) if AGGREGATES[a.function].empty is None]
        if not nullable:
            return value, ""
        if isinstance(target, Comparison) and len(nullable) == 1:
            return value, f"{self.binding.lookup_value(nullable[0]).sql} IS NOT NULL"
        return value, f"({text}) IS NOT NULL"

    def _body(
        self,
        needed: Sequence[Aggregate],
        conditions: Sequence[Condition],
        seeds: str,
        is_prediction: bool = False,
    ) -> tuple[list[str], list[str]]:
        """The table expressions, and the conditions that need them."""
        on_entity = [c for c in conditions if not aggregates(c)]
        joined = [c for c in conditions if aggregates(c)]
        carried = {
            self._known_name(column): self._entity_column(column).sql
            for c in joined
            for part in operands(c)
            if isinstance(part, Column)
            for column in [self.scope.column(part, self.entity, "here")]
        }
        if isinstance(self.target, Column) and not is_prediction:
            target = self.scope.column(self.target, self.entity, "here")
            carried[_carried(target)] = f"e.{quote(target)}"
        parts = [f"{self.population} AS (\n{self._population(on_entity, carried, seeds)}\n)"]
        parts += [f"{self.binding.name(a)} AS (\n{self._aggregate(a, seeds)}\n)" for a in needed]
        return parts, [self.scope.condition(c, self._lookup_joined, nested=True) for c in joined]

    def _lookup_joined(self, part: Column | Aggregate) -> Meaning:
        """After the join, columns of the entity come from the population."""
        if isinstance(part, Aggregate):
            return self.binding.lookup_value(part)
        column = self.scope.column(part, self.entity, "here")
        return replace(
            self.scope.meaning(self.entity, column, "e"),
            sql=f"{self.population}.{quote(self._known_name(column))}",
        )

    def _entity_column(self, column: str) -> Meaning:
        """A column of the entity as it was before the seed time."""
        time = self.entity.time_col
        seed = f"e.{quote(time)}" if self._is_row_time and time is not None else "t.timestamp"
        meaning = self.scope.meaning(self.entity, column, "e")
        return known_before(meaning, self.entity, column, "e", seed)

    def _known_name(self, column: str) -> str:
        """The name in the population of a column as it was before the seed time; the target is
        there as it became."""
        is_masked = any(column in date.masked for date in self.entity.event_dates or ())
        return _carried(column) + "_" * (is_masked and self._is_row_time)

    @property
    def _is_row_time(self) -> bool:
        """Whether the seed times are those of the rows themselves."""
        return isinstance(self.target, Column)

    def _lookup_entity(self, part: Column | Aggregate) -> Meaning:
        if isinstance(part, Aggregate):
            return self.binding.lookup_entity(part)
        return self._entity_column(self.scope.column(part, self.entity, "in the condition"))

    def _population(
        self, conditions: Sequence[Condition], carried: Mapping[str, str], seeds: str
    ) -> str:
        columns = "".join(
            f", {sql}" + ("" if sql == f"e.{quote(name)}" else f" AS {quote(name)}")
            for name, sql in carried.items()
        )
        table, time = quote(self.entity.name), self.entity.time_col
        where = [self.scope.condition(c, self._lookup_entity, nested=True) for c in conditions]
        if self._is_row_time:
            assert time is not None
            select = (
                f"  SELECT e.{quote(time)} AS timestamp, e.{quote(self.binding.key)} AS "
                f"entity{columns}\n  FROM {table} e"
            )
            where.insert(0, f"e.{quote(time)} <= (SELECT MAX(timestamp) FROM {seeds})")
        else:
            select = (
                f"  SELECT t.timestamp, e.{quote(self.binding.key)} AS entity{columns}\n  FROM "
            )
            joins = Joins(self.binding.tables)
            if time is not None:
                select += f"{seeds} t JOIN {table} e ON e.{quote(time)} <= t.timestamp"
            elif self.entity.is_dated:
                since = joins.time("e", self.entity)
                select += "\n  ".join(
                    [f"{table} e", *joins.lines, f"JOIN {seeds} t ON {since} <= t.timestamp"]
                )
            else:
                select += f"{seeds} t CROSS JOIN {table} e"
        return select + (f"\n  WHERE {' AND '.join(where)}" if where else "")

    def _aggregate(self, aggregate: Aggregate, seeds: str) -> str:
        link = self.binding.link(aggregate)
        table = self.scope.table(aggregate.column)
        joined = Joins(self.binding.tables)
        last = "a"
        for hop in link.joins:
            last = joined.parent(last, hop.column, hop.parent)
        time, joins = joined.time("a", table), joined.lines
        owner = f"{last}.{quote(link.owner.column)}"
        source = f"{self.population} t" if self._is_row_time else f"{seeds} t"
        window = list(_window(aggregate, time))
        if self._is_row_time:
            window.append(f"{owner} = t.entity")
        inner, is_past = self.binding.inner(aggregate), not aggregate.is_future
        if is_past and inner.sql != "*":
            column = self.scope.column(aggregate.column, table, "here")
            inner = known_before(inner, table, column, "a", "t.timestamp")
        where = []
        if aggregate.where is not None:
            condition = self.scope.condition(
                aggregate.where, lambda part: self._lookup_row(part, table, is_past), nested=True
            )
            where.append(condition)
        if aggregate.function in ("FIRST", "LAST", "LIST_DISTINCT"):
            where.append(f"{inner.sql} IS NOT NULL")
        on = " AND ".join(window)
        from_ = f"  FROM {source}\n  JOIN {quote(table.name)} a ON {on}"
        if joins:
            # Keys first, then the window: the range join is with the seed times, which are few.
            lines = [f"{quote(table.name)} a", *joins, f"JOIN {source} ON {on}"]
            from_ = "  FROM " + "\n  ".join(lines)
        value = self._function(aggregate, inner, time, table)
        text = f"  SELECT t.timestamp, {owner} AS entity, {value} AS value\n{from_}"
        return text + (f"\n  WHERE {' AND '.join(where)}" if where else "") + "\n  GROUP BY ALL"

    def _lookup_row(self, part: Column | Aggregate, table: TableSchema, is_past: bool) -> Meaning:
        if isinstance(part, Aggregate):
            raise self.scope.error(
                "bad_sentence", "An aggregate cannot stand inside another one.", part.span
            )
        column = self.scope.column(part, table, "inside this aggregate")
        meaning = self.scope.meaning(table, column, "a")
        return known_before(meaning, table, column, "a", "t.timestamp") if is_past else meaning

    def _function(self, aggregate: Aggregate, inner: Meaning, time: str, table: TableSchema) -> str:
        value = (
            f"CAST({inner.sql} AS INTEGER)"
            if inner.type == "boolean" and aggregate.function in ("SUM", "AVG", "MIN", "MAX")
            else inner.sql
        )
        # Rows of the same time are ordered by their number, so that FIRST and LAST are the same in
        # every run.
        tie = f"a.{quote(table.pkey)}" if table.pkey else value
        match aggregate.function:
            case "COUNT_DISTINCT":
                return f"COUNT(DISTINCT {value})"
            case "LIST_DISTINCT":
                return f"LIST_SORT(LIST(DISTINCT {value}))"
            case "FIRST":
                return f"FIRST({value} ORDER BY {time}, {tie})"
            case "LAST":
                return f"FIRST({value} ORDER BY {time} DESC, {tie} DESC)"
            case function:
                return f"{function}({value})"


def known_before(
    meaning: Meaning, table: TableSchema, column: str, alias: str, seed: str
) -> Meaning:
    """A column of a table as it was before a seed time: dates that lie ahead, and what is filled
    along with them, are what they were (`features/versions.py`)."""
    sql = meaning.sql
    for date in table.event_dates or ():
        masked = date.masked
        if column in masked:
            rest = literal(masked[column])
            sql = f"CASE WHEN {alias}.{quote(date.column)} >= {seed} THEN {rest} ELSE {sql} END"
    return replace(meaning, sql=sql)


def _as(column: str, name: str) -> str:
    return column if column == name else f"{column} AS {name}"


def _carried(column: str) -> str:
    """The name of an entity's column in the population, whose columns are timestamp and entity."""
    return column + "_" if column.lower() in ("timestamp", "entity") else column


def _window(aggregate: Aggregate, time: str) -> Iterator[str]:
    """The window (start, end] as conditions on a time."""
    if aggregate.start is not None:
        yield f"{time} > {_shift(aggregate.start, aggregate.unit)}"
    yield f"{time} <= {_shift(aggregate.end, aggregate.unit)}"


def _shift(amount: int, unit: str) -> str:
    if amount == 0:
        return "t.timestamp"
    return f"t.timestamp {'+' if amount > 0 else '-'} INTERVAL {abs(amount)} {_INTERVALS[unit]}"


def _whole_months(months: int, split: Split, latest: Any) -> str:
    val, test = time_literal(split.val), time_literal(split.test)
    return (
        "  -- A calendar month may be longer than 30 days: no window may end behind its split.\n"
        f"  SELECT timestamp FROM timestamps\n  WHERE timestamp + INTERVAL {months} MONTH <= CASE\n"
        f"    WHEN timestamp < {val} THEN {val}\n    WHEN timestamp < {test} THEN {test}\n    "
        f"ELSE {time_literal(latest)}\n  END"
    )


def _with(parts: Sequence[str], select: str, joins: Sequence[str], where: Sequence[str]) -> str:
    text = "WITH " + ",\n".join(parts) + "\n" + "\n".join([select, *joins])
    return text + (f"\nWHERE {' AND '.join(where)}" if where else "")
