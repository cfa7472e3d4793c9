"""Training and predictions with source and output in object storage, while it fails now and then;
and nothing that arrives later changes what was known before."""

import io
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from storage_server import Fault

import gelgt
from gelgt.demo import shop
from gelgt.errors import GelgtError
from gelgt.inference import Predictor, check_path, open_for, write_predictions
from gelgt.presets import RunConfig
from gelgt.sources.growth import read_growth
from gelgt.testing.hostile import TIMES
from gelgt.training import Options, Run, train_run

SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY: dict[str, Any] = {
    "train.epochs": 1,
    "train.steps_per_epoch": 2,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 32,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 10,
    "model.column_members": 1,
    "sampling.budget": 16,
}


@dataclass(frozen=True)
class Trained:
    """A run on the shop up to a time, whose source is in object storage and beside it locally."""

    run: Run
    folder: Path  # the local files
    rest: dict[str, bytes]  # the parts of later months, by key below the prefix
    cut: pd.Timestamp


def _parts(path: Path) -> dict[str, pd.DataFrame]:
    """The shop as files: tables with a time in monthly partitions."""
    parts: dict[str, pd.DataFrame] = {}
    with sqlite3.connect(path) as connection:
        names = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE sql > ''")]
        tables = {n: pd.read_sql(f"SELECT * FROM {n}", connection) for n in names if n in KEPT}
    for name, frame in tables.items():
        if name not in TIMES:
            parts[f"{name}.parquet"] = frame
            continue
        frame[TIMES[name]] = pd.to_datetime(frame[TIMES[name]]).astype("datetime64[us]")
        for month, rows in frame.groupby(frame[TIMES[name]].dt.strftime("%Y-%m")):
            parts[f"{name}/month={month}/0.parquet"] = rows
    return parts


KEPT = ("customers", "categories", "products", "orders", "order_items")


