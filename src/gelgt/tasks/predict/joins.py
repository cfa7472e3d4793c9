"""The joins that lead from a row to its entity and to the rows that date it, as SQL."""

from __future__ import annotations

from collections.abc import Mapping

from gelgt.schema.model import TableSchema
from gelgt.tasks.sql_text import quote

# a is the row, e the entity, t the seed time
_ALIASES = [*"bcdfghijklmnopqrsuvwxyz", *(f"j{i}" for i in range(1000))]
_NEVER = "TIMESTAMP 'infinity'"


class Joins:
    """The tables that are joined to a row for its entity and its time, each once."""

    def __init__(self, tables: Mapping[str, TableSchema]) -> None:
        self.tables = tables
        self.lines: list[str] = []
        self._aliases: dict[tuple[str, str], str] = {}

    def parent(self, alias: str, column: str, table: str, kind: str = "JOIN") -> str:
        """The alias of the row that the row `alias` names by a foreign key."""
        if (alias, column) not in self._aliases:
            key, name = self.tables[table].pkey, _ALIASES[len(self._aliases)]
            assert key is not None
            self._aliases[alias, column] = name
            self.lines.append(
                f"{kind} {quote(table)} {name} ON {name}.{quote(key)} = {alias}.{quote(column)}"
            )
        return self._aliases[alias, column]

    def time(self, alias: str, table: TableSchema, kind: str = "JOIN") -> str:
        """The time from which a row exists: of its time column, or of the newest row that dates
        it."""
        if table.time_col is not None:
            return f"{alias}.{quote(table.time_col)}"
        keys = table.dating_keys
        # a key may be empty; where it is the only one, the row then has no time
        kind = "LEFT JOIN" if len(keys) > 1 else kind
        parents = {
            self.parent(alias, fk.column, fk.table, kind): self.tables[fk.table] for fk in keys
        }
        times = [self.time(name, parent, kind) for name, parent in parents.items()]
        if len(times) == 1:
            return times[0]
        # GREATEST passes over NULL, which is right for an empty key. A row that names a row without
        # a time is never visible.
        named = [f"{name}.{quote(str(parent.pkey))}" for name, parent in parents.items()]
        times = [
            f"CASE WHEN {key} IS NOT NULL THEN COALESCE({time}, {_NEVER}) END"
            for key, time in zip(named, times)
        ]
        return f"GREATEST({', '.join(times)})"
