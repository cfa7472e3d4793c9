"""Databases: generated schemas and rows at the edges of what databases hold, through several kinds
of source to graph, features and, for a share, predictions. Success, or a GelgtError; and the same
rows through two kinds of source give the same graph and the same features.

Cycles, self-references, missing and dangling keys, names that need quoting, hundreds of tables or
columns, tables of no row or one, columns of nulls, NaN and infinities, dates from year 1 to 9999,
zones, numbers beyond 2⁶³, texts of a megabyte, bytes.
"""

import shutil
import sqlite3
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from pyarrow import compute

import gelgt
from campaigns import server_tables
from campaigns.frame import Campaign
from campaigns.odd_values import NAMES, PLAIN, VALUES, random_column
from campaigns.server_tables import write_tables
from campaigns.server_world import Servers, prepare
from campaigns.world import cached_in
from gelgt.errors import GelgtError

Random = np.random.Generator
Tables = dict[str, pa.Table]
TYPED = ("frames", "parquet", "duckdb")  # that hold the same types
KINDS = (*TYPED, "csv", "sqlite")
SHORT = 8
ENGINE, FRESH = "gelgt.sources.importer.connect", 10  # one case in so many starts a DuckDB


def random_tables(random: Random, kinds: list[str]) -> Tables:
    """Tables with columns of some kinds; some columns number rows of another table."""
    share = random.random()  # the large ones take as long as fifty others
    count = 300 if share < 0.001 else int(random.integers(1, 5))
    width = 500 if 0.001 < share < 0.003 else int(random.integers(1, 6))
    names = _names(count, random)
    tables = {}
    for name in names:
        rows = int(random.choice([0, 1, 3, 7], p=[0.1, 0.2, 0.4, 0.3]))
        columns = {
            column: random_column(kinds[random.integers(len(kinds))], rows, random)
            for column in _names(width, random)
        }
        if random.random() < 0.7:
            columns["id"] = pa.array(random.permutation(rows), pa.int64())
        for parent in names[:2]:
            if random.random() < 0.5:
                values = random.integers(0, 8, rows).tolist()
                columns[f"{parent}_id"] = pa.array(
                    [None if random.random() < 0.1 else v for v in values], pa.int64()
                )
        tables[name] = pa.table(columns)
    return tables


def _names(count: int, random: Random) -> list[str]:
    if count > len(NAMES) // 2:
        return [f"{NAMES[random.integers(len(NAMES))]} {i}" for i in range(count)]
    chosen: dict[str, str] = {}
    for place in random.permutation(len(NAMES))[: 2 * count]:
        chosen.setdefault(NAMES[place].casefold(), NAMES[place])
    return list(chosen.values())[:count]


def random_schema(tables: Tables, random: Random) -> dict[str, Any] | None:
    """Keys and times that are stated, some of them wrong; None leaves all to be inferred."""
    if random.random() < 0.4:
        return None
    schema: dict[str, Any] = {}
    names = list(tables)
    for name, table in tables.items():
        columns, entry = table.column_names, {}
        if "id" in columns or random.random() < 0.3:
            entry["pkey"] = "id" if "id" in columns else columns[random.integers(len(columns))]
        keys = {c: c.removesuffix("_id") for c in columns if c.removesuffix("_id") in names}
        if random.random() < 0.1:
            keys[columns[random.integers(len(columns))]] = names[random.integers(len(names))]
        entry["fkeys"] = {c: parent for c, parent in keys.items() if c != entry.get("pkey")}
        times = [c for c in columns if pa.types.is_timestamp(table.schema.field(c).type)]
        if random.random() < 0.9:
            entry["time_col"] = times[random.integers(len(times))] if times else None
        if random.random() < 0.1 and len(columns) > 1:  # a composite key
            entry["pkey"] = [str(c) for c in random.choice(columns, 2, replace=False)]
        schema[name] = entry
    return schema


def write(tables: Tables, kind: str, folder: Path) -> Any:
    """The tables as a source of a kind; what `gelgt.open` takes."""
    if kind == "frames":
        return tables
    if kind == "duckdb":
        return _duckdb(tables, folder / "data.duckdb")
    if kind == "sqlite":
        return _sqlite(tables, folder / "data.db")
    place = folder / kind
    place.mkdir()
    for name, table in tables.items():
        path = place / f"{name}.{kind}"
        if kind == "csv":
            pc.write_csv(table, path)
        else:
            pq.write_table(table, path)
    return place


@cache
def _shared() -> Any:
    """A DuckDB of this process: to start one takes longer than to sort the rows of a case."""
    import duckdb

    return duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})


def _connect(spill: Path, threads: int | None = None) -> Any:
    """In the place of `gelgt.sources.duckdb_engine.connect`: a connection of its own all the
    same."""
    return _shared().cursor()


def _duckdb(tables: Tables, path: Path) -> Path:
    with _shared().cursor() as connection:
        connection.execute(f"ATTACH '{path}' AS written")
        try:
            for name, table in tables.items():
                connection.register("rows_to_write", table)
                quoted = '"' + name.replace('"', '""') + '"'
                connection.execute(f"CREATE TABLE written.{quoted} AS FROM rows_to_write")
                connection.unregister("rows_to_write")
        finally:
            connection.execute("DETACH written")
    return path


