"""Puts rows in order and turns keys into row numbers.

Order is (time, key, all columns) with null times last, so the rows up to a time are always a prefix
and the numbering of earlier rows does not depend on later ones. One DuckDB query a table joins the
parents' row numbers and sorts, out of core.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
        """Write key values in final row order: the user's own to `gelgt/keys`, and a look-up (key
        columns, row) for the joins.

        The user's file is left out where the keys already are the row numbers.
        """
        table, wanted = self.tables[name], self._key_columns(name)
        if not wanted:
            return
        selected = ", ".join(f"{self.probe.value(name, c)} AS k{i}" for i, c in enumerate(wanted))
        reader = arrow_reader(
            self.probe.connection,
            f"SELECT {selected} FROM {self.probe.relation(name)} ORDER BY {self._order(table)}",
        )
        own = table.primary_key.columns if table.primary_key else ()
        own_schema = pa.schema(
            [pa.field(c, reader.schema.field(i).type) for i, c in enumerate(own)]
        )
        path = self.folder / "gelgt" / "keys" / f"{name}.parquet"
        row, is_numbered = 0, len(own) == 1
        with (
            pq.ParquetWriter(
                self._lookups[name], reader.schema.append(pa.field("row", pa.int64())), **SCRATCH
            ) as lookup,
            pq.ParquetWriter(path, own_schema) as keys,
        ):
            for batch in reader:
                numbers = np.arange(row, row + batch.num_rows)
                lookup.write_batch(batch.append_column("row", pa.array(numbers)))
                if own:
                    keys.write_batch(
                        pa.RecordBatch.from_arrays(batch.columns[: len(own)], schema=own_schema)
                    )
                    first = batch.column(0)
                    is_numbered = (
                        is_numbered
                        and pa.types.is_int64(first.type)
                        and np.array_equal(first.to_numpy(zero_copy_only=False), numbers)
                    )
                row += batch.num_rows
        if is_numbered or not own:
            path.unlink()

    def _key_columns(self, name: str) -> list[str]:
        """Own key columns first, then every column that another table refers to."""
        table = self.tables[name]
        wanted = list(table.primary_key.columns) if table.primary_key else []
        for other in self.tables.values():
            for fk in other.foreign_keys:
                if fk.table == name:
                    wanted += [c for c in referred_columns(fk, table) if c not in wanted]
        return wanted

    def _order(self, table: TableSchema, prefix: str = "") -> str:
        staged = self.probe.tables[table.name]
        own = list(table.primary_key.columns) if table.primary_key else list(staged.columns)
        ordered = [
            *([table.time_col] if table.time_col else []),
            *(c for c in own if c != table.time_col),
        ]
        return ", ".join(f"{prefix}{staged.columns[c].stored} NULLS LAST" for c in ordered)

    def write_rows(self, name: str) -> tuple[TableSchema, list[Finding]]:
        """Write one table in final form; returns its schema with kinds, and what was noticed on the
        way."""
        table, staged = self.tables[name], self.probe.tables[name]
        # The user's columns in their order, then those that only gelgt needs (composite and shared
        # keys).
        stored = {fk.column: f"p{j}" for j, fk in enumerate(table.foreign_keys)}
        columns = list(
            dict.fromkeys([*staged.columns, *([table.pkey] if table.pkey else []), *stored])
        )
        types = {
            c: pa.int64() if c in table.key_columns else staged.columns[c].type for c in columns
        }
        features = [c for c in columns if c not in table.key_columns]
        sampler = Sampler(self._rows_until_validation(table))
        dangling = [0] * len(table.foreign_keys)
        row, schema = 0, pa.schema([pa.field(c, arrow) for c, arrow in types.items()])
        # numbers gain little from a dictionary and cost much
        texts = [c for c in features if types[c] in (pa.string(), STRINGS)]
        with pq.ParquetWriter(
            self.folder / "db" / f"{name}.parquet", schema, use_dictionary=texts
        ) as writer:
            for batch in arrow_reader(self.probe.connection, self._query(table)):
                arrays = []
                for c in columns:
                    if c == table.pkey:
                        arrays.append(pa.array(np.arange(row, row + batch.num_rows)))
                    else:
                        arrays.append(
                            batch.column(
                                stored[c] if c in stored else staged.columns[c].stored
                            ).cast(types[c])
                        )
                for j in range(len(dangling)):
                    dangling[j] += pc.sum(batch.column(f"d{j}")).as_py() or 0
                out = pa.RecordBatch.from_arrays(arrays, schema=schema)
                writer.write_batch(out)
                sampler.add(out.select(features))
                row += batch.num_rows
        kinds = {
            c: table.kinds.get(c) or infer_kind(c, sampler.column(c, types[c])) for c in features
        }
        done = replace(
            table, columns={c: canonical_name(arrow) for c, arrow in types.items()}, kinds=kinds
        )
        return done, self._findings(table, dangling)

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
        return (
            f"SELECT {', '.join(selected) or '1'} FROM {rows} ORDER BY {self._order(table, 's.')}"
        )

    def _filled(self, table: TableSchema, fk: ForeignKey) -> str:
        return " AND ".join(
            f"s.{self.probe.tables[table.name].columns[c].stored} IS NOT NULL" for c in fk.columns
        )

    def _join(self, table: TableSchema, fk: ForeignKey, j: int) -> str:
        positions = {c: i for i, c in enumerate(self._key_columns(fk.table))}
        terms = []
        for c, key in zip(fk.columns, referred_columns(fk, self.tables[fk.table])):
            child, parent = (
                self.probe.tables[table.name].columns[c],
                self.probe.key_type(fk.table, key),
            )
            value = f"s.{child.stored}"
            # Whole numbers kept as floats or as text still meet their keys; what cannot be
            # converted dangles.
            if pa.types.is_floating(child.type) and parent == "int64":
                value = f"CASE WHEN {value} = floor({value}) THEN TRY_CAST({value} AS BIGINT) END"
            elif canonical_name(child.type) != parent:
                value = f"TRY_CAST({value} AS {_SQL_TYPES[parent]})"
            terms.append(f"j{j}.k{positions[key]} = {value}")
        return (
            f"LEFT JOIN read_parquet({literal(self._lookups[fk.table])}) AS j{j} ON "
            f"{' AND '.join(terms)}"
        )

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
        staged = self.probe.tables[table.name]
        found = []
        for j, (fk, count) in enumerate(zip(table.foreign_keys, dangling)):
            if count:
                values = ", ".join(f"s.{staged.columns[c].stored}" for c in fk.columns)
                lost = f"{self._filled(table, fk)} AND j{j}.row IS NULL"
                rows = f"{self.probe.relation(table.name)} AS s {self._join(table, fk, j)}"
                distinct = self.probe.all(
                    f"SELECT DISTINCT {values} FROM {rows} WHERE {lost} ORDER BY ALL LIMIT 6"
                )
                examples = [row[0] if len(fk.columns) == 1 else row for row in distinct]
                found.append(
                    Finding(
                        "dangling_key",
                        table.name,
                        fk.column,
                        count,
                        f"no such row in '{fk.table}': {some(examples)}; kept as null",
                    )
                )
        for name, column in staged.columns.items():
            if column.non_finite:
                found.append(
                    Finding(
                        "non_finite",
                        table.name,
                        name,
                        column.non_finite,
                        "NaN or infinite values count as missing",
                    )
                )
        return found
