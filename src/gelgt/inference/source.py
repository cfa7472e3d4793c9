"""`open_for`: a source as a trained model knows it.

A model reads the tables, columns, keys, times and kinds of `schema.json` and nothing else. What is
missing or has become something else is an error that names it; what is new is left out, with a
notice, so that it cannot change a prediction. Table and relation ids follow the order of the run's
schema. Sources that declare or infer their schema (SQL, files, frames) are opened with the run's
own keys and times, so that nothing is guessed again from newer rows, and tables that the model does
not know are not read.
"""

from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError
from gelgt.inference.drift import Opened, about_tables, restrict
from gelgt.runs.folder import Run
from gelgt.schema.manifest import dating_entry
from gelgt.schema.model import DatabaseSchema, Dating, TableSchema
from gelgt.sources import open
from gelgt.sources.address import HUB, absolute_source
from gelgt.sources.database import Database
from gelgt.sources.hub import is_hub_address
from gelgt.sources.registry import open_recorded, relbench_folder
from gelgt.sources.relbench_folder import is_relbench_folder
from gelgt.storage.place import is_storage


def open_for(run: Run, source: Any, *, namespace: str | None = None, fresh: bool = False) -> Opened:
    """Open a source for the predictions of a run.

    Args:
        run: The run.
        source: A `Database`, or anything that `gelgt.open` takes; None is where the run was
            trained.
        namespace: The schema of a SQL database.
        fresh: Read the source again even if it has not changed since its import.

    Raises:
        GelgtError: ``missing_table``, ``missing_column``, ``changed_type``, ``changed_key``, or the
            source cannot be read.
    """
    if source is None:
        return _open_own(run, namespace, fresh)
    if isinstance(source, Opened):
        return source
    if isinstance(source, Database):
        return restrict(run.schema, source)
    if _is_folder(source):
        return restrict(run.schema, open(source, fresh=fresh))
    if not fresh:
        trained = open_recorded(source, namespace)
        if trained is not None and trained.schema == run.schema:
            # the import, and maybe the graph, of the training
            return Opened(trained, tuple(about_tables(list(trained.unread_tables))))
    try:
        db = open(
            source,
            schema=stated(run.schema),
            tables=list(run.schema.tables),
            namespace=namespace,
            fresh=fresh,
        )
    except GelgtError as error:
        raise _missing(error) from None
    opened = restrict(run.schema, db)
    return Opened(opened.db, (*about_tables(list(db.unread_tables)), *opened.notices))


def default_source(run: Run) -> str:
    """The address that a run was trained on.

    Raises:
        GelgtError: it was trained on frames in memory.
    """
    address = run.record.data.source
    if not address or address == "frames":
        raise GelgtError(
            "no_source",
            "The run was trained on frames in memory.",
            hint="Give them again, or another source.",
        )
    return address


def _open_own(run: Run, namespace: str | None, fresh: bool) -> Opened:
    """The source that a run was trained on; where that fails, what to do about it."""
    kept = default_source(run)
    place = str(absolute_source(kept))
    try:
        opened = open_for(run, place, namespace=namespace, fresh=fresh)
    except GelgtError as error:
        if error.code not in ("cannot_open", "not_found", "unknown_file", "not_cached"):
            raise
        hint = "This is where the run was trained; give its place now (--source)."
        if error.code == "cannot_open":
            hint = (
                "A run does not keep passwords: give the address with its password (--source), "
                "or set PGPASSWORD for PostgreSQL."
            )
        raise GelgtError(error.code, error.message, hint=hint) from None
    if place in (kept, HUB + kept):
        return opened
    notice = (
        f"The run kept the source as '{kept}', which from this folder is {place}; if it is "
        "another, give its place (--source)."
    )
    return Opened(opened.db, (notice, *opened.notices))


def stated(schema: DatabaseSchema) -> dict[str, Any]:
    """A schema in the form of `gelgt.open(schema=…)`.

    Kinds that were inferred stay out: they would change how text columns are read, and `restrict`
    puts the run's in place anyway.
    """
    tables: dict[str, Any] = {}
    for name, table in schema.tables.items():
        entry: dict[str, Any] = {
            "pkey": list(table.primary_key.columns) if table.primary_key else None,
            "time_col": table.time_col,
        }
        fkeys = _stated_fkeys(table, schema)
        if fkeys is not None:
            entry["fkeys"] = fkeys
            if table.foreign_keys or table.dating is not None:
                entry["dated_by"] = dating_entry(table.dating or Dating())
        entry["event_dates"] = {
            date.column: {"filled": dict(date.filled)} for date in table.event_dates or ()
        }
        chosen = {
            c: k for c, k in table.kinds.items() if k.origin == "manifest" and k.kind != "ignored"
        }
        entry["kinds"] = {
            c: {"kind": k.kind, "separator": k.separator} if k.separator else k.kind
            for c, k in chosen.items()
        }
        tables[name] = entry
    if schema.val_timestamp is None or schema.test_timestamp is None:
        return tables
    return {
        "val_timestamp": schema.val_timestamp,
        "test_timestamp": schema.test_timestamp,
        "tables": tables,
    }


def _stated_fkeys(table: TableSchema, schema: DatabaseSchema) -> dict[str, str] | None:
    """Foreign keys as a statement; None where they cannot be put so (two keys of one column), and
    the source has to declare them."""
    targets: dict[str, str] = {}
    for fk in table.foreign_keys:
        parent = schema.tables[fk.table].primary_key
        column, target = "+".join(fk.columns), fk.table
        if fk.referred and (parent is None or fk.referred != parent.columns):
            if len(fk.referred) > 1 or "." in fk.referred[0]:
                return None
            target = f"{fk.table}.{fk.referred[0]}"
        if column in targets:
            return None
        targets[column] = target
    return targets


def _is_folder(source: Any) -> bool:
    """Whether a source is a RelBench folder, whose manifest states its keys."""
    if not isinstance(source, (str, Path)):
        return False
    if is_storage(source):
        return relbench_folder(source) is not None
    path = Path(source).expanduser()
    return (
        is_relbench_folder(path)
        if "://" not in str(source) and path.exists()
        else is_hub_address(str(source))
    )


def _missing(error: GelgtError) -> GelgtError:
    """What the import says about a table or column that the run states, in terms of the run."""
    codes = {"unknown_table": "missing_table", "unknown_column": "missing_column"}
    if error.code not in codes:
        return error
    what = error.message.removeprefix("schema: ")
    return GelgtError(
        codes[error.code],
        f"{what[0].upper()}{what[1:]} The model was trained with it.",
        hint=f"{error.hint} Rename it back, or train again.",
    )