def _sqlite(tables: Tables, path: Path) -> Path:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def plain(value: Any) -> Any:
        return value.isoformat(sep=" ") if hasattr(value, "hour") else value

    with closing(sqlite3.connect(path)) as connection, connection:
        for name, table in tables.items():
            columns = ", ".join(quoted(c) for c in table.column_names)
            connection.execute(f"CREATE TABLE {quoted(name)} ({columns})")
            marks = ", ".join("?" * table.num_columns)
            rows = zip(*(map(plain, c.to_pylist()) for c in table.columns))
            connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)
    return path


def case(world: Servers, number: int, random: Random) -> str:
    folder = world.folder / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kinds = KINDS if number < SHORT else (*KINDS, *KINDS, *server_tables.KINDS)
    kind = kinds[random.integers(len(kinds))]
    if kind in server_tables.KINDS and world.get(kind) is None:
        return f"{kind}: not installed"
    is_pair = kind in (*TYPED, *server_tables.KINDS) and random.random() < 0.5
    columns = list(VALUES) if kind in ("frames", "parquet") and not is_pair else list(PLAIN)
    tables = random_tables(random, columns)
    if kind in server_tables.KINDS:
        tables = {name: _one_zero(table) for name, table in tables.items()}
    schema = random_schema(tables, random)
    try:
        source = _written(tables, kind, folder, world)
        other = write(tables, _other(kind, random), folder) if is_pair else None
    except (*_UNWRITABLE, *server_tables.unwritable()):
        return f"{kind}: cannot hold these"
    engine = nullcontext() if number % FRESH == 0 else patch(ENGINE, _connect)
    with cached_in(folder / "cache"), engine:
        found = _hashes(source, schema, random)
        if is_pair:
            second = _hashes(other, schema, random)
            is_same = found in (second, ("error", "unreadable_column"))  # names with a line break
            assert is_same, f"two kinds of source differ: {found} {second}"
    shutil.rmtree(folder, ignore_errors=True)
    return f"{kind}: {'an error' if found[0] == 'error' else 'a graph'}{' twice' * is_pair}"


def _one_zero(table: pa.Table) -> pa.Table:
    """Without -0, which a statement cannot write to MariaDB."""
    for place, column in enumerate(table.schema):
        if pa.types.is_floating(column.type):
            table = table.set_column(place, column.name, compute.add(table.column(place), 0.0))
    return table


def _written(tables: Tables, kind: str, folder: Path, world: Servers) -> Any:
    if kind not in server_tables.KINDS or (server := world.get(kind)) is None:
        return write(tables, kind, folder)
    return write_tables(tables, server, world.session(kind))


def _other(kind: str, random: Random) -> str:
    others = [k for k in TYPED if k != kind]
    return others[random.integers(len(others))]


# What the writers of this campaign raise over names and values that a kind of file does not hold.
_UNWRITABLE: tuple[type[Exception], ...] = (
    pa.ArrowException,
    OSError,
    sqlite3.Error,
    OverflowError,
    ValueError,
)


def _hashes(source: Any, schema: Any, random: Random) -> tuple[str, ...]:
    """Hashes of graph and features, or the code of the error."""
    try:
        is_server = isinstance(source, dict) and "source" in source
        place = source if is_server else {"source": source}
        db = gelgt.open(**place, schema=schema)
        graph, features = db.graph(), db.features()
        for name in db.table_names[:5]:
            rows = np.arange(db.num_rows(name))
            assert features.frame(name, rows).num_rows == len(rows)
        if random.random() < 0.1:
            _predict(db)
        return "", graph.content_hash(), features.content_hash()
    except GelgtError as error:
        return "error", error.code


def _predict(db: gelgt.Database) -> None:
    """Predictions of a network that has learned nothing, for the rows of the first table that has
    some."""
    import torch

    from gelgt.nn import GelGTConfig, GelGTModel, ModelContext, ModelInput
    from gelgt.sampling import Sampler, SamplingConfig, make_seeds
    from gelgt.sampling.batch import from_sample

    graph, features = db.graph(), db.features()
    table = next((name for name in db.table_names if db.num_rows(name)), None)
    if table is None:
        return
    rows = np.arange(db.num_rows(table))
    times = np.full(len(rows), np.datetime64("2200-01-01", "s"))
    known = graph.node_time[graph.nodes(table, rows)] < times.astype(np.int64)
    if not known.any():
        return
    seeds = make_seeds(db, graph, table, rows[known], times[known])
    sample = Sampler(graph, SamplingConfig(budget=20)).sample(seeds.node, seeds.time, seeds.key)
    batch = from_sample(sample, graph, seeds.time, seeds.key, rows[known])
    config = GelGTConfig(width=16, heads=2, row_width=8, keep=9, history=0)
    model = GelGTModel(config, ModelContext(graph, features)).eval()
    with torch.no_grad():
        out = model(ModelInput.of(batch, features))
    assert bool(torch.isfinite(out).all()), "a prediction that is no number"


CAMPAIGN = Campaign("databases", prepare, case, long=10_000, short=SHORT)
