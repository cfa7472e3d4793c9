"""`gelgt.open`: one door for every kind of source."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gelgt.errors import SourceError, did_you_mean
from gelgt.sources.database import Database
from gelgt.sources.raw import Source


def open(
    source: Any,
    *,
    schema: Mapping[str, Mapping[str, Any]] | str | Path | None = None,
    out: str | Path | None = None,
    tables: list[str] | None = None,
    namespace: str | None = None,
) -> Database:
    """Open a database, whatever holds it.

    Args:
        source: A RelBench folder or name ("rel-f1"), a database URL ("postgresql://…", "mysql://…", "sqlite:///shop.db"), a SQLite or
            DuckDB file, a folder of CSV or Parquet files, or a dict of frames.
        schema: Keys, times and kinds to use instead of what is declared or inferred, as a mapping or a YAML file:
            ``{"orders": {"pkey": "id", "time_col": "placed_at", "fkeys": {"customer_id": "customers"}, "kinds": {"note": "text"}}}``.
        out: Import to this new folder instead of the cache.
        tables: Read only these tables.
        namespace: The schema of a SQL database ("public", "sales").

    Returns:
        The database, in gelgt's own form (a RelBench v3 folder).

    Raises:
        GelgtError: the source cannot be read, or its rows do not fit its keys.

    Example:
        >>> import pandas as pd
        >>> customers = pd.DataFrame({"id": [1, 2], "joined_at": pd.to_datetime(["2024-01-01", "2024-02-01"])})
        >>> orders = pd.DataFrame({"id": [10, 11, 12], "customer_id": [1, 1, 2], "placed_at": pd.date_range("2024-03-01", periods=3)})
        >>> open({"customers": customers, "orders": orders})
        Database('frames': customers=2, orders=3)
    """
    from gelgt.sources.importer import import_source
    from gelgt.sources.relbench_folder import folder_source, is_relbench_folder, read_folder

    stated = _stated(schema)
    folder = _relbench_folder(source)
    if folder is not None:
        plain = not stated and out is None and tables is None
        database = read_folder(folder, str(source)) if plain else None
        if database is not None and database.follows_contract:
            return database
        opened, stated = folder_source(folder, str(source), stated)
    else:
        opened = _find(source, namespace)
    target = import_source(opened, Path(out).expanduser() if out is not None else None, stated, tables)
    assert is_relbench_folder(target)
    return read_folder(target, opened.address)


def _stated(schema: Mapping[str, Mapping[str, Any]] | str | Path | None) -> Mapping[str, Mapping[str, Any]]:
    if schema is None or isinstance(schema, Mapping):
        return {name: dict(entry or {}) for name, entry in (schema or {}).items()}
    from gelgt.schema.manifest import load_yaml

    path = Path(schema).expanduser()
    if not path.is_file():
        raise SourceError("not_found", f"There is no schema file {path}.", hint="Give a YAML file in the form of a manifest's 'tables'.")
    content = load_yaml(path)
    return {name: dict(entry or {}) for name, entry in (content["tables"] if "tables" in content else content).items()}


def _relbench_folder(source: Any) -> Path | None:
    """The local RelBench folder that a source names: a path, or a name on the Hub that is downloaded if the user asks for it by name."""
    from gelgt.sources.hub import hub_folder, is_hub_address
    from gelgt.sources.relbench_folder import is_relbench_folder

    if not isinstance(source, (str, Path)) or "://" in str(source) and not is_hub_address(str(source)):
        return None
    path = Path(source).expanduser()
    if path.exists():
        return path if is_relbench_folder(path) else None
    return hub_folder(str(source)) if is_hub_address(str(source)) else None


def _find(source: Any, namespace: str | None) -> Source:
    if isinstance(source, Mapping):
        from gelgt.sources.frames import FramesSource

        return FramesSource(source)
    if isinstance(source, str) and "://" in source:
        return _from_url(source, namespace)
    if isinstance(source, (str, Path)):
        return _from_path(Path(source).expanduser(), str(source), namespace)
    raise SourceError(
        "unknown_source", f"A {type(source).__name__} cannot be opened.", hint="Give a URL, a path, a RelBench name or a dict of frames."
    )


def _from_url(source: str, namespace: str | None) -> Source:
    if source.startswith("duckdb://"):
        from gelgt.sources.duckdb_file import DuckDBSource

        path = Path(source.removeprefix("duckdb:///").removeprefix("duckdb://")).expanduser()
        if not path.is_file():
            raise SourceError(
                "not_found", f"There is no DuckDB file {path}.", hint="duckdb:/// takes a relative path, duckdb://// an absolute one."
            )
        return DuckDBSource(path, source, namespace)
    from gelgt.sources.sql import open_sql

    return open_sql(source, namespace)


def _from_path(path: Path, address: str, namespace: str | None) -> Source:
    if path.is_dir():
        from gelgt.sources.files import FilesSource

        return FilesSource(path, address)
    if not path.exists():
        there = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SourceError("not_found", f"There is no file or folder {address}.", hint=did_you_mean(path.name, there))
    from gelgt.sources.duckdb_file import DuckDBSource, is_duckdb_file

    if is_duckdb_file(path):
        return DuckDBSource(path, address, namespace)
    with path.open("rb") as file:
        if file.read(16) == b"SQLite format 3\0":
            from gelgt.sources.sql import open_sql

            return open_sql(f"sqlite:///{path}", namespace)
    raise SourceError(
        "unknown_file",
        f"{address} is neither a SQLite nor a DuckDB file.",
        hint="For CSV or Parquet files give the folder that holds them.",
    )
