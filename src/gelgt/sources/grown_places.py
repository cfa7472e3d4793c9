"""Where the new rows of a growing import go, and whom they name.

Rows are ordered by (time, key, all columns) as in a whole import (order.py). Relations of DuckDB:

    sorted_I   the new rows of table I as they were staged, and their order `seq`
    new_I      the same with their final numbers `row`
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.schema.model import ForeignKey, TableSchema
from gelgt.sources.check import referred_columns
from gelgt.sources.dangling import lost_keys
from gelgt.sources.database import Database, parts
from gelgt.sources.digest import DifferentRowsError
from gelgt.sources.duckdb_engine import arrow_table, literal, numbered, quote
from gelgt.sources.growth import moved
from gelgt.sources.order import as_key
from gelgt.sources.probe import StagedTypes
from gelgt.sources.stage import StagedTable
from gelgt.sources.table_file import mapped_table

Rows = NDArray[np.int64]


class NewRows:
    """The new rows of all tables, numbered among the older ones.

    Args:
        base: The older import.
        staged: The new rows of each table.
        types: Types of the columns, of older and new rows together.
        connection: DuckDB.

    Raises:
        DifferentRowsError: a key is repeated or empty, or an older key names a new row.
    """

    def __init__(
        self,
        base: Database,
        staged: Mapping[str, StagedTable],
        types: StagedTypes,
        connection: Any,
    ) -> None:
        self.base, self.staged, self.types, self.connection = base, staged, types, connection
        self._names = {name: i for i, name in enumerate(staged)}
        self.places: dict[str, Rows] = {}  # numbers of the new rows of each table
        for table in base.schema.tables.values():
            self._number(table)
        for table in base.schema.tables.values():
            self._check_lost(table)

    @cached_property
    def moved(self) -> Mapping[str, Rows]:
        """The numbers of the older rows of tables in which some of them move."""
        counts = {name: self.base.num_rows(name) for name in self.places}
        return {
            name: moved(counts[name], places)
            for name, places in self.places.items()
            if len(places) and places[0] < counts[name]
        }

    def rows(self, table: TableSchema) -> pa.Table:
        """The new rows of a table in order: the columns as they were staged, `row`, and for each
        foreign key J the older or the new row that it names, `oJ` and `nJ`."""
        i = self._names[table.name]
        joins, selected = [], [f"s.{c.stored}" for c in self.staged[table.name].columns.values()]
        for j, fk in enumerate(table.foreign_keys):
            joins.append(self._parent_join(table, fk, j))
            selected += [f"o{j}.row AS o{j}", f"n{j}.row AS n{j}"]
        query = f"SELECT {', '.join(selected)}, s.row FROM new_{i} s {' '.join(joins)}"
        return arrow_table(self.connection, f"{query} ORDER BY s.row")

    def keys(self, table: str, columns: tuple[str, ...]) -> pa.Table:
        """The values of some key columns of the new rows, in order."""
        new = arrow_table(self.connection, f"{self._new_keys(table, columns)} ORDER BY row")
        return new.drop_columns(["row"]).rename_columns(list(columns))

    def _all(self, query: str) -> Any:
        return self.connection.execute(query).fetchnumpy()

    def _one(self, query: str) -> Any:
        return self.connection.execute(query).fetchall()[0]

    def _number(self, table: TableSchema) -> None:
        """Lay the new rows of a table in a relation `new_I`, in order and with their numbers."""
        i, staged = self._names[table.name], self.staged[table.name]
        order = ", ".join(f"{c} NULLS LAST" for c in self._order(table))
        self.connection.register("staged", mapped_table(staged.path))
        self.connection.execute(
            f"CREATE TEMP TABLE sorted_{i} AS SELECT *, row_number() OVER (ORDER BY {order}) - 1 "
            "AS seq FROM staged"
        )
        self.connection.unregister("staged")
        self.places[table.name] = places = self._find_places(table)
        self.connection.register("places", pa.table({"row": places}))
        self.connection.execute(
            f"CREATE TEMP TABLE new_{i} AS SELECT s.*, p.row FROM sorted_{i} s JOIN "
            "(SELECT row, row_number() OVER (ORDER BY row) - 1 AS seq FROM places) p USING (seq)"
        )
        self.connection.unregister("places")
        if len(places):
            self._check_unique(table)

    def _order(self, table: TableSchema) -> list[str]:
        """The stored columns that rows are ordered by; see `TableWriter`."""
        staged = self.staged[table.name]
        key = list(table.primary_key.columns) if table.primary_key else list(staged.columns)
        times = [table.time_col] if table.time_col else []
        return [staged.columns[c].stored for c in [*times, *(c for c in key if c not in times)]]

    def _find_places(self, table: TableSchema) -> Rows:
        """The numbers of the new rows beside the older ones."""
        i, old, new = (
            self._names[table.name],
            self.base.num_rows(table.name),
            self.staged[table.name].rows,
        )
        first = self._first_moved(table) if new and old else old
        if first == old:
            return np.arange(old, old + new)
        columns = ", ".join(self._order(table))
        order = ", ".join(f"{c} NULLS LAST" for c in self._order(table))
        merged = self._all(
            f"SELECT is_new FROM (SELECT {columns}, false AS is_new, row AS n FROM "
            f"({self._old_values(table)}) WHERE row >= {first} UNION ALL "
            f"SELECT {columns}, true, seq FROM sorted_{i}) ORDER BY {order}, is_new, n"
        )
        return first + np.flatnonzero(np.asarray(merged["is_new"], np.bool_))

    def _first_moved(self, table: TableSchema) -> int:
        """A number below which no new row comes."""
        i, columns = self._names[table.name], self.staged[table.name].columns
        rows = f"read_parquet({_files(self.base.paths(table.name))})"
        if table.time_col is not None:
            stored, name = columns[table.time_col].stored, quote(table.time_col)
            least = f"(SELECT {stored} FROM sorted_{i} WHERE seq = 0)"
            before = f"CASE WHEN {least} IS NULL THEN {name} IS NOT NULL ELSE {name} < {least} END"
            return int(self._one(f"SELECT count(*) FROM {rows} WHERE {before}")[0])
        if table.primary_key is not None and len(table.primary_key.columns) == 1:
            value = self.types.value(table.name, table.primary_key.columns[0])
            least = f"(SELECT {value} FROM sorted_{i} WHERE seq = 0)"
            keys = self._old_keys(table.name, table.primary_key.columns)
            return int(self._one(f"SELECT count(*) FROM ({keys}) WHERE k0 < {least}")[0])
        return 0

    def _old_values(self, table: TableSchema) -> str:
        """The older rows with the columns that order them, as they were staged, and `row`.

        Key columns hold row numbers in the files; their values come from the files of keys.
        """
        selected: list[str] = []
        joins: list[str] = []
        key = table.primary_key.columns if table.primary_key else ()
        for c, column in self.staged[table.name].columns.items():
            if column.stored not in self._order(table):
                continue
            if c in key:
                selected.append(f"k.k{key.index(c)} AS {column.stored}")
            elif c in table.key_columns:
                fk = next(fk for fk in table.foreign_keys if fk.column == c)
                lost = lost_keys(self.base.folder, table.name, table.foreign_keys.index(fk))
                kind = self.types.key_type(fk.table, self._referred(fk)[0])
                # The files of keys hold neither what dangling keys were nor numbers as texts.
                if lost.exists() or (column.type == pa.string()) != (kind == "string"):
                    raise DifferentRowsError
                parent = self._old_keys(fk.table, self._referred(fk))
                joins.append(
                    f"LEFT JOIN ({parent}) p{len(joins)} ON p{len(joins)}.row = t.{quote(c)}"
                )
                selected.append(f"p{len(joins) - 1}.k0 AS {column.stored}")
            else:
                selected.append(f"t.{quote(c)} AS {column.stored}")
        if key:
            joins.append(f"JOIN ({self._old_keys(table.name, key)}) k ON k.row = t.file_row_number")
        rows = numbered(self.base.paths(table.name))
        return (
            f"SELECT {', '.join(selected)}, t.file_row_number AS row FROM {rows} t "
            f"{' '.join(joins)}"
        )

    def _referred(self, fk: ForeignKey) -> tuple[str, ...]:
        return referred_columns(fk, self.base.table(fk.table))

    def _old_keys(self, table: str, columns: tuple[str, ...]) -> str:
        """The older rows of a table: values k0… of some key columns, and `row`."""
        schema = self.base.table(table)
        if not self.base.num_rows(table):
            return f"SELECT * FROM ({self._new_keys(table, columns)}) WHERE false"
        file = self.base.folder / "gelgt" / "keys" / f"{table}.parquet"
        is_primary = schema.primary_key is not None and columns == schema.primary_key.columns
        if is_primary and not file.exists():  # the keys are the row numbers
            name = quote(schema.pkey or "")
            files = _files(self.base.paths(table))
            return f"SELECT {name} AS k0, {name} AS row FROM read_parquet({files})"
        if not is_primary and any(c in schema.key_columns for c in columns):
            raise DifferentRowsError
        source = numbered(parts(file) if is_primary else self.base.paths(table))
        values = [
            f"CAST({quote(c)} AS BIGINT)" if self.types.key_type(table, c) == "int64" else quote(c)
            for c in columns
        ]
        selected = ", ".join(f"{value} AS k{i}" for i, value in enumerate(values))
        return f"SELECT {selected}, file_row_number AS row FROM {source}"

    def _new_keys(self, table: str, columns: tuple[str, ...]) -> str:
        """The same of the new rows."""
        values = (f"{self.types.value(table, c)} AS k{i}" for i, c in enumerate(columns))
        return f"SELECT {', '.join(values)}, row FROM new_{self._names[table]}"

    def _check_unique(self, table: TableSchema) -> None:
        keys = {
            self._referred(fk)
            for other in self.base.schema.tables.values()
            for fk in other.foreign_keys
            if fk.table == table.name
        }
        primary = table.primary_key.columns if table.primary_key else ()
        for columns in keys | ({primary} if primary else set()):
            new = self._new_keys(table.name, columns)
            same = " AND ".join(f"o.k{i} = n.k{i}" for i in range(len(columns)))
            names = ", ".join(f"k{i}" for i in range(len(columns)))
            filled = " AND ".join(f"k{i} IS NOT NULL" for i in range(len(columns)))
            count, known, distinct = self._one(
                f"SELECT count(*), count(*) FILTER ({filled}), "
                f"count(DISTINCT ({names})) FILTER ({filled}) FROM ({new})"
            )
            old = self._old_keys(table.name, columns)
            repeated = self._one(f"SELECT count(*) FROM ({old}) o SEMI JOIN ({new}) n ON {same}")
            if distinct < known or (columns == primary and known < count) or repeated[0]:
                raise DifferentRowsError

    def _check_lost(self, table: TableSchema) -> None:
        """No older key that named no row may name a new one."""
        columns = self.staged[table.name].columns
        for j, fk in enumerate(table.foreign_keys):
            path = lost_keys(self.base.folder, table.name, j)
            if not len(self.places[fk.table]) or not path.exists():
                continue
            referred = self._referred(fk)
            same = " AND ".join(
                f"n.k{i} = "
                + as_key(f"l.d{j}_{i}", columns[c].type, self.types.key_type(fk.table, key))
                for i, (c, key) in enumerate(zip(fk.columns, referred))
            )
            new = self._new_keys(fk.table, referred)
            lost = f"read_parquet({_files(parts(path))})"
            query = f"SELECT count(*) FROM {lost} l SEMI JOIN ({new}) n ON {same}"
            if self._one(query)[0]:
                raise DifferentRowsError

    def _parent_join(self, table: TableSchema, fk: ForeignKey, j: int) -> str:
        """Joins that find the older or the new row that a key names. Of the older keys only those
        that are named take part, so that little is held in memory."""
        i, referred, terms = self._names[table.name], self._referred(fk), []
        for place, (c, key) in enumerate(zip(fk.columns, referred)):
            child = self.staged[table.name].columns[c]
            kind = self.types.key_type(fk.table, key)
            terms.append(f"{{0}}.k{place} = " + as_key(f"s.{child.stored}", child.type, kind))
        same = " AND ".join(terms)
        old, newer = self._old_keys(fk.table, referred), self._new_keys(fk.table, referred)
        named = f"SELECT k.* FROM ({old}) k SEMI JOIN new_{i} s ON {same.format('k')}"
        return (
            f"LEFT JOIN ({named}) o{j} ON {same.format(f'o{j}')} "
            f"LEFT JOIN ({newer}) n{j} ON {same.format(f'n{j}')}"
        )


def _files(paths: list[Path]) -> str:
    return f"[{', '.join(literal(path) for path in paths)}], hive_partitioning = false"
