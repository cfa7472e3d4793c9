"""`gelgt bench latency`: how long `gelgt predict` takes for two entities, also after new rows.

    python -c "import json; from gelgt.bench.latency import bench_latency;
    print(json.dumps(bench_latency(), indent=1))"

On the demo shop (SQLite) and on a generated database (`gelgt.testing.large`, Parquet files in
parts), each with a model of a few training steps, the command is timed from its start to its end:

    first       the first prediction after the training
    again       the same once more: the source has not changed
    new rows    the first one after 1 % more rows
    again       the same once more
    whole       with --fresh: everything is read and built anew
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from gelgt.bench.machine import machine
from gelgt.bench.measure import over, short
from gelgt.bench.phases import LEAN, SENTENCE
from gelgt.errors import GelgtError

SHARE = 0.01
WARM_ROWS = 2_000
_SHOP = "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id"
_SETTINGS = {
    "train.epochs": 1,
    "train.steps_per_epoch": 3,
    "train.ensemble": 1,
    "train.time_limit": 30.0,
}
_LABELS = 2_000


@dataclass(frozen=True)
class _Case:
    """A database with a run that was trained on it."""

    name: str
    source: str
    run: Path
    entities: str
    rows: int
    add: Callable[[], int]
    environment: dict[str, str]


def bench_latency(
    rows: int = 1_400_000,
    calls: int = 3,
    folder: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Time the command on the shop and on a generated database.

    Args:
        rows: Rows of the generated database.
        calls: Calls of which the median is taken, where a call can be repeated.
        folder: Where the files go while it is measured; a temporary folder by default.

    Returns:
        ``machine``; ``results``: seconds of each call, wall clock and processor; ``ratios``:
        reading everything anew over the first call after new rows.
    """
    if calls < 1 or rows < 1_000:
        raise GelgtError(
            "bad_option",
            f"calls must be at least 1 and rows at least 1,000, got {calls} and {rows:,}.",
            hint="Give larger numbers.",
        )
    say, results = progress or (lambda line: None), []
    with tempfile.TemporaryDirectory(prefix="gelgt-latency-", dir=folder) as base:
        say("compiling kernels, which are kept")
        # apart, since the measured database may have as many rows, and with them the same name
        list(_calls(_large(Path(base) / "warm", WARM_ROWS), 1, lambda line: None))
        for make in (_shop, lambda where: _large(where, rows)):
            say("generating, importing and training")
            case = make(Path(base))
            results += list(_calls(case, calls, say))
    seconds = {(r["database"], r["call"]): r["seconds"] for r in results}
    names = dict.fromkeys(r["database"] for r in results)
    ratios = {
        f"{name}_whole_vs_new_rows": over(seconds[name, "whole"], seconds[name, "new rows"])
        for name in names
    }
    return {"machine": machine(), "results": results, "ratios": ratios}


def _calls(case: _Case, calls: int, say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    def timed(call: str, times: int, *options: str) -> dict[str, Any]:
        say(f"{case.name}: {call}")
        walls, processors = zip(*(_predict(case, *options) for _ in range(times)))
        return {
            "database": case.name,
            "rows": case.rows,
            "call": call,
            "seconds": round(median(walls), 2),
            "cpu_seconds": round(median(processors), 2),
            "spread": f"{min(walls):.2f} to {max(walls):.2f}",
        }

    yield timed("first", 1)
    yield timed("again", calls)
    added = case.add()
    say(f"{case.name}: {added:,} new rows")
    yield timed("new rows", 1)
    yield timed("again after", calls)
    yield timed("whole", 1, "--fresh")


def _predict(case: _Case, *options: str) -> tuple[float, float]:
    """Seconds of one command, wall clock and processor."""
    out = case.run.parent / "predictions.parquet"
    command = [sys.executable, "-m", "gelgt", "predict", str(case.run), "--source", case.source]
    command += ["--entities", case.entities, "--out", str(out), *options]
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, env=case.environment, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise RuntimeError(f"gelgt predict failed:\n{done.stderr[-4000:]}")
    used = sum(
        getattr(after, name) - getattr(before, name)
        for name in ("children_user", "children_system")
    )
    return wall, used


def _train(source: str, sentence: str, run: str, schema: Any) -> dict[str, Any]:
    """Train a few steps; two keys of the entity table, and the number of rows."""
    import numpy as np

    import gelgt

    db = gelgt.open(source, schema=schema)
    task = db.task(sentence, eval_timestamps=1)
    labels = {
        split: table.take(np.linspace(0, len(table) - 1, min(len(table), _LABELS), dtype=int))
        for split, table in task.labels.items()
    }
    model = gelgt.GelGT("cpu", settings=dict(_SETTINGS), device="cpu")
    model.fit(db, replace(task, labels=labels), Path(run))
    keys = db.keys_of(task.entity_table, np.arange(2))
    entities = range(2) if keys is None else keys.column(0).to_pylist()
    rows = sum(db.num_rows(name) for name in db.table_names)
    return {"entities": ",".join(map(str, entities)), "rows": rows}


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "GELGT_CACHE": str(folder / "cache")}


def _trained(
    name: str, base: Path, source: str, sentence: str, schema: Any, add: Callable[[], int]
) -> _Case:
    """A run on a source, trained in a process of its own with a cache of its own."""
    folder = base / name
    environment = _environment(folder)
    work = json.dumps([source, sentence, str(folder / "run"), schema])
    command = [sys.executable, "-m", "gelgt.bench.latency", work]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"The training failed:\n{done.stderr[-4000:]}")
    trained = json.loads(done.stdout.splitlines()[-1])
    return _Case(name, source, folder / "run", **trained, add=add, environment=environment)


def _shop(base: Path) -> _Case:
    from gelgt.demo.shop import shop

    path = base / "shop" / "shop.db"
    path.parent.mkdir()
    shop(path)
    return _trained("shop", base, f"sqlite:///{path}", _SHOP, None, lambda: _add_to_shop(path))


def _add_to_shop(path: Path) -> int:
    """Later rows of each table with a time, of random older ones."""
    from gelgt.demo.schema import TABLES

    added = 0
    with closing(sqlite3.connect(path)) as connection, connection:
        for table in TABLES.values():
            if table.time_column is None:
                continue
            number, name = "row_number() OVER ()", table.name
            latest = f"(SELECT max({table.time_column}) FROM {name})"
            values = {
                table.key.name: f"(SELECT max({table.key.name}) FROM {name}) + {number}",
                table.time_column: f"datetime({latest}, '+' || {number} || ' seconds')",
            }
            selected = ", ".join(values.get(c.name, c.name) for c in table.columns)
            rows = f"SELECT * FROM {name} ORDER BY {table.key.name} * 7919 % 10007"
            count = connection.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            limit = max(1, round(count * SHARE))
            connection.execute(f"INSERT INTO {name} SELECT {selected} FROM ({rows} LIMIT {limit})")
            added += limit
    return added


def _large(base: Path, rows: int) -> _Case:
    from gelgt.testing.large import add_rows, large

    name = f"large_{short(rows)}"
    source = base / name / "source"
    schema = large(source, rows, columns=LEAN, in_parts=True)

    def add() -> int:
        return add_rows(source, rows, SHARE, LEAN)

    return _trained(name, base, str(source), SENTENCE, schema, add)


if __name__ == "__main__":
    print(json.dumps(_train(*json.loads(sys.argv[1]))))
