"""Runs label SQL in DuckDB, in the environment that RelBench gives it.

Every table is a view by its name over its Parquet file, `timestamps(timestamp)` holds the seed
times and `{timedelta}` the window. Two things differ from RelBench, neither of them in the result:
rows are read from the files as they are needed (a table of any size works), and the SQL can reach
nothing but those views: one SELECT, no other file, no network, no change of settings.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gelgt.errors import TaskError, did_you_mean
from gelgt.sources.row_times import NEVER, RowTimes
from gelgt.tasks.split import Times
from gelgt.tasks.sql_text import ROW_NUMBER, quote, text_literal, time_literal

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database

RESULT = "gelgt_labels"
BATCH_ROWS = 1 << 17


class Engine:
    """A DuckDB connection that sees one database, up to a time if one is given."""

    def __init__(self, con: Any, tables: list[str]) -> None:
        self._con = con
        self._tables = tables

    def run(self, sql: str, times: Times, timedelta: pd.Timedelta | None = None) -> dict[str, str]:
        """Run a query for some seed times; the result stays in DuckDB. Returns its columns and
        their types."""
        statement = self._single_select(
            sql.replace("{timedelta}", str(timedelta)) if timedelta is not None else sql
        )
        self._con.register(
            "gelgt_times", pa.table({"timestamp": pa.array(np.unique(times), pa.timestamp("us"))})
        )
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE timestamps AS SELECT timestamp FROM gelgt_times ORDER "
            "BY timestamp"
        )
        self._con.unregister("gelgt_times")
        self._execute(f"CREATE OR REPLACE TEMP TABLE {RESULT} AS {statement}")
        return {row[0]: row[1] for row in self._con.execute(f"DESCRIBE {RESULT}").fetchall()}

    def count(self, condition: str) -> int:
        """How many rows of the last result fulfil a condition."""
        return int(
            self._con.execute(f"SELECT count(*) FROM {RESULT} WHERE {condition}").fetchall()[0][0]
        )

    def batches(self, columns: Mapping[str, str], condition: str) -> Iterator[pa.RecordBatch]:
        """Rows of the last result, `columns` giving an expression for each name."""
        chosen = ", ".join(f"{expression} AS {quote(name)}" for name, expression in columns.items())
        relation = self._con.sql(f"SELECT {chosen} FROM {RESULT} WHERE {condition}")
        # DuckDB 2 renamed the method.
        reader = (
            relation.to_arrow_reader(BATCH_ROWS)
            if hasattr(relation, "to_arrow_reader")
            else relation.fetch_arrow_reader(BATCH_ROWS)
        )
        yield from reader

    def _single_select(self, sql: str) -> str:
        import duckdb

        try:
            statements = self._con.extract_statements(sql)
        except duckdb.Error as error:
            raise self._failed(error) from None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise TaskError(
                "bad_sql",
                "The label SQL must be one SELECT statement.",
                hint="Leave out everything else.",
            )
        return re.sub(r"[;\s]+$", "", str(statements[0].query))

    def _execute(self, sql: str) -> None:
        import duckdb

        try:
            self._con.execute(sql)
        except duckdb.Error as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> TaskError:
        tables = ", ".join(quote(t) for t in self._tables)
        return TaskError(
            "bad_sql",
            f"DuckDB rejects the label SQL: {error}",
            hint=f"It may use timestamps(timestamp) and the tables {tables}.",
        )


@contextmanager
def engine(
    db: Database, until: pd.Timestamp | None = None, numbered: str | None = None
) -> Iterator[Engine]:
    """An engine over the rows up to `until` (all rows if None).

    Args:
        db: The database.
        until: Rows after it do not exist for the SQL, and references to them are null.
        numbered: A table without a primary key that gets its row numbers as a column `primary_key`.
    """
    duckdb = _duckdb()
    _check_names(db)
    with tempfile.TemporaryDirectory(prefix="gelgt-sql-") as spill:
        con = duckdb.connect(
            config={
                "temp_directory": spill,
                "preserve_insertion_order": "false",
                "memory_limit": _memory_limit(),
            }
        )
        try:
            con.execute("SET TimeZone = 'UTC'")
            columns = {name: _columns(db, name) for name in db.table_names}
            _date_rows(con, db)
            exists = {name: rows_until(db, name, until) for name in db.table_names}
            for name in db.table_names:
                con.execute(_view(db, name, columns[name], exists, until, name == numbered))
            allowed = ", ".join(_file(db, name) for name in db.table_names)
            for setting in (
                "python_enable_replacements = false",
                f"allowed_paths = [{allowed}]",
                "enable_external_access = false",
                "lock_configuration = true",
            ):
                con.execute(f"SET {setting}")
            yield Engine(con, db.table_names)
        finally:
            con.close()


def _memory_limit() -> str:
    """A quarter of the machine, at least 2 GB: above it DuckDB works on disk, and the caller has
    tables of its own to hold."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        whole = 0
    return f"{max(whole // 4, 2 * 10**9) // 10**6}MB"


