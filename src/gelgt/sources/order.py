"""Sorts rows and turns keys into row numbers.

Rows are sorted by (time, key, all columns) with null times last, so the rows up to a time come
first and the numbering of earlier rows does not depend on later ones. One DuckDB query a table
joins the parents' row numbers and sorts, on disk where memory is short.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.errors import some
from gelgt.schema.kinds import Sampler, infer_kind
from gelgt.schema.model import Finding, ForeignKey, TableSchema
from gelgt.sources.canonical import STRINGS, canonical_name
from gelgt.sources.check import referred_columns
from gelgt.sources.duckdb_engine import arrow_reader, literal
from gelgt.sources.probe import StagedProbe
from gelgt.sources.stage import SCRATCH

_SQL_TYPES = {
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "string": "VARCHAR",
    "timestamp": "TIMESTAMP",
    "list": "VARCHAR[]",
}


class TableWriter:
    """Writes resolved tables to a RelBench folder. Keys of all tables first (`write_keys`), then
    the rows (`write_rows`)."""

    def __init__(
        self,
        tables: Mapping[str, TableSchema],
        probe: StagedProbe,
        folder: Path,
        work: Path,
        val: str | None,
    ) -> None:
        self.tables = tables
        self.probe = probe
        self.folder = folder
        self.val = val
        self._lookups: dict[str, Path] = {
            name: work / f"keys-{probe.tables[name].path.stem}.parquet" for name in tables
        }
        (folder / "db").mkdir()
        (folder / "gelgt" / "keys").mkdir(parents=True)

    def write_keys(self, name: str) -> None:
        """Write key values in final row order: the user's keys to `gelgt/keys`, and a look-up (key
        columns, row) for the joins.

        The file of the user's keys is left out where they already are the row numbers.
        """
        table, columns = self.tables[name], self._key_columns(name)
        if not columns:
            return
        selected = ", ".join(f"{self.probe.value(name, c)} AS k{i}" for i, c in enumerate(columns))
        query = f"SELECT {selected} FROM {self.probe.relation(name)} ORDER BY {self._order(table)}"
        reader = arrow_reader(self.probe.connection, query)
        key = table.primary_key.columns if table.primary_key else ()
        key_schema = pa.schema([pa.field(c, t.type) for c, t in zip(key, reader.schema)])
        lookup_schema = reader.schema.append(pa.field("row", pa.int64()))
        path = self.folder / "gelgt" / "keys" / f"{name}.parquet"
        row, is_numbered = 0, len(key) <= 1
        with (
            pq.ParquetWriter(self._lookups[name], lookup_schema, **SCRATCH) as lookup,
            pq.ParquetWriter(path, key_schema) as keys,
        ):
            for batch in reader:
                numbers = np.arange(row, row + batch.num_rows)
                lookup.write_batch(batch.append_column("row", pa.array(numbers)))
                if key:
                    values = batch.columns[: len(key)]
                    keys.write_batch(pa.RecordBatch.from_arrays(values, schema=key_schema))
                    is_numbered = is_numbered and _are_numbers(values[0], numbers)
                row += batch.num_rows
        if is_numbered:
            path.unlink()

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

    def write_rows(self, name: str) -> tuple[TableSchema, list[Finding]]:
        """Write one table in final form; returns its schema with kinds, and findings about its
        keys and numbers."""
        table, types = self.tables[name], self._types(name)
        features = [c for c in types if c not in table.key_columns]
        sampler = Sampler(self._rows_until_validation(table))
        dangling = [0] * len(table.foreign_keys)
        row, schema = 0, pa.schema([pa.field(c, arrow) for c, arrow in types.items()])
        # numbers gain little from a dictionary and cost much
        texts = [c for c in features if types[c] in (pa.string(), STRINGS)]
        path = self.folder / "db" / f"{name}.parquet"
        with pq.ParquetWriter(path, schema, use_dictionary=texts) as writer:
            for batch in arrow_reader(self.probe.connection, self._query(table)):
                out = self._final_batch(table, batch, schema, row)
                writer.write_batch(out)
                sampler.add(out.select(features))
                for j in range(len(dangling)):
                    dangling[j] += pc.sum(batch.column(f"d{j}")).as_py() or 0
                row += batch.num_rows
        kinds = {
            c: table.kinds.get(c) or infer_kind(c, sampler.column(c, types[c])) for c in features
        }
        columns = {c: canonical_name(arrow) for c, arrow in types.items()}
        return replace(table, columns=columns, kinds=kinds), self._findings(table, dangling)

    def _types(self, name: str) -> dict[str, pa.DataType]:
        """The final columns: the user's in their order, then those that gelgt adds for composite
        and shared keys."""
        table, staged = self.tables[name], self.probe.tables[name]
        keys = [*([table.pkey] if table.pkey else []), *(fk.column for fk in table.foreign_keys)]
        return {
            c: pa.int64() if c in table.key_columns else staged.columns[c].type
            for c in dict.fromkeys([*staged.columns, *keys])
        }

    def _final_batch(
        self, table: TableSchema, batch: pa.RecordBatch, schema: pa.Schema, row: int
    ) -> pa.RecordBatch:
        """A batch of `_query` with the final columns; its first row has the number `row`."""
        staged = self.probe.tables[table.name].columns
        parents = {fk.column: f"p{j}" for j, fk in enumerate(table.foreign_keys)}
        arrays = []
        for field in schema:
            if field.name == table.pkey:
                arrays.append(pa.array(np.arange(row, row + batch.num_rows)))
            else:
                name = parents.get(field.name) or staged[field.name].stored
                arrays.append(batch.column(name).cast(field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _query(self, table: TableSchema) -> str:
        staged = self.probe.tables[table.name]
        replaced = {fk.column for fk in table.foreign_keys} | {table.pkey}
        selected = [
            f"s.{column.stored}" for c, column in staged.columns.items() if c not in replaced
        ]
        joins = []
        for j, fk in enumerate(table.foreign_keys):
            joins.append(self._join(table, fk, j))
            selected += [
                f"j{j}.row AS p{j}",
                f"CAST(({self._filled(table, fk)}) AND j{j}.row IS NULL AS BIGINT) AS d{j}",
            ]
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
            parent, value = self.probe.key_type(fk.table, key), f"s.{child.stored}"
            # Whole numbers stored as floats or as text still match their keys; what cannot be
            # converted dangles.
            if pa.types.is_floating(child.type) and parent == "int64":
                value = f"CASE WHEN {value} = floor({value}) THEN TRY_CAST({value} AS BIGINT) END"
            elif canonical_name(child.type) != parent:
                value = f"TRY_CAST({value} AS {_SQL_TYPES[parent]})"
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

    def _findings(self, table: TableSchema, dangling: list[int]) -> list[Finding]:
        keys = enumerate(zip(table.foreign_keys, dangling))
        findings = [self._dangling(table, fk, j, count) for j, (fk, count) in keys if count]
        for name, column in self.probe.tables[table.name].columns.items():
            if column.non_finite:
                message = "NaN or infinite values count as missing"
                count = column.non_finite
                findings.append(Finding("non_finite", table.name, name, count, message))
        return findings

    def _dangling(self, table: TableSchema, fk: ForeignKey, j: int, count: int) -> Finding:
        staged = self.probe.tables[table.name].columns
        values = ", ".join(f"s.{staged[c].stored}" for c in fk.columns)
        lost = f"{self._filled(table, fk)} AND j{j}.row IS NULL"
        rows = f"{self.probe.relation(table.name)} AS s {self._join(table, fk, j)}"
        distinct = self.probe.all(
            f"SELECT DISTINCT {values} FROM {rows} WHERE {lost} ORDER BY ALL LIMIT 6"
        )
        examples = [row[0] if len(fk.columns) == 1 else row for row in distinct]
        message = f"no such row in '{fk.table}': {some(examples)}; kept as null"
        return Finding("dangling_key", table.name, fk.column, count, message)


def _are_numbers(keys: pa.Array, numbers: NDArray[np.int64]) -> bool:
    """Whether keys are the row numbers."""
    return pa.types.is_int64(keys.type) and np.array_equal(
        keys.to_numpy(zero_copy_only=False), numbers
    )
