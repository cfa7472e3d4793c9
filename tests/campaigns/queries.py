"""Queries: label SQL that writes, reads other files, reaches out, changes settings, loops or never
ends. It is refused or stopped: nothing is written, and no secret is in what it returns."""

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import gelgt
from campaigns.frame import Campaign
from campaigns.shop_rows import START, random_rows
from campaigns.world import cached_in
from gelgt.errors import GelgtError
from gelgt.tasks.engine import SECONDS, engine

SECRET = "the-planted-secret"
FILES = ("secret.csv", "secret.txt", "secret.json", "secret.parquet", "secret.db")
READS = (
    "SELECT * FROM '{file}'",
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_csv_auto(['{file}'])",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM read_blob('{file}')",
    "SELECT * FROM read_json('{file}')",
    "SELECT * FROM read_parquet('{file}')",
    "SELECT * FROM parquet_scan('{folder}/*.parquet')",
    "SELECT * FROM parquet_metadata('{file}')",
    "SELECT * FROM parquet_kv_metadata('{file}')",
    "SELECT * FROM sniff_csv('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
    "SELECT * FROM query_table('{file}')",
    "SELECT getenv('{variable}')",
    "SELECT * FROM sqlite_scan('{file}', 't')",
    "SELECT * FROM 'http://127.0.0.1:9/{file}'",
    "SELECT * FROM read_csv('s3://bucket/{file}')",
    "SELECT * FROM duckdb_secrets()",
    "SELECT * FROM local",
    "SELECT * FROM gelgt_times",
)
WRITES = (
    "COPY (SELECT 1) TO '{made}'",
    "COPY orders TO '{made}' (FORMAT csv)",
    "EXPORT DATABASE '{made}'",
    "ATTACH '{made}' AS other",
    "ATTACH '{file}' AS other (READ_ONLY)",
    "CREATE TABLE x AS SELECT 1",
    "CREATE OR REPLACE VIEW orders AS SELECT 1",
    "CREATE MACRO f() AS 1",
    "INSERT INTO orders SELECT * FROM orders",
    "DELETE FROM orders",
    "DROP VIEW orders",
    "UPDATE timestamps SET timestamp = NULL",
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "RESET ALL",
    "PRAGMA enable_profiling = 'json'",
    "SET profiling_output = '{made}'",
    "INSTALL httpfs",
    "LOAD '{file}'",
    "CALL pragma_version()",
    "PREPARE p AS SELECT 1",
    "VACUUM",
    "CHECKPOINT",
    "BEGIN",
    "USE memory",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{made}'",
)
ENDLESS = (
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
    "SELECT count(*) FROM range(100000) a, range(100000) b, range(100000) c WHERE a.range = 7",
    "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b",
)


@dataclass(frozen=True)
class World:
    """A database, and files that its SQL has no business with."""

    db: gelgt.Database
    folder: Path


def prepare(folder: Path) -> World:
    place = folder / "outside"
    place.mkdir(exist_ok=True)
    for name in FILES:
        (place / name).write_text(f"a\n{SECRET}\n")
    with cached_in(folder / "cache"):
        rows = random_rows(np.random.default_rng(7))
        return World(gelgt.open(rows.frames(), schema=rows.schema()), place)


def case(world: World, number: int, random: np.random.Generator) -> str:
    def pick(options: Any) -> Any:
        return options[random.integers(len(options))]

    is_endless = random.random() < 0.02
    names = {
        "file": world.folder / pick(FILES),
        "folder": world.folder,
        "made": world.folder / "made",
        "variable": "GELGT_TEST_SECRET",
    }
    kind = ENDLESS if is_endless else pick([READS, WRITES])
    sql = _disguised(pick(kind).format(**names), random)
    before = {path.name: path.read_bytes() for path in world.folder.iterdir()}
    limit = {SECONDS: "0.3", "GELGT_TEST_SECRET": SECRET}
    outcome = "refused"
    with patch.dict(os.environ, limit), engine(world.db) as run:
        try:
            columns = run.run(sql, np.array([START], "datetime64[us]"), timedelta(days=7))
            batches = list(run.batches({name: f'"{name}"' for name in columns}, "true"))
            outcome = "answered"
        except GelgtError as error:
            outcome = "stopped" if error.code == "slow_sql" else "refused"
            batches = []
        found = repr([batch.to_pylist() for batch in batches])
        assert SECRET not in found, f"a secret came out of: {sql}"
        # the tables are as they were
        run.run("SELECT count(*) AS n FROM orders", np.array([START], "datetime64[us]"))
        assert next(iter(run.batches({"n": "n"}, "true"))).column(0).to_pylist() == [70], sql
    after = {path.name: path.read_bytes() for path in world.folder.iterdir()}
    assert after == before, f"something was written by: {sql}"
    assert outcome != "answered" or kind is READS, f"this was not refused: {sql}"
    return f"{'endless' if is_endless else 'reads' if kind is READS else 'writes'}: {outcome}"


def _disguised(sql: str, random: np.random.Generator) -> str:
    """The same written otherwise: as a part of something harmless, in other letters, with
    comments."""
    if random.random() < 0.3:
        sql = sql.lower() if random.random() < 0.5 else sql.replace(" ", "/**/ ")
    choice = random.random()
    if choice < 0.2:
        return f"SELECT * FROM ({sql}) x"
    if choice < 0.35:
        return f"WITH x AS ({sql}) SELECT * FROM x"
    if choice < 0.5:
        return f"SELECT 1; {sql}"
    if choice < 0.6:
        return f"SELECT 1 UNION ALL {sql}"
    if choice < 0.65:
        return f"-- harmless\n{sql};"
    if choice < 0.7:
        return f"SELECT 1) ; {sql}; SELECT (1"
    return sql


CAMPAIGN = Campaign("queries", prepare, case, long=10_000, short=25)