def has_engine() -> bool:
    """Whether labels can be made here; a machine that only trains on tables of labels may do
    without DuckDB."""
    return find_spec("duckdb") is not None


def tables_read(db: Database, sql: str, timedelta: pd.Timedelta | None = None) -> list[str]:
    """The tables of a database that some SQL reads; none where DuckDB is missing or cannot parse
    it."""
    if not has_engine():
        return []
    import duckdb

    try:
        with duckdb.connect() as con:
            names = con.get_table_names(sql.replace("{timedelta}", str(timedelta)))
    except duckdb.Error:
        return []
    known = {name.lower() for name in names}
    return [name for name in db.table_names if name.lower() in known]


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise TaskError(
            "no_duckdb",
            "Labels have to be made, but the package duckdb is missing.",
            hint="pip install duckdb, or save the task elsewhere.",
        ) from None
    return duckdb


def _check_names(db: Database) -> None:
    """DuckDB ignores case: names that differ only in case would stand for each other."""
    for what, names in [("tables", ["timestamps", *db.table_names])] + [
        (f"columns of '{t}'", list(db.table(t).columns)) for t in db.table_names
    ]:
        seen: dict[str, str] = {}
        for name in names:
            other = seen.setdefault(name.lower(), name)
            if other is not name:
                raise TaskError(
                    "ambiguous_names",
                    f"The {what} '{other}' and '{name}' have the same name for label SQL, which "
                    "ignores case.",
                    hint="Rename one of them.",
                )


def _date_rows(con: Any, db: Database) -> None:
    """A relation (row, time) for every table whose rows are dated by others: they are in no order
    of time, and hold no time."""
    times = RowTimes(db)
    for name in db.table_names:
        if db.table(name).dating_keys:
            moments = times.of(name)
            known = pa.array(moments, mask=moments == NEVER).cast(pa.timestamp("us"))
            con.register("gelgt_moments", pa.table({"row": np.arange(len(moments)), "time": known}))
            con.execute(
                f"CREATE TEMP TABLE {_dates(db, name)} AS SELECT row, time FROM gelgt_moments"
            )
            con.unregister("gelgt_moments")


def _dates(db: Database, table: str) -> str:
    return f"gelgt_dates_{db.table_names.index(table)}"


def rows_until(db: Database, table: str, until: Any) -> str:
    """The condition, on a row number `{row}`, that a row exists at a time (None: at any); for use
    with `str.format`.

    Rows with a time column are ordered by it, so those up to a time are the first ones.
    """
    schema = db.table(table)
    if until is None or not schema.has_time:
        return f"{{row}} < {db.num_rows(table)}"
    if schema.time_col is None:
        late = (
            f"SELECT row FROM {_dates(db, table)} WHERE time IS NULL OR time > "
            f"{time_literal(until)}"
        )
        return f"({{row}} < {db.num_rows(table)} AND {{row}} NOT IN ({late}))"
    limit = pa.scalar(np.datetime64(until, "us"))
    count = sum(
        int(pc.sum(pc.less_equal(b.column(0), limit)).as_py() or 0)
        for b in db.batches(table, [schema.time_col])
    )
    return f"{{row}} < {count}"


