"""Decides the schema of a source: what the user states (`stated.py`), else what the source
declares, else what is inferred."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gelgt.errors import SchemaError, did_you_mean
from gelgt.schema.infer import (
    ColumnFacts,
    infer_foreign_keys,
    infer_primary_key,
    infer_shared_key,
)
from gelgt.schema.manifest import parse_dating, parse_kind
from gelgt.schema.model import (
    ColumnKind,
    Dating,
    ForeignKey,
    PrimaryKey,
    TableSchema,
    TimeColumn,
    key_column,
)
from gelgt.sources.probe import StagedProbe
from gelgt.sources.row_times import instant
from gelgt.sources.stage import StagedTable
from gelgt.sources.stated import ENTRIES
from gelgt.sources.time_columns import Times, choose_times

Stated = Mapping[str, Mapping[str, Any]]


def check_stated(stated: Stated, tables: Mapping[str, Iterable[str]]) -> None:
    """Reject names in `schema=` that do not exist, before anything is read."""
    for table, entry in stated.items():
        if table not in tables:
            raise SchemaError(
                "unknown_table",
                f"schema: there is no table '{table}'.",
                hint=did_you_mean(table, tables),
            )
        for word in entry:
            if word not in ENTRIES:
                raise SchemaError(
                    "unknown_entry",
                    f"schema: table '{table}' has the entry '{word}'.",
                    hint=did_you_mean(word, ENTRIES),
                )
        columns, dates = list(tables[table]), entry.get("event_dates") or {}
        if not all(isinstance(part, Mapping) for part in (dates, *_filled_of(dates))):
            raise SchemaError(
                "bad_schema",
                f"schema: event_dates of '{table}' must map each date to what is filled along with "
                f"it, got {dates!r}.",
                hint="Write {paid_at: {filled: {method: null}}}, or {paid_at: {}}.",
            )
        named = [
            *as_tuple(entry.get("pkey")),
            *as_tuple(entry.get("time_col")),
            *(entry.get("kinds") or {}),
            *as_tuple(entry.get("follows")),
            *as_tuple(entry.get("known_ahead")),
            *dates,
            *(column for filled in _filled_of(dates) for column in filled),
        ]
        for key, target in (entry.get("fkeys") or {}).items():
            named += key.split("+") if key not in columns else [key]
            parent, _ = _target(str(target), tables)
            if parent not in tables:
                raise SchemaError(
                    "unknown_table",
                    f"schema: '{table}.{key}' refers to a table '{target}'.",
                    hint=did_you_mean(str(target), tables),
                )
        for column in named:
            if column not in columns:
                raise SchemaError(
                    "unknown_column",
                    f"schema: table '{table}' has no column '{column}'.",
                    hint=did_you_mean(column, columns),
                )
        for column, kind in (entry.get("kinds") or {}).items():
            parse_kind(table, column, kind, "schema")


def _filled_of(dates: Any) -> list[Any]:
    """What each stated date fills."""
    entries = dates.values() if isinstance(dates, Mapping) else [None]
    return [
        entry.get("filled") or {} if isinstance(entry, Mapping) else entry or {}
        for entry in entries
    ]


def stated_kinds(stated: Stated, table: str) -> dict[str, ColumnKind]:
    return {
        c: parse_kind(table, c, kind, "schema")
        for c, kind in (stated.get(table, {}).get("kinds") or {}).items()
    }


def resolve(
    staged: Mapping[str, StagedTable],
    stated: Stated,
    probe: StagedProbe,
    inferred_until: str | None = None,
) -> tuple[dict[str, TableSchema], Times]:
    """Keys and times of every table; kinds are inferred later, when the rows are sorted."""
    facts = {name: _facts(table) for name, table in staged.items()}
    entries = {name: stated.get(name, {}) for name in staged}
    keys = {n: _primary_key(table, entries[n], facts, probe) for n, table in staged.items()}
    foreign = {
        n: _foreign_keys(table, entries[n], facts, keys, staged, probe)
        for n, table in staged.items()
    }
    stated_times = {
        name: _stated_time(table, entries[name]["time_col"])
        for name, table in staged.items()
        if "time_col" in entries[name]
    }
    until = None if inferred_until is None else instant(inferred_until)
    times = choose_times(stated_times, facts, keys, foreign, probe, until)
    resolved = {}
    for name, table in staged.items():
        resolved[name] = TableSchema(
            name,
            table.types(),
            keys[name],
            times.chosen[name],
            foreign[name],
            stated_kinds(stated, name),
            _stated_dating(name, entries[name], foreign[name]),
        )
    return resolved, times


def _stated_dating(
    name: str, entry: Mapping[str, Any], foreign: tuple[ForeignKey, ...]
) -> Dating | None:
    if "dated_by" not in entry:
        return None
    return parse_dating(name, entry["dated_by"], [fk.column for fk in foreign], "schema")


def _facts(table: StagedTable) -> list[ColumnFacts]:
    types = table.types()
    columns = table.columns.items()
    is_whole = {name: column.is_whole and not column.non_finite for name, column in columns}
    return [
        ColumnFacts(name, types[name], column.nulls, table.rows, is_whole[name])
        for name, column in columns
    ]


def _primary_key(
    table: StagedTable,
    entry: Mapping[str, Any],
    facts: Mapping[str, list[ColumnFacts]],
    probe: StagedProbe,
) -> PrimaryKey | None:
    if "pkey" in entry:
        columns = as_tuple(entry["pkey"])
        _check_usable(table, columns, "a primary key")
        key = PrimaryKey(columns, "manifest", "stated by the user") if columns else None
    elif table.primary_key and set(table.primary_key) <= set(table.columns):
        key = PrimaryKey(table.primary_key, "declared", "PRIMARY KEY of the database")
    else:
        by_name = infer_primary_key(table.name, facts[table.name], probe)
        return by_name or infer_shared_key(table.name, facts, probe)
    if key and len(key.columns) > 1 and key_column(key.columns) in table.columns:
        raise SchemaError(
            "name_collision",
            f"The primary key of '{table.name}' needs a column '{key_column(key.columns)}' of its "
            "own, but the table has one of that name.",
            hint="Rename that column, or read the table through a view that does.",
        )
    return key


def _foreign_keys(
    table: StagedTable,
    entry: Mapping[str, Any],
    facts: Mapping[str, list[ColumnFacts]],
    keys: Mapping[str, PrimaryKey | None],
    staged: Mapping[str, StagedTable],
    probe: StagedProbe,
) -> tuple[ForeignKey, ...]:
    if "fkeys" in entry:
        foreign = [
            _stated_key(column, str(target), table, staged)
            for column, target in (entry["fkeys"] or {}).items()
        ]
    else:
        foreign = [
            fk
            for fk in table.foreign_keys
            if fk.table in staged and set(fk.columns) <= set(table.columns)
        ]
        outside = [f.column for f in table.findings if f.code == "outside_key" and f.column]
        declared = {c for fk in foreign for c in fk.columns}.union(*(o.split("+") for o in outside))
        is_strict = bool(outside) or any(other.foreign_keys for other in staged.values())
        foreign += infer_foreign_keys(table.name, facts, keys, declared, probe, is_strict=is_strict)
    position = {c: i for i, c in enumerate(table.columns)}
    foreign.sort(key=lambda fk: (position[fk.columns[0]], len(fk.columns), fk.table))
    return _with_stored_names(foreign, keys[table.name], set(table.columns))


def _stated_key(
    column: str, target: str, table: StagedTable, staged: Mapping[str, StagedTable]
) -> ForeignKey:
    parent, referred = _target(target, staged)
    # the name of a column may hold a plus
    columns = (column,) if column in table.columns else tuple(column.split("+"))
    _check_usable(table, columns, "a foreign key")
    return ForeignKey(columns, parent, referred, "manifest", "stated by the user")


def _check_usable(table: StagedTable, columns: Iterable[str], role: str) -> None:
    """Whether stated columns are read, and have values that can be compared."""
    types = table.types()
    for column in columns:
        if types.get(column, "list") == "list":
            kind = "a list" if column in types else "of a type that is not read"
            raise SchemaError(
                "unusable_column",
                f"'{table.name}.{column}' cannot be {role}: it is {kind}.",
                hint="State another column, or none.",
            )


def _target(target: str, tables: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Table and columns of 'customers' or 'customers.email'; the name of a table may hold a dot."""
    if target in tables or "." not in target:
        return target, ()
    table, column = target.rsplit(".", 1)
    return table, (column,)


