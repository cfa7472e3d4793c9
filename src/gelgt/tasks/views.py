"""The tables of a database as views for label SQL, cut at a time.

Rows after the time do not exist for the SQL, and references to them are null. A row whose time is
not known stays: no window holds it, but what names it counts the same in every split. (RelBench
leaves it out where it cuts, and so do the views of its folders.) Rows with a time column are sorted
by it; rows that others date (`sources/row_times.py`) are in no order of time, and their times are
laid beside them in a relation (row, time).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.sources.duckdb_engine import numbered
from gelgt.sources.readable import parquet_schema
from gelgt.sources.row_times import NEVER, RowTimes
from gelgt.tasks.sql_text import ROW_NUMBER, quote, text_literal, time_literal

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database


def create_views(con: Any, db: Database, until: pd.Timestamp | None, numbered: str | None) -> None:
    """Create a view for each table by its name, of the rows up to `until`.

    `numbered` is a table without a primary key that gets its row numbers as a column.
    """
    columns = {name: _columns(db, name) for name in db.table_names}
    _date_rows(con, db)
    undated = not db.schema.is_relbench
    exists = {name: rows_until(db, name, until, undated=undated) for name in db.table_names}
    for name in db.table_names:
        con.execute(_view(db, name, columns[name], exists, until, name == numbered))


def _date_rows(con: Any, db: Database) -> None:
    """Create a relation (row, time) for every table whose rows are dated by others."""
    times = RowTimes(db)
    for name in db.table_names:
        if db.table(name).is_dated:
            moments = times.of(name)
            column = pa.array(moments, mask=moments == NEVER).cast(pa.timestamp("us"))
            relation = pa.table({"row": np.arange(len(moments)), "time": column})
            con.register("gelgt_moments", relation)
            con.execute(
                f"CREATE TEMP TABLE {_dates(db, name)} AS SELECT row, time FROM gelgt_moments"
            )
            con.unregister("gelgt_moments")


def _dates(db: Database, table: str) -> str:
    return f"gelgt_dates_{db.table_names.index(table)}"


def rows_until(db: Database, table: str, until: Any, *, undated: bool = False) -> str:
    """The condition, on a row number `{row}`, that a row exists at a time (None: at any); for use
    with `str.format`.

    Rows with a time column are ordered by it, those without a time last.

    Args:
        db: The database.
        table: The table.
        until: The time.
        undated: Whether rows count as existing whose time is not known.
    """
    schema, rows = db.table(table), db.num_rows(table)
    if until is None or not schema.has_time:
        return f"{{row}} < {rows}"
    if schema.time_col is None:
        late = f"time > {time_literal(until)}" + " OR time IS NULL" * (not undated)
        gone = f"SELECT row FROM {_dates(db, table)} WHERE {late}"
        return f"({{row}} < {rows} AND {{row}} NOT IN ({gone}))"
    limit = pa.scalar(np.datetime64(until, "us"))
    early, nulls = 0, 0
    for batch in db.batches(table, [schema.time_col]):
        early += int(pc.sum(pc.less_equal(batch.column(0), limit)).as_py() or 0)
        nulls += batch.column(0).null_count
    if not (nulls and undated):
        return f"{{row}} < {early}"
    return f"({{row}} < {early} OR {{row}} BETWEEN {rows - nulls} AND {rows - 1})"


def lists_until(db: Database, table: str, until: Any) -> str:
    """The rows of a list `{rows}` that exist at a time; for use with `str.format`. DuckDB takes no
    subquery inside a comprehension."""
    if not db.table(table).is_dated:
        condition = rows_until(db, table, until).format(row="x")
        return f"[x FOR x IN {{rows}} IF {condition}]"
    existing = f"SELECT list(row) FROM {_dates(db, table)} WHERE time <= {time_literal(until)}"
    return f"list_intersect({{rows}}, ({existing}))"


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
    references = {
        column: f"CASE WHEN {condition.format(row=name)} THEN {name} END"
        for column, (name, condition) in keys.items()
    }
    chosen = [
        f"{references.get(name, expression)} AS {quote(name)}"
        for name, expression in columns.items()
    ]
    number = "file_row_number"
    is_cut = until is not None and schema.is_dated
    if is_numbered:
        chosen.append(f"{number} AS {ROW_NUMBER}")
    source = _rows(db, table)
    if is_numbered or is_cut:
        source = numbered([path.resolve() for path in db.paths(table)])
    select = f"SELECT {', '.join(chosen) or '1'} FROM {source}"
    text = f"CREATE VIEW {quote(table)} AS {select}"
    if is_cut:
        text += f" WHERE {exists[table].format(row=number)}"
    elif until is not None and schema.time_col is not None:
        time = columns[schema.time_col]
        text += f" WHERE {time} <= {time_literal(until)}"
        if not db.schema.is_relbench:
            text += f" OR {time} IS NULL"
    return text


def _columns(db: Database, table: str) -> dict[str, str]:
    """The columns of a table as the SQL sees them."""
    arrow = parquet_schema(db.paths(table)[0])
    return {
        name: _column(name, canonical, arrow.field(name).type)
        for name, canonical in db.table(table).columns.items()
    }


def _column(column: str, canonical: str, arrow: pa.DataType) -> str:
    """Times in UTC without a zone, NaN as NULL (as RelBench's frames deliver it)."""
    name = quote(column)
    if canonical == "timestamp" and arrow != pa.timestamp("us"):
        # Two steps, because DuckDB cannot cast zoned nanoseconds in one.
        is_zoned = pa.types.is_timestamp(arrow) and arrow.tz is not None
        return f"CAST({f'CAST({name} AS TIMESTAMPTZ)' if is_zoned else name} AS TIMESTAMP)"
    if canonical == "float64" and pa.types.is_floating(arrow):
        # Not isnan(): DuckDB 2.0 takes it for false, because the statistics of a Parquet file leave
        # NaN out.
        return f"CASE WHEN isfinite({name}) OR isinf({name}) THEN {name} END"
    return f"CAST({name} AS DOUBLE)" if canonical == "float64" else name


def parquet_files(db: Database, table: str) -> list[str]:
    """The paths of a table's files, as SQL strings."""
    return [text_literal(str(path.resolve())) for path in db.paths(table)]


def _rows(db: Database, table: str) -> str:
    return f"read_parquet([{', '.join(parquet_files(db, table))}], hive_partitioning = false)"
