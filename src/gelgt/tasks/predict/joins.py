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
        """The time from which a row exists: of its time column, of the newest row that dates it, or
        of the first that names it."""
        if table.time_col is not None:
            return f"{alias}.{quote(table.time_col)}"
        if table.is_named_first:
            return self._first_naming(alias, table)
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
        newest = f"GREATEST({', '.join(times)})"
        required = table.dating.required if table.dating is not None else ()
        columns = {fk.column: key for fk, key in zip(keys, named)}
        conditions = [
            " OR ".join(f"{columns[column]} IS NOT NULL" for column in group) for group in required
        ]
        if not conditions:
            return newest
        return f"CASE WHEN {' AND '.join(f'({c})' for c in conditions)} THEN {newest} END"

    def _first_naming(self, alias: str, table: TableSchema) -> str:
        """The time of the first row that names a row. One that none names counts as there from the
        newest of these rows on."""
        if (alias, "") not in self._aliases:
            assert table.pkey is not None
            parts = [
                f"SELECT {quote(fk.column)} AS row, {quote(str(other.time_col))} AS time "
                f"FROM {quote(other.name)}"
                for other in self.tables.values()
                for fk in other.foreign_keys
                if fk.table == table.name and other.name != table.name and other.time_col
            ]
            rows, name = " UNION ALL ".join(parts), _ALIASES[len(self._aliases)]
            self._aliases[alias, ""] = name
            self.lines.append(
                f"JOIN (SELECT r.{quote(table.pkey)} AS row, COALESCE(MIN(n.time), "
                f"(SELECT MAX(time) FROM ({rows}))) AS time FROM {quote(table.name)} r "
                f"LEFT JOIN ({rows}) n ON n.row = r.{quote(table.pkey)} GROUP BY 1) {name} "
                f"ON {name}.row = {alias}.{quote(table.pkey)}"
            )
        return f"{self._aliases[alias, '']}.time"
