"""A tiny random database with everything that can go wrong about time, as frames and as a RelBench
folder.

    users ─► shops ◄─ orders ─► users      orders ◄─ items ─► products (items have no time) orders
                                           ◄─ notes

Few distinct times make ties, some times and keys are null, and notes may be older than the order
that they are about.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import gelgt
from gelgt.sources.database import Database
from gelgt.tasks.task import SPLITS, Task

START = np.datetime64("2024-01-01", "s")
DAY = 86_400
KEYS = {
    "shops": {},
    "products": {},
    "users": {"shop_id": "shops"},
    "orders": {"user_id": "users", "shop_id": "shops"},
    "items": {"order_id": "orders", "product_id": "products"},
    "notes": {"order_id": "orders"},
}
TIMES = {"users": "joined", "orders": "placed", "notes": "written"}


@dataclass(frozen=True)
class Tiny:
    """A database and its rows as frames; times are seconds, NaN where there are none."""

    db: Database
    frames: dict[str, pd.DataFrame]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    rng = np.random.default_rng(7)

    def times(rows: int, empty: int = 0) -> np.ndarray[Any, Any]:
        days = np.sort(rng.integers(0, 40, rows)).astype(float)
        days[rows - empty :] = np.nan  # rows without a time come last, as an import has them
        return START.astype(int) + days * DAY

    def key(parents: int, rows: int) -> np.ndarray[Any, Any]:
        rows_ = rng.integers(0, parents, rows).astype(float)
        rows_[rng.random(rows) < 0.1] = np.nan
        return rows_

    def number(rows: int) -> np.ndarray[Any, Any]:
        values = rng.normal(50, 20, rows).round(3)
        values[rng.random(rows) < 0.1] = np.nan
        return values

    def word(rows: int, words: str) -> np.ndarray[Any, Any]:
        return rng.choice(np.array([*words]), rows, p=rng.dirichlet(np.ones(len(words))))

    n = {"shops": 6, "products": 9, "users": 30, "orders": 200, "items": 400, "notes": 150}
    frames = {
        "shops": pd.DataFrame({"size": number(6)}),
        "products": pd.DataFrame({"price": number(9)}),
        "users": pd.DataFrame(
            {
                "joined": times(30),
                "shop_id": key(6, 30),
                "score": number(30),
                "team": word(30, "abc"),
            }
        ),
        "orders": pd.DataFrame(
            {
                "placed": times(200, 6),
                "user_id": key(30, 200),
                "shop_id": key(6, 200),
                "amount": number(200),
                "channel": word(200, "abcdefgh"),
                "due": times(200),
            }
        ),
        "items": pd.DataFrame(
            {"order_id": key(200, 400), "product_id": key(9, 400), "weight": number(400)}
        ),
        "notes": pd.DataFrame(
            {
                "written": times(150, 3),
                "order_id": key(200, 150),
                "stars": number(150),
                "mood": word(150, "xyz"),
            }
        ),
    }
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "db").mkdir()
    tables = {}
    for name, frame in frames.items():
        columns = {"id": pa.array(np.arange(n[name]))}
        for column in frame:
            values = pa.array(frame[column], from_pandas=True)
            if column in {*TIMES.values(), "due"}:
                values = values.cast("int64").cast("timestamp[s]").cast("timestamp[us]")
            columns[column] = values.cast("int64") if column in KEYS[name] else values
        pq.write_table(pa.table(columns), folder / "db" / f"{name}.parquet")
        tables[name] = {"pkey": "id", "time_col": TIMES.get(name), "fkeys": KEYS[name]}
    split = {"val_timestamp": "2024-01-21", "test_timestamp": "2024-01-31"}
    (folder / "manifest.yaml").write_text(
        yaml.safe_dump({"name": "tiny", **split, "tables": tables})
    )
    return Tiny(gelgt.open(folder), frames)


Make = Callable[..., Task]


@pytest.fixture(scope="session")
def make_task(tiny: Tiny) -> Make:
    """A task on the users of the tiny database from (entity, day, target) triples of each split."""

    def make(
        train: list[tuple[int, int, Any]],
        val: list[tuple[int, int, Any]],
        test: list[tuple[int, int, Any]],
        task_type: str,
        **options: Any,
    ) -> Task:
        labels = {}
        for split, rows in zip(SPLITS, (train, val, test)):
            times = pa.array([START + d * DAY for _, d, _ in rows], pa.timestamp("s")).cast(
                "timestamp[us]"
            )
            arrow = options.get("arrow") or (
                pa.float64() if task_type == "regression" else pa.int64()
            )
            labels[split] = pa.table(
                {
                    "time": times,
                    "id": pa.array([e for e, _, _ in rows], pa.int64()),
                    "target": pa.array([y for _, _, y in rows], arrow),
                }
            )
        return Task(
            name="tiny",
            kind="external",
            entity_table="users",
            entity_col="id",
            target_col="target",
            time_col="time",
            task_type=task_type,  # type: ignore[arg-type]
            timedelta=options.get("timedelta", pd.Timedelta(days=5)),
            classes=tuple(options.get("classes", ())),
            remove_columns=tuple(options.get("remove_columns", ())),
            database=tiny.db,
            labels=labels,
        )

    return make
