"""Labels over tables that have no time column: in SQL a row is as new as the graph has it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gelgt
from gelgt.sources.row_times import NEVER, RowTimes


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


def times(random: np.random.Generator, rows: int) -> pd.Series:
    column = pd.Series(
        pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 12_000, rows), unit="h")
    )
    return column.mask(random.random(rows) < 0.05)


def test_a_row_that_names_another_without_a_time_is_never_counted() -> None:
    """Lines name an order and a box; where one of them has no time, or the key of one is empty,
    labels and graph agree."""
    random = np.random.default_rng(1)
    orders = pd.DataFrame({"id": range(300), "placed_at": times(random, 300)})
    boxes = pd.DataFrame({"id": range(200), "packed_at": times(random, 200)})
    lines = pd.DataFrame({"id": range(700), "product_id": random.integers(0, 30, 700)})
    lines["order_id"] = pd.Series(random.integers(0, 300, 700), dtype="Int64").mask(
        random.random(700) < 0.1
    )
    lines["box_id"] = pd.Series(random.integers(0, 200, 700), dtype="Int64").mask(
        random.random(700) < 0.03
    )
    db = gelgt.open(
        {
            "products": pd.DataFrame({"id": range(30)}),
            "orders": orders,
            "boxes": boxes,
            "lines": lines,
        }
    )
    assert {fk.column for fk in db.table("lines").dating_keys} == {"order_id", "box_id"}
    moments = RowTimes(db).of("lines")
    assert (moments == NEVER).sum() > 20
    product = db.read("lines", ["product_id"]).column(0).to_numpy()
    task = db.task("PREDICT COUNT(lines.*, 0, 30, days) FOR EACH products.id")
    for split in ("train", "val", "test"):
        for row in task.table(split).to_pylist():
            seed = int(np.datetime64(row["timestamp"], "us").astype(np.int64))
            inside = (
                (product == row["id"]) & (moments > seed) & (moments <= seed + 30 * 86_400 * 10**6)
            )
            assert row["target"] == np.count_nonzero(inside), (split, row)
