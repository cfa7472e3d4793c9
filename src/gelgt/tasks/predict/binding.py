"""The names of a sentence bound to a schema: entity, links, and the meaning of every aggregate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gelgt.errors import TaskError
from gelgt.schema.model import TableSchema
from gelgt.tasks.predict.links import Chain, Link, chains, link
from gelgt.tasks.predict.scope import Meaning, Scope
from gelgt.tasks.predict.syntax import AGGREGATES, Aggregate, Column, Sentence, conjuncts
from gelgt.tasks.sql_text import ROW_NUMBER, quote

if TYPE_CHECKING:
    from gelgt.sources.database import Database


class Binding:
    """The names of one sentence, each with its meaning; every error points into the sentence."""

    def __init__(self, db: Database, sentence: Sentence) -> None:
        self.sentence = sentence
        self.scope = Scope(db, sentence.text)
        self.tables = db.schema.tables
        self.entity = self._entity(sentence.entity)
        self.key = self.entity.pkey or ROW_NUMBER
        self.conditions = conjuncts(sentence.where)
        self.names: dict[Aggregate, str] = {}
        self._used_names = {name.lower() for name in self.tables} | {"timestamps"}
        self.population = self._unused_name("population")
        self.seeds = self._unused_name("seeds")

    def _entity(self, column: Column) -> TableSchema:
        if column.table is None:
            raise self.scope.error(
                "bad_entity",
                f"'{column.name}' does not say which column.",
                column.span,
                "Write FOR EACH table.key.",
            )
        table = self.scope.table(column)
        if column.name == "*" and table.pkey is None and isinstance(self.sentence.target, Column):
            return table
        if table.pkey is None:
            raise self.scope.error(
                "bad_entity",
                f"The table '{table.name}' has no primary key.",
                column.span,
                f"Name one in a --schema file: {table.name}: {{pkey: COLUMN}}.",
            )
        if column.name != "*" and self.scope.column(column, table, "here") != table.pkey:
            raise self.scope.error(
                "bad_entity",
                f"'{table.name}.{column.name}' is not the key of '{table.name}'.",
                column.span,
                f"Write {quote(table.name)}.{quote(table.pkey)}.",
            )
        return table

    def _unused_name(self, name: str) -> str:
        number, unused = 1, name
        while unused.lower() in self._used_names:
            number += 1
            unused = f"{name}_{number}"
        self._used_names.add(unused.lower())
        return unused

    # Meanings
    def lookup_value(self, part: Column | Aggregate) -> Meaning:
        if isinstance(part, Column):
            raise self.scope.error(
                "bad_target",
                "A column of the entity is known already.",
                part.span,
                "Compare an aggregate.",
            )
        value, function = f"{self.name(part)}.value", AGGREGATES[part.function]
        inner = self.inner(part)
        kind = function.gives or inner.type
        return Meaning(
            value if function.empty is None else f"COALESCE({value}, {function.empty})",
            kind,
            inner.key_table if kind == "key" else None,
            inner.referred,
        )

    def lookup_entity(self, part: Column | Aggregate) -> Meaning:
        if isinstance(part, Aggregate):
            if part.function == "LIST_DISTINCT":
                raise self.scope.error(
                    "bad_type", "A list cannot be compared.", part.span, "Use COUNT_DISTINCT."
                )
            return self.lookup_value(part)
        return self.scope.meaning(
            self.entity, self.scope.column(part, self.entity, "in the condition on the entity"), "e"
        )

    def inner(self, aggregate: Aggregate) -> Meaning:
        """The aggregated column, checked against its function."""
        table = self.scope.table(aggregate.column)
        function, span = aggregate.function, aggregate.column.span
        if aggregate.column.name == "*":
            if function != "COUNT":
                raise self.scope.error(
                    "bad_type",
                    f"{function} needs a column.",
                    span,
                    f"Write {function}({quote(table.name)}.column, …), or COUNT.",
                )
            return Meaning("*", "number")
        meaning = self.scope.meaning(table, self.scope.column(aggregate.column, table, "here"), "a")
        if meaning.type not in AGGREGATES[function].takes:
            raise self.scope.error(
                "bad_type",
                f"{function} needs {AGGREGATES[function].needs}, but '{aggregate.column.name}' is "
                f"a {meaning.type}.",
                span,
                *self._whole_key(aggregate, table),
            )
        return meaning

    def _whole_key(self, aggregate: Aggregate, table: TableSchema) -> Iterator[str]:
        """A hint where a function needs a foreign key: the one that a column is a part of, or all
        that there are."""
        if AGGREGATES[aggregate.function].takes != ("key",):
            return
        for key in table.foreign_keys:
            if len(key.columns) > 1 and aggregate.column.name in key.columns:
                whole = quote("+".join(key.columns))
                yield f"Name the whole key: {aggregate.function}({quote(table.name)}.{whole}, …)."
                return
        keys = ", ".join(quote("+".join(key.columns)) for key in table.foreign_keys)
        yield f"Foreign keys of '{table.name}': {keys or 'none'}."

    def name(self, aggregate: Aggregate) -> str:
        """The name of an aggregate's table expression; its link is checked when the name is first
        used."""
        if aggregate not in self.names:
            self.link(aggregate)
            word = "".join(
                c if c.isalnum() else "_"
                for c in f"{aggregate.function}_{self.scope.table(aggregate.column).name}".lower()
            )
            self.names[aggregate] = self._unused_name(word)
        return quote(self.names[aggregate])

    # Links and times
    def link(self, aggregate: Aggregate) -> Link:
        """How the aggregated rows belong to entities, and which rows date them."""
        table = self.scope.table(aggregate.column)
        paths = chains(self.tables, table.name, self.entity.name, self._via(aggregate, table))
        if not paths:
            listed = ", ".join(f"{k.column} → {k.table}" for k in table.foreign_keys)
            keys = listed or "no foreign keys"
            through = f" through {aggregate.via.name}" if aggregate.via else ""
            raise self.scope.error(
                "no_link",
                f"No foreign key leads from '{table.name}' to '{self.entity.name}'{through}.",
                aggregate.column.span,
                f"'{table.name}' has {keys}.",
            )
        if len(paths) > 1:
            raise self._ambiguous(aggregate, paths)
        linked = link(self.tables, table.name, paths[0])
        if linked is None:
            raise self.scope.error(
                "no_time",
                f"The rows of '{table.name}' {self._undated(table)}, so no window can hold them.",
                aggregate.column.span,
                "Name a time column (time_col), or the foreign keys that date its rows "
                "(dated_by), in a --schema file.",
            )
        return linked

    def _undated(self, table: TableSchema) -> str:
        return (
            f"are as old as their row of '{self.entity.name}', which dates them"
            if table.dating_keys
            else "have no time"
        )

    def _via(self, aggregate: Aggregate, table: TableSchema) -> tuple[str, str] | None:
        if aggregate.via is None:
            return None
        owner = table if aggregate.via.table is None else self.scope.table(aggregate.via)
        column = self.scope.column(aggregate.via, owner, "here")
        keys = {key.column for key in owner.foreign_keys}
        if column not in keys:
            raise self.scope.error(
                "no_link",
                f"'{owner.name}.{column}' is no foreign key.",
                aggregate.via.span,
                f"There are: {', '.join(sorted(keys))}.",
            )
        return owner.name, column

    def _ambiguous(self, aggregate: Aggregate, paths: Sequence[Chain]) -> TaskError:
        listed = "; ".join(", ".join(str(hop) for hop in chain) for chain in paths)
        first, other = paths[0], paths[1]
        hop = next((a for a, b in zip(first, other) if a != b), first[0])
        start = self.scope.table(aggregate.column).name
        via = quote(hop.column) if hop.table == start else f"{quote(hop.table)}.{quote(hop.column)}"
        column = aggregate.column.name
        shown = f"{quote(start)}.{column if column == '*' else quote(column)}"
        return self.scope.error(
            "ambiguous_link",
            f"'{start}' is linked to '{self.entity.name}' in {len(paths)} ways: {listed}.",
            aggregate.column.span,
            f"Say which: {aggregate.function}({shown} VIA {via}, …).",
        )