def _with_stored_names(
    foreign: list[ForeignKey], key: PrimaryKey | None, columns: set[str]
) -> tuple[ForeignKey, ...]:
    """The keys, each once; one whose column already holds the row numbers of another key is stored
    in a new column."""
    used = {key_column(key.columns)} if key else set()
    named: list[ForeignKey] = []
    for fk in foreign:
        same = (
            (fk.columns, fk.table, fk.referred) == (o.columns, o.table, o.referred) for o in named
        )
        if any(same):
            continue  # declared twice
        name = key_column(fk.columns)
        if name in used or (len(fk.columns) > 1 and name in columns):
            name = f"{name}@{fk.table}"
            while name in used or name in columns:  # one of the user's columns may be called so
                name += "@"
            fk = replace(fk, stored=name)
        used.add(name)
        named.append(fk)
    return tuple(named)


def _stated_time(table: StagedTable, column: str | None) -> TimeColumn | None:
    if column is None:
        return None
    _check_usable(table, [column], "the time column")
    kind = table.types()[column]
    if kind != "timestamp":
        raise SchemaError(
            "not_a_time",
            f"The time column '{table.name}.{column}' must hold times, but holds {kind} values.",
            hint="Use dates or times (2024-05-31 17:04:05), or whole numbers that count from 1970 "
            "in a column named like a time.",
        )
    return TimeColumn(column, "manifest", "stated by the user")


def as_tuple(value: Any) -> tuple[str, ...]:
    if not value:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)
