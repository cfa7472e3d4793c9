"""`gelgt bench explain` on a tiny run."""

from pathlib import Path

import gelgt
from gelgt.bench.explain import bench_explain
from gelgt.demo import Shop
from gelgt.presets import RunConfig
from gelgt.training import Options, train_run

TINY = {
    "train.epochs": 1,
    "train.steps_per_epoch": 3,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.batch_size": 32,
    "model.history_columns": 20,
    "model.column_members": 1,
}


def test_areas_and_their_intervals(small_shop: Shop, tmp_path: Path) -> None:
    db = gelgt.open(small_shop.url, out=tmp_path / "shop")
    times = {"val": small_shop.val_timestamp, "test": small_shop.test_timestamp}
    task = db.task(small_shop.sentence, **times)
    config = RunConfig.of("cpu", task.task_type, TINY)
    train_run(db, task, tmp_path / "run", config, Options(baseline_hops=(), device="cpu"))
    content = bench_explain(tmp_path / "run", 4, "cpu", progress=lambda text: None)
    found = {entry["name"]: entry for entry in content["results"]}
    assert (
        found["rows explained"]["value"] + found["rows without anything to explain"]["value"] == 4
    )
    assert found["effects beside prediction - base, at most"]["value"] < 1e-3
    gain = found["area - area_random"]
    assert gain["low"] <= gain["value"] <= gain["high"]
    assert content["machine"]
