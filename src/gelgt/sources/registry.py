"""`gelgt.open`: opens every kind of source. A new kind of source is one more entry in `OPENERS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gelgt.errors import SourceError, did_you_mean
from gelgt.sources.address import absolute_source, address_of, duckdb_path, sqlite_path
from gelgt.sources.database import Database
from gelgt.sources.raw import Source, Splits
from gelgt.sources.stated import read_stated
from gelgt.storage.place import check_local, is_storage

_ATTEMPTS = 3  # to read files that change meanwhile


def open(
    source: Any,
    *,
    schema: Mapping[str, Any] | str | Path | None = None,
    out: str | Path | None = None,
    tables: list[str] | None = None,
    namespace: str | None = None,
    fresh: bool = False,
) -> Database:
    """Open a database, whatever holds it.

    Args:
        source: A RelBench folder or name ("rel-f1"), a database URL ("postgresql://…", "mysql://…",
            "sqlite:///shop.db"), a SQLite or DuckDB file, a folder of CSV or Parquet files, one in
            object storage ("s3://bucket/prefix", "gs://…", "az://…"), or a dict of frames.
        schema: Keys, times and kinds to use instead of what is declared or inferred, as a mapping
            or a YAML file; see `gelgt.sources.stated`.
        out: Import to this new folder instead of the cache; a database of frames gets its name.
        tables: Read only these tables.
        namespace: The schema of a SQL database ("public", "sales").
        fresh: Read the source again even if it has not changed since its import.

    Returns:
        The database as a RelBench v3 folder.

    Raises:
        GelgtError: the source cannot be read, or its rows do not fit its keys.

    Example:
        >>> import pandas as pd
        >>> days = pd.date_range("2024-03-01", periods=3)
        >>> customers = pd.DataFrame({"id": [1, 2], "joined_at": days[:2]})
        >>> orders = pd.DataFrame({"id": [7, 8, 9], "customer_id": [1, 1, 2], "placed_at": days})
        >>> open({"customers": customers, "orders": orders})
        Database('frames': customers=2, orders=3)
    """
    from gelgt.sources.importer import import_source
    from gelgt.sources.relbench_folder import read_folder

    stated, source = read_stated(schema), absolute_source(source)
    folder = relbench_folder(source)
    if folder is not None and stated == ({}, None) and out is None and tables is None:
        database = read_folder(folder, address_of(source))
        if database.follows_contract:
            return database
    target = None if out is None else _local_folder(out)
    for attempt in range(_ATTEMPTS):
        try:
            opened, keys = _prepare(source, folder, stated, target, tables, namespace)
            imported = import_source(opened, target, keys, tables, fresh=fresh)
            break
        except SourceError as error:
            if error.code != "source_changed" or attempt + 1 == _ATTEMPTS:
                raise
    # the same rows may have been imported from another address before
    database = read_folder(imported.folder, address_of(source))
    database.unread_tables = imported.unread
    return database


def _local_folder(out: str | Path) -> Path:
    check_local(out, "An imported database")
    return Path(out).expanduser()


def open_recorded(source: Any, namespace: str | None = None) -> Database | None:
    """The database that the last `open` gave, whatever its options, where the source has not
    changed since; None otherwise, and for RelBench folders, which need no import."""
    from gelgt.sources.importer import recorded_import
    from gelgt.sources.relbench_folder import read_folder

    source = absolute_source(source)
    if relbench_folder(source) is not None:
        return None
    imported = recorded_import(_find(source, namespace))
    if imported is None:
        return None
    database = read_folder(imported.folder, address_of(source))
    database.unread_tables = imported.unread
    return database


def _prepare(
    source: Any,
    folder: Path | None,
    stated: tuple[dict[str, dict[str, Any]], Splits | None],
    out: Path | None,
    tables: list[str] | None,
    namespace: str | None,
) -> tuple[Source, dict[str, dict[str, Any]]]:
    """A source to import, or its RelBench folder to import again, and what to state about its
    tables."""
    from gelgt.sources.folder_import import folder_source

    opened: Source
    schema, splits = stated
    if folder is None:
        opened = _find(source, namespace)
    else:
        opened, schema = folder_source(folder, str(source), schema, tables)
    if splits is not None:
        opened.splits = splits
    if isinstance(source, Mapping) and out is not None:
        opened.name = out.resolve().name  # frames have no name
    return opened, schema


def relbench_folder(source: Any) -> Path | None:
    """The local RelBench folder that a source names: a path, or a name on the Hub or a prefix in
    object storage, which is downloaded if need be."""
    from gelgt.sources.hub import hub_folder, is_hub_address
    from gelgt.sources.relbench_folder import is_relbench_folder

    if not isinstance(source, (str, Path)):
        return None
    if is_storage(source):
        from gelgt.sources.staged_folder import staged_folder

        return staged_folder(source)
    if "://" not in str(source) and (path := Path(source).expanduser()).exists():
        return path if is_relbench_folder(path) else None
    return hub_folder(str(source)) if is_hub_address(str(source)) else None


@dataclass(frozen=True)
class Opener:
    """One kind of source: `accepts` recognises it without reading rows, `open` prepares it."""

    name: str
    accepts: Callable[[Any], bool]
    open: Callable[[Any, str | None], Source]


def _find(source: Any, namespace: str | None) -> Source:
    for opener in OPENERS:
        if opener.accepts(source):
            return opener.open(source, namespace)
    if not isinstance(source, (str, Path)):
        raise SourceError(
            "unknown_source",
            f"A {type(source).__name__} cannot be opened.",
            hint="Give a URL, a path, a RelBench name or a dict of frames.",
        )
    path = Path(source).expanduser()
    if path.exists():
        raise SourceError(
            "unknown_file",
            f"{source} is neither a SQLite nor a DuckDB file.",
            hint="For CSV or Parquet files give the folder that holds them.",
        )
    names = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    close = did_you_mean(path.name, names)
    raise SourceError(
        "not_found",
        f"There is no file or folder {source}.",
        hint=close if close.startswith("Did") else "Check the path.",
    )


def _is_url(source: Any) -> bool:
    return isinstance(source, str) and "://" in source


def _starts(source: Any, test: Callable[[bytes], bool]) -> bool:
    """Whether a file begins with the right bytes; the names of database files say nothing."""
    if _is_url(source) or not isinstance(source, (str, Path)):
        return False
    path = Path(source).expanduser()
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return test(file.read(16))
    except OSError as error:
        raise SourceError(
            "cannot_open",
            f"{path} cannot be read: {error.strerror or error}.",
            hint="Get permission to read it, or copy it again.",
        ) from None


def _open_frames(source: Any, namespace: str | None) -> Source:
    from gelgt.sources.frames import FramesSource

    return FramesSource(source)


def _open_objects(source: Any, namespace: str | None) -> Source:
    from gelgt.sources.objects import ObjectsSource

    return ObjectsSource(source)


def _open_duckdb(source: Any, namespace: str | None) -> Source:
    from gelgt.sources.duckdb_file import DuckDBSource

    path = duckdb_path(str(source))
    if not path.is_file():
        raise SourceError(
            "not_found",
            f"There is no DuckDB file {path}.",
            hint="duckdb:/// takes a relative path, duckdb://// an absolute one.",
        )
    return DuckDBSource(path, str(source), namespace)


def _open_sqlite_file(source: Any, namespace: str | None) -> Source:
    return _open_sql(f"sqlite:///{Path(source).expanduser().absolute()}", namespace)


def _open_sql(source: Any, namespace: str | None) -> Source:
    from gelgt.sources.sqlite_file import SQLiteFile

    path = sqlite_path(source)
    if path is not None and path.is_file():
        return SQLiteFile(path, source, namespace)
    from gelgt.sources.sql import open_sql

    return open_sql(source, namespace)


def _open_files(source: Any, namespace: str | None) -> Source:
    from gelgt.sources.files import FilesSource

    return FilesSource(Path(source).expanduser(), str(source))


OPENERS = [
    Opener("frames", lambda s: isinstance(s, Mapping), _open_frames),
    Opener("object storage", is_storage, _open_objects),
    Opener("DuckDB address", lambda s: _is_url(s) and s.startswith("duckdb://"), _open_duckdb),
    Opener("SQL address", _is_url, _open_sql),
    Opener(
        "folder of files",
        lambda s: isinstance(s, (str, Path)) and Path(s).expanduser().is_dir(),
        _open_files,
    ),
    Opener(
        "SQLite file",
        lambda s: _starts(s, lambda head: head == b"SQLite format 3\0"),
        _open_sqlite_file,
    ),
    Opener("DuckDB file", lambda s: _starts(s, lambda head: head[8:12] == b"DUCK"), _open_duckdb),
]