def lists_until(db: Database, table: str, until: Any) -> str:
    """The rows of a list `{rows}` that exist at a time; for use with `str.format`. DuckDB takes no
    subquery inside a comprehension."""
    if until is None or not db.table(table).dating_keys:
        return f"[x FOR x IN {{rows}} IF {rows_until(db, table, until).format(row='x')}]"
    known = f"SELECT list(row) FROM {_dates(db, table)} WHERE time <= {time_literal(until)}"
    return f"list_intersect({{rows}}, ({known}))"


def _view(
    db: Database,
    table: str,
    columns: Mapping[str, str],
    exists: Mapping[str, str],
    until: pd.Timestamp | None,
    is_numbered: bool,
) -> str:
    schema = db.table(table)
    keys = {fk.column: (quote(fk.column), exists[fk.table]) for fk in schema.foreign_keys}
    known = {
        column: f"CASE WHEN {condition.format(row=name)} THEN {name} END"
        for column, (name, condition) in keys.items()
    }
    chosen = [
        f"{known.get(name, expression)} AS {quote(name)}" for name, expression in columns.items()
    ]
    source, number = _file(db, table), "file_row_number"
    is_cut = until is not None and bool(schema.dating_keys)
    if is_numbered:
        chosen.append(f"{number} AS {ROW_NUMBER}")
    if is_numbered or is_cut:
        source += ", file_row_number = true"
    text = (
        f"CREATE VIEW {quote(table)} AS SELECT {', '.join(chosen) or '1'} FROM "
        f"read_parquet({source})"
    )
    if is_cut:
        text += f" WHERE {exists[table].format(row=number)}"
    elif until is not None and schema.time_col is not None:
        text += f" WHERE {columns[schema.time_col]} <= {time_literal(until)}"
    return text


def _columns(db: Database, table: str) -> dict[str, str]:
    """The columns of a table as the SQL sees them."""
    arrow = pq.read_schema(db.path(table))
    return {
        name: _column(name, canonical, arrow.field(name).type)
        for name, canonical in db.table(table).columns.items()
    }


def _column(column: str, canonical: str, arrow: pa.DataType) -> str:
    """Times in UTC without a zone, NaN as NULL (as RelBench's frames deliver it)."""
    if canonical == "timestamp" and arrow != pa.timestamp("us"):
        # Two steps, because DuckDB cannot cast zoned nanoseconds in one.
        is_zoned = pa.types.is_timestamp(arrow) and arrow.tz is not None
        return (
            f"CAST(CAST({quote(column)} AS TIMESTAMPTZ) AS TIMESTAMP)"
            if is_zoned
            else f"CAST({quote(column)} AS TIMESTAMP)"
        )
    if canonical == "float64" and pa.types.is_floating(arrow):
        # Not isnan(): DuckDB 2.0 takes it for false, because the statistics of a Parquet file leave
        # NaN out.
        return (
            f"CASE WHEN isfinite({quote(column)}) OR isinf({quote(column)}) THEN "
            f"{quote(column)} END"
        )
    if canonical == "float64":
        return f"CAST({quote(column)} AS DOUBLE)"
    return quote(column)


def _file(db: Database, table: str) -> str:
    return text_literal(str(db.path(table).resolve()))


def find_column(columns: Mapping[str, str], name: str, role: str) -> str:
    """The result column of a name, ignoring case as SQL does."""
    for column in columns:
        if column.lower() == name.lower():
            return column
    raise TaskError(
        "unknown_column",
        f"The label SQL returns no column '{name}' ({role}).",
        hint=did_you_mean(name, columns),
    )
