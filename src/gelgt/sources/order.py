"""Sorts rows and turns keys into row numbers.

Rows are sorted by (time, key, all columns) with null times last, so the rows up to a time come
first and the numbering of earlier rows does not depend on later ones. One DuckDB query a table
joins the parents' row numbers and sorts, on disk where memory is short. Parents are written before
their children; where tables refer to each other in a cycle, a query for the keys alone comes first.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from gelgt.meter import Work
from gelgt.schema.kinds import Sampler, infer_kind
from gelgt.schema.model import Finding, ForeignKey, TableSchema
from gelgt.sources.canonical import STRINGS, canonical_name
from gelgt.sources.check import referred_columns
from gelgt.sources.dangling import DanglingKeys, lost_keys
from gelgt.sources.duckdb_engine import arrow_reader, exact_batches, literal
from gelgt.sources.probe import StagedProbe
from gelgt.sources.table_file import BATCH_ROWS, KeyFiles, TableFile, batch_rows, lasting

_SQL_TYPES = {
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "string": "VARCHAR",
    "timestamp": "TIMESTAMP",
    "list": "VARCHAR[]",
}
Written = tuple[TableSchema, list[Finding]]  # with kinds; about keys and numbers


@dataclass(frozen=True)
class Writing:
    """What the tables of an import share when they are written.

    Attributes:
        tables: Their schemas.
        folder: The RelBench folder.
        work: A scratch folder, where the look-ups of keys go.
        val: The validation time.
    """

    tables: Mapping[str, TableSchema]
    folder: Path
    work: Path
    val: str | None


class TableWriter:
    """Writes resolved tables to a RelBench folder.

    Attributes:
        ordered: The tables, parents first.
        early: Tables whose keys are written before all rows.
    """

    def __init__(self, writing: Writing, probe: StagedProbe) -> None:
        self.tables, self.folder, self.val = writing.tables, writing.folder, writing.val
        self.probe = probe
        self._lookups: dict[str, Path] = {
            fk.table: writing.work / f"keys-{probe.tables[fk.table].path.stem}.parquet"
            for table in self.tables.values()
            for fk in table.foreign_keys
        }
        self.ordered = parents_first(self.tables)
        self.early = _referred_early(self.tables, self.ordered)

    def write_keys(self, name: str) -> None:
        """Write the keys of a table in final row order, before its rows."""
        selected = ", ".join(self._selected_keys(name))
        order = self._order(self.tables[name])
        query = f"SELECT {selected} FROM {self.probe.relation(name)} ORDER BY {order}"
        reader = arrow_reader(self.probe.connection, query, BATCH_ROWS)
        with self._key_files(name, reader.schema) as files:
            for batch in exact_batches(reader, BATCH_ROWS):
                files.write(batch.columns)

    def _selected_keys(self, name: str) -> list[str]:
        columns = enumerate(self._key_columns(name))
        return [f"{self.probe.value(name, c)} AS key{i}" for i, c in columns]

    def _key_files(self, name: str, schema: pa.Schema) -> KeyFiles:
        primary = self.tables[name].primary_key
        types = [schema.field(f"key{i}").type for i in range(len(self._key_columns(name)))]
        path = self.folder / "gelgt" / "keys" / f"{name}.parquet"
        key = primary.columns if primary else ()
        return KeyFiles(path, self._lookups.get(name), key, types)

    def _key_columns(self, name: str) -> list[str]:
        """The columns of the primary key first, then every column that a table refers to."""
        table = self.tables[name]
        columns = list(table.primary_key.columns) if table.primary_key else []
        for other in self.tables.values():
            for fk in other.foreign_keys:
                if fk.table == name:
                    columns += [c for c in referred_columns(fk, table) if c not in columns]
        return columns

    def _order(self, table: TableSchema, prefix: str = "") -> str:
        staged = self.probe.tables[table.name]
        key = list(table.primary_key.columns) if table.primary_key else list(staged.columns)
        times = [table.time_col] if table.time_col else []
        ordered = [*times, *(c for c in key if c != table.time_col)]
        return ", ".join(f"{prefix}{staged.columns[c].stored} NULLS LAST" for c in ordered)

    def write_rows(self, name: str) -> Written:
        """Write one table in final form, with its keys unless they are written already."""
        table, types = self.tables[name], self._types(name)
        features = [c for c in types if c not in table.key_columns]
        sampler = Sampler(self._rows_until_validation(table))
        row, schema = 0, pa.schema([pa.field(c, arrow) for c, arrow in types.items()])
        texts = [c for c in features if types[c] in (pa.string(), STRINGS)]
        path = self.folder / "db" / f"{name}.parquet"
        query, work = self._query(table), Work(f"sorting {name}", self.probe.tables[name].rows)
        size = batch_rows(len(types))
        reader = arrow_reader(self.probe.connection, query, size)
        with ExitStack() as stack:
            rows = stack.enter_context(TableFile(path, schema, **lasting(schema, texts)))
            keys = self._keys_with_rows(name)
            files = stack.enter_context(self._key_files(name, reader.schema)) if keys else None
            dangling = [
                stack.enter_context(DanglingKeys(lost_keys(self.folder, name, j)))
                for j in range(len(table.foreign_keys))
            ]
            for batch in exact_batches(reader, size):
                arrays = self._final_arrays(table, batch, schema, row)
                rows.write(arrays)
                if files is not None:
                    files.write([batch.column(f"key{i}") for i in range(len(keys))])
                sampler.add(pa.RecordBatch.from_arrays(arrays, schema=schema).select(features))
                for j, values in enumerate(dangling):
                    values.add(batch, j)
                row += batch.num_rows
                work(batch.num_rows)
        kinds = {
            c: table.kinds.get(c) or infer_kind(c, sampler.column(c, types[c])) for c in features
        }
        columns = {c: canonical_name(arrow) for c, arrow in types.items()}
        return replace(table, columns=columns, kinds=kinds), self._findings(table, dangling)

    def _keys_with_rows(self, name: str) -> list[str]:
        """The key columns that are written together with the rows."""
        return [] if name in self.early else self._key_columns(name)

    def _types(self, name: str) -> dict[str, pa.DataType]:
        """The final columns: the user's in their order, then those that gelgt adds for composite
        and shared keys."""
        table, staged = self.tables[name], self.probe.tables[name]
        keys = [*([table.pkey] if table.pkey else []), *(fk.column for fk in table.foreign_keys)]
        return {
            c: pa.int64() if c in table.key_columns else staged.columns[c].type
            for c in dict.fromkeys([*staged.columns, *keys])
        }

    def _final_arrays(
        self, table: TableSchema, batch: pa.RecordBatch, schema: pa.Schema, row: int
    ) -> list[pa.Array]:
        """The final columns of a batch of `_query` whose first row has the number `row`."""
        staged = self.probe.tables[table.name].columns
        parents = {fk.column: f"p{j}" for j, fk in enumerate(table.foreign_keys)}
        arrays = []
        for field in schema:
            if field.name == table.pkey:
                arrays.append(pa.array(np.arange(row, row + batch.num_rows)))
            else:
                name = parents.get(field.name) or staged[field.name].stored
                arrays.append(batch.column(name).cast(field.type))
        return arrays

    def _query(self, table: TableSchema) -> str:
        staged = self.probe.tables[table.name]
        replaced = {fk.column for fk in table.foreign_keys} | {table.pkey}
        selected = [
            f"s.{column.stored}" for c, column in staged.columns.items() if c not in replaced
        ]
        joins = []
        for j, fk in enumerate(table.foreign_keys):
            joins.append(self._join(table, fk, j))
            lost = f"({self._filled(table, fk)}) AND j{j}.row IS NULL"
            selected.append(f"j{j}.row AS p{j}")
            selected += [
                f"CASE WHEN {lost} THEN s.{staged.columns[c].stored} END AS d{j}_{i}"
                for i, c in enumerate(fk.columns)
            ]
        if self._keys_with_rows(table.name):
            selected += self._selected_keys(table.name)
        rows = f"{self.probe.relation(table.name)} AS s {' '.join(joins)}"
        order = self._order(table, "s.")
        return f"SELECT {', '.join(selected) or '1'} FROM {rows} ORDER BY {order}"

    def _filled(self, table: TableSchema, fk: ForeignKey) -> str:
        columns = self.probe.tables[table.name].columns
        return " AND ".join(f"s.{columns[c].stored} IS NOT NULL" for c in fk.columns)

    def _join(self, table: TableSchema, fk: ForeignKey, j: int) -> str:
        positions = {c: i for i, c in enumerate(self._key_columns(fk.table))}
        terms = []
        for c, key in zip(fk.columns, referred_columns(fk, self.tables[fk.table])):
            child = self.probe.tables[table.name].columns[c]
            value = as_key(f"s.{child.stored}", child.type, self.probe.key_type(fk.table, key))
            terms.append(f"j{j}.k{positions[key]} = {value}")
        lookup = f"read_parquet({literal(self._lookups[fk.table])}) AS j{j}"
        return f"LEFT JOIN {lookup} ON {' AND '.join(terms)}"

    def _rows_until_validation(self, table: TableSchema) -> int:
        staged = self.probe.tables[table.name]
        if table.time_col is None or self.val is None:
            return staged.rows
        time = staged.columns[table.time_col].stored
        return int(
            self.probe.one(
                f"SELECT count(*) FROM {self.probe.relation(table.name)} WHERE {time} <= "
                f"TIMESTAMP {literal(self.val)}"
            )[0]
        )

    def _findings(self, table: TableSchema, dangling: "list[DanglingKeys]") -> list[Finding]:
        keys = zip(table.foreign_keys, dangling)
        findings = [
            Finding("dangling_key", table.name, fk.column, values.count, values.message(fk))
            for fk, values in keys
            if values.count
        ]
        for name, column in self.probe.tables[table.name].columns.items():
            if column.non_finite:
                message = "NaN or infinite values count as missing"
                count = column.non_finite
                findings.append(Finding("non_finite", table.name, name, count, message))
        return findings


def as_key(value: str, child: pa.DataType, parent: str) -> str:
    """A value of a foreign key in the type of the key that it names.

    Whole numbers stored as floats or as text still match their keys; what cannot be converted
    dangles.
    """
    if pa.types.is_floating(child) and parent == "int64":
        return f"CASE WHEN {value} = floor({value}) THEN TRY_CAST({value} AS BIGINT) END"
    if canonical_name(child) != parent:
        return f"TRY_CAST({value} AS {_SQL_TYPES[parent]})"
    return value


def parents_first(tables: Mapping[str, TableSchema]) -> list[str]:
    """The tables, each after those that it refers to, where cycles leave that open."""
    ordered: list[str] = []
    entered: set[str] = set()
    stack = [(name, False) for name in reversed(list(tables))]
    while stack:
        name, is_ready = stack.pop()
        if is_ready:
            ordered.append(name)
        elif name not in entered:
            entered.add(name)
            parents = [fk.table for fk in tables[name].foreign_keys]
            stack += [(name, True), *((p, False) for p in reversed(parents) if p not in entered)]
    return ordered


def _referred_early(tables: Mapping[str, TableSchema], ordered: list[str]) -> list[str]:
    """Tables that one refers to which is written before them, or they themselves."""
    place = {name: i for i, name in enumerate(ordered)}
    children = [(table.name, fk.table) for table in tables.values() for fk in table.foreign_keys]
    early = {parent for child, parent in children if place[parent] >= place[child]}
    return [name for name in ordered if name in early]
