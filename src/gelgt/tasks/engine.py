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
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gelgt.errors import TaskError, did_you_mean
from gelgt.sources.cache import scratch_folder
from gelgt.sources.duckdb_engine import limits
from gelgt.tasks.split import Times
from gelgt.tasks.sql_text import TIMEDELTA, quote
from gelgt.tasks.views import create_views, parquet_files

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database

RESULT = "gelgt_labels"
BATCH_ROWS = 1 << 17
_WRITES = re.compile(rb"(insert|update|delete|merge|copy|truncate)\b", re.IGNORECASE)
SECONDS = "GELGT_SQL_SECONDS"  # in the environment: after which label SQL is stopped
_SECONDS = 3600.0  # minutes are normal for large tables; what never ends is stopped


class Engine:
    """A DuckDB connection that sees one database, up to a time if one is given."""

    def __init__(self, con: Any, tables: list[str]) -> None:
        self._con = con
        self._tables = tables

    def run(self, sql: str, times: Times, timedelta: pd.Timedelta | None = None) -> dict[str, str]:
        """Run a query for some seed times; the result stays in DuckDB. Returns its columns and
        their types."""
        if timedelta is not None:
            sql = sql.replace(TIMEDELTA, str(timedelta))
        statement = self._single_select(sql)
        seed_times = pa.array(np.unique(times), pa.timestamp("us"))
        self._con.register("gelgt_times", pa.table({"timestamp": seed_times}))
        self._con.execute(
            "CREATE OR REPLACE TEMP TABLE timestamps AS SELECT timestamp FROM gelgt_times ORDER "
            "BY timestamp"
        )
        self._con.unregister("gelgt_times")
        self._execute(f"CREATE OR REPLACE TEMP TABLE {RESULT} AS {statement}")
        return {row[0]: row[1] for row in self._con.execute(f"DESCRIBE {RESULT}").fetchall()}

    def count(self, condition: str) -> int:
        """How many rows of the last result fulfil a condition."""
        result = self._con.execute(f"SELECT count(*) FROM {RESULT} WHERE {condition}")
        return int(result.fetchall()[0][0])

    def batches(self, columns: Mapping[str, str], condition: str) -> Iterator[pa.RecordBatch]:
        """Rows of the last result, `columns` giving an expression for each name."""
        chosen = ", ".join(f"{expression} AS {quote(name)}" for name, expression in columns.items())
        relation = self._con.sql(f"SELECT {chosen} FROM {RESULT} WHERE {condition}")
        # DuckDB 2 renamed the method.
        is_new = hasattr(relation, "to_arrow_reader")
        read = relation.to_arrow_reader if is_new else relation.fetch_arrow_reader
        yield from read(BATCH_ROWS)

    def _single_select(self, sql: str) -> str:
        import duckdb

        try:
            statements = self._con.extract_statements(sql)
        except duckdb.Error as error:
            raise self._failed(error) from None
        is_select = len(statements) == 1 and statements[0].type == duckdb.StatementType.SELECT
        if not is_select or _has_writing_part(sql):
            raise TaskError(
                "bad_sql",
                "The label SQL must be one SELECT statement.",
                hint="Leave out everything else.",
            )
        return re.sub(r"[;\s]+$", "", str(statements[0].query))

    def _execute(self, sql: str) -> None:
        import duckdb

        timer = Timer(seconds := _seconds(), self._con.interrupt)
        timer.daemon = True
        timer.start()
        try:
            self._con.execute(sql)
        except duckdb.InterruptException:
            raise TaskError(
                "slow_sql",
                f"The label SQL took more than {seconds:,.0f} seconds and was stopped.",
                hint=f"Make it cheaper, ask for fewer seed times, or set {SECONDS} to more.",
            ) from None
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise TaskError(
                "cannot_write",
                f"The labels need more memory or disk than there is: {error}",
                hint="Free space in the folder for temporary files (TMPDIR), or ask for fewer seed "
                "times (--eval-timestamps).",
            ) from None
        except duckdb.Error as error:
            raise self._failed(error) from None
        finally:
            timer.cancel()

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
        until: Rows after it do not exist for the SQL (`views.py`).
        numbered: A table without a primary key that gets its row numbers as a column `primary_key`.
    """
    duckdb = _duckdb()
    _check_names(db)
    # what a killed process has spilled, the next one removes
    with scratch_folder(Path(tempfile.gettempdir()), "gelgt-sql") as spill:
        con = duckdb.connect(
            config={
                "temp_directory": str(spill),
                "preserve_insertion_order": "false",
                **_limits(),
            }
        )
        try:
            con.execute("SET TimeZone = 'UTC'")
            create_views(con, db, until, numbered)
            allowed = ", ".join(file for name in db.table_names for file in parquet_files(db, name))
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


def _has_writing_part(sql: str) -> bool:
    """Whether a table expression of a SELECT writes: WITH x AS (DELETE FROM …) SELECT …"""
    import duckdb

    tokens = [t for t in duckdb.tokenize(sql) if t[1] != duckdb.token_type.comment]
    text = sql.encode()  # places are counted in bytes
    return any(
        text[before : before + 1] == b"(" and _WRITES.match(text, place) is not None
        for (before, _), (place, _) in pairwise(tokens)
    )


def _seconds() -> float:
    """How long label SQL may take."""
    try:
        return max(0.001, float(os.environ.get(SECONDS) or _SECONDS))
    except ValueError:
        return _SECONDS


def _limits() -> dict[str, Any]:
    """At most a quarter of the machine's memory or 2 GB, whichever is more: the caller needs memory
    too."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # unknown to this system
        total = 0
    return limits(max(total // 4, 2 * 10**9))


def has_engine() -> bool:
    """Whether DuckDB is installed, without which labels can be read but not made."""
    return find_spec("duckdb") is not None


def tables_read(db: Database, sql: str, timedelta: pd.Timedelta | None = None) -> list[str]:
    """The tables of a database that some SQL reads; none where DuckDB is missing or cannot parse
    it."""
    if not has_engine():
        return []
    import duckdb

    try:
        with duckdb.connect() as con:
            names = con.get_table_names(sql.replace(TIMEDELTA, str(timedelta)))
    except duckdb.Error:
        return []
    read = {name.lower() for name in names}
    return [name for name in db.table_names if name.lower() in read]


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError:
        raise TaskError(
            "no_duckdb",
            "Labels have to be made, but the package duckdb is missing.",
            hint="pip install duckdb, or save the task where it is installed.",
        ) from None
    return duckdb


def _check_names(db: Database) -> None:
    """DuckDB ignores case: names that differ only in case would stand for each other."""
    checked = {"tables": ["timestamps", *db.table_names]}
    checked |= {f"columns of '{t}'": list(db.table(t).columns) for t in db.table_names}
    for what, names in checked.items():
        seen: dict[str, str] = {}
        for name in names:
            other = seen.setdefault(name.lower(), name)
            if other is not name:
                raise TaskError(
                    "ambiguous_names",
                    f"The {what} '{other}' and '{name}' differ only in case, which SQL ignores.",
                    hint="Rename one of them.",
                )


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