@pytest.fixture(scope="module")
def trained(s3_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    home = tmp_path_factory.mktemp("storage")
    made = shop(home / "shop.db", customers=60, days=200, seed=5)
    parts, folder, rest = _parts(made.path), home / "shop", {}
    months = sorted({key.split("month=")[1][:7] for key in parts if "month=" in key})
    for key, rows in parts.items():
        if months[-1] in key:
            buffer = io.BytesIO()
            rows.to_parquet(buffer)
            rest[key] = buffer.getvalue()
            continue
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        rows.to_parquet(folder / key)
    with pytest.MonkeyPatch.context() as patch, s3_server.used() as s3:
        patch.setenv("GELGT_CACHE", str(home / "cache"))
        address = s3.put_folder(folder, "trained/shop")
        s3.faults += [
            Fault("GET", "orders/", 500, times=2, skip=1),
            Fault("GET", "customers/", "stall", times=1),
            Fault("GET", "order_items/", "cut", times=1),
        ]
        db = gelgt.open(address)
        assert [fault.times for fault in s3.faults] == [0, 0, 0]
        task = db.task(SENTENCE)
        config = RunConfig.of("cpu", task.task_type, TINY)
        run = train_run(db, task, home / "run", config, Options(baseline_hops=(), device="cpu"))
        assert run.record.data.source == address
        yield Trained(run, folder, rest, pd.Timestamp(months[-1] + "-01"))


@pytest.fixture
def source(trained: Trained, s3: Any) -> str:
    """The objects that the run was trained on."""
    address: str = s3.put_folder(trained.folder, "trained/shop")
    return address


def _predicted(run: Run, source: Any, at: pd.Timestamp) -> pd.DataFrame:
    predictor = Predictor(run, source, device="cpu")
    rows = predictor.seeds(at=at)
    return pd.concat(t.to_pandas() for t in predictor.predict_table(rows.rows, rows.times))


def _command(patch: pytest.MonkeyPatch, *words: object) -> None:
    from gelgt.cli import main

    patch.setattr("sys.argv", ["gelgt", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code


def test_output_in_object_storage(
    trained: Trained, source: str, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command, with source and output there; the bytes that go to a local file."""
    s3.faults.append(Fault("PUT", "partNumber", 500, times=1))
    out = s3.address("scores/all.parquet")
    local = trained.folder.parent / "all.parquet"
    for target in (out, str(local)):
        _command(monkeypatch, "predict", trained.run.folder, "--all", "--out", target)
    assert s3.get("scores/all.parquet") == local.read_bytes()
    assert s3.keys("scores") == ["scores/all.parquet"]
    assert not list((trained.folder.parent / "cache" / "unsent").glob("*"))
    assert len(pd.read_parquet(local)) > 0


def test_output_that_cannot_be_sent_is_kept(
    tmp_path: Path, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))
    batches = [pa.table({"id": [1, 2], "prediction": [0.5, 0.25]})]
    s3.faults.append(Fault("PUT", "partNumber", 403))
    with pytest.raises(GelgtError) as caught:
        write_predictions(batches, s3.address("scores/x.csv"))
    assert caught.value.code == "no_access"
    kept = Path(caught.value.hint.split("They are whole in ")[1].rstrip("."))
    assert kept.name == "x.csv"
    assert len(pd.read_csv(kept)) == 2
    for address, code in {
        "s3://no-such-bucket/x.parquet": "not_found",
        s3.address("scores/x.json"): "unknown_format",
        s3.address("scores/"): "unknown_format",
        "s3://AKIA:secret@bucket/x.csv": "bad_address",
    }.items():
        with pytest.raises(GelgtError) as caught:
            check_path(address)
        assert caught.value.code == code, address
        assert "secret" not in str(caught.value)


def test_new_parts_reach_predictions_and_change_no_earlier_one(
    trained: Trained, source: str, s3: Any
) -> None:
    """Parts of a later month, made hostile: predictions up to its beginning are the same bits."""
    before = _predicted(trained.run, source, trained.cut)
    for key, body in trained.rest.items():
        rows = pd.read_parquet(io.BytesIO(body))
        for column in rows:
            if pd.api.types.is_string_dtype(rows[column]) and not column.endswith("_sku"):
                rows[column] = "no such " + column
        for column in rows.select_dtypes("float"):
            rows[column] = 1e12
        buffer = io.BytesIO()
        rows.to_parquet(buffer)
        s3.put(f"trained/shop/{key}", buffer.getvalue())
    opened = open_for(trained.run, source)
    growth = read_growth(opened.db.folder)
    assert growth is not None
    assert "orders" in growth.new_rows
    after = _predicted(trained.run, opened, trained.cut)
    shared = [column for column in before.columns if column != "prediction"]
    merged = before.merge(after, on=shared, suffixes=("", "_after"))
    assert len(merged) == len(before) > 10
    assert np.array_equal(merged["prediction"], merged["prediction_after"])
    later = trained.cut + pd.Timedelta(days=20)
    assert not _predicted(trained.run, opened, later)["prediction"].equals(before["prediction"])


def test_parts_in_object_storage(
    trained: Trained,
    source: str,
    s3: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The commands: one part by itself, then the others; the bytes that go to a folder."""
    s3.faults.append(Fault("PUT", "part-00002", 500, times=1))
    common = [trained.run.folder, "--all", "--at", str(trained.cut)]
    for out in (s3.address("parts/churn"), str(tmp_path / "churn")):
        _command(monkeypatch, "predict", *common, "--out", out, "--shard", "1/3")
        _command(monkeypatch, "predict", *common, "--out", f"{out}/", "--shards", 3, "--json")
        capsys.readouterr()
        _command(monkeypatch, "status", out, "--json")
        status = json.loads(capsys.readouterr().out)
        assert (status["is_finished"], status["committed"], status["missing"]) == (True, 3, [])
    names = sorted(path.name for path in (tmp_path / "churn").iterdir())
    assert s3.keys("parts") == sorted(f"parts/churn/{name}" for name in names)
    for name in names:
        if name.startswith("part-"):
            assert s3.get(f"parts/churn/{name}") == (tmp_path / "churn" / name).read_bytes()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'gelgt[ray]'")
def test_parts_by_ray_in_object_storage(
    trained: Trained, source: str, s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = str(Path(gelgt.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", package)
    s3.faults.append(Fault("PUT", "part-00002", 500, times=1))
    common = [trained.run.folder, "--all", "--at", str(trained.cut), "--shards", 3]
    ray = ["--engine", "ray", "--workers", 2]
    _command(monkeypatch, "predict", *common, *ray, "--out", s3.address("parts/churn"))
    _command(monkeypatch, "predict", *common, "--out", str(tmp_path / "churn"))
    assert "parts/churn/_SUCCESS" in s3.keys("parts")
    for path in (tmp_path / "churn").glob("part-*"):
        assert s3.get(f"parts/churn/{path.name}") == path.read_bytes()
    assert not any("probe" in key for key in s3.keys("parts"))
