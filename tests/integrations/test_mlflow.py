"""MLflow for real: a SQLite store, models that are loaded again, and `mlflow models serve`."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.inference import Predictor, Recommend
from gelgt.integrations.mlflow import log_model, log_run, save_model
from gelgt.training import Run

from ..conftest import free_port
from .conftest import SENTENCES

mlflow = pytest.importorskip("mlflow", reason="needs MLflow: pip install 'gelgt[mlflow]'")
RunOf = Callable[[str], Run]
PASSWORD = "s3cr3t-p4ss"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tracking store of our own, whose artifacts lie beside it."""
    folder = tmp_path_factory.mktemp("mlflow")
    before, place = mlflow.get_tracking_uri(), Path.cwd()
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    os.chdir(folder)  # where MLflow puts artifacts by default
    mlflow.set_experiment("shop")
    yield folder
    os.chdir(place)
    mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def model(run_of: RunOf, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(run_of("churn").folder, tmp_path_factory.mktemp("models") / "churn")


def asked(ids: list[int], shop: Shop) -> pd.DataFrame:
    times = pd.to_datetime([shop.val_timestamp, shop.test_timestamp, shop.val_timestamp])
    return pd.DataFrame({"id": [ids[3], ids[0], ids[1]], "time": times})


def test_a_run_is_logged_with_everything(store: Path, run_of: RunOf, tmp_path: Path) -> None:
    run = run_of("spend")
    logged = mlflow.get_run(log_run(run.folder, tags={"team": "growth"}))
    record, data = run.record, logged.data
    assert data.params["model.width"] == "16"
    assert data.params["train.windows"] == "1"
    assert data.params["model.encoders"].startswith('["table"')
    assert set(data.params) >= {f"train.{name}" for name in run.config.model_dump()["train"]}
    assert "model.width=16 (set)" in data.tags["gelgt.settings"]
    assert "sampling.visibility=seed-time (derived)" in data.tags["gelgt.settings"]
    assert data.tags["gelgt.task"] == SENTENCES["spend"]
    assert (data.tags["gelgt.regime"], data.tags["team"]) == ("seed-time", "growth")
    assert data.tags["gelgt.version.gelgt"] == gelgt.__version__
    assert data.metrics["test/mae"] == record.metrics["test"]["mae"]
    assert data.metrics["val/mae"] == record.metrics["val"]["mae"]
    for name, splits in record.baselines.items():
        assert data.metrics[f"baselines/{name}/test/mae"] == splits["test"]["mae"]
    for name, splits in record.parts.items():
        assert data.metrics[f"parts/{name}/test/mae"] == splits["test"]["mae"]
    assert record.baselines
    assert record.parts
    assert data.metrics["intervals/0.9/coverage"] == record.intervals["0.9"].coverage
    curve = mlflow.MlflowClient().get_metric_history(logged.info.run_id, "training/val/mae")
    assert [(m.step, m.value) for m in curve] == [(e.step, e.val["mae"]) for e in record.epochs]
    assert len(curve) == 2
    place = mlflow.artifacts.download_artifacts(run_id=logged.info.run_id, dst_path=str(tmp_path))
    assert (Path(place) / "report.html").read_text().startswith("<!doctype html>")
    assert gelgt.load(Path(place) / "run").metrics == record.to_json()
    assert not (run.folder / "report.html").exists(), "the run itself is not touched"


def test_the_active_run_is_used(store: Path, run_of: RunOf) -> None:
    with mlflow.start_run(run_name="mine") as active:
        assert log_run(run_of("churn").folder, run_name="other") == active.info.run_id
    assert mlflow.get_run(active.info.run_id).info.run_name == "mine"
    assert mlflow.active_run() is None


@pytest.mark.parametrize("name", ["churn", "spend", "next"])
def test_a_logged_model_predicts_what_the_predictor_does(
    name: str, store: Path, run_of: RunOf, ids: list[int], tiny_shop: Shop
) -> None:
    run, frame = run_of(name), asked(ids, tiny_shop)
    with mlflow.start_run():
        info = log_model(run.folder)
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    predictor = Predictor(run, None)
    expected = predictor.predict(frame=frame).to_pandas()
    pd.testing.assert_frame_equal(loaded.predict(frame), expected, check_exact=True)
    columns = loaded.metadata.get_output_schema()
    assert set(columns.required_input_names()) == set(expected.columns)
    now = predictor.predict(frame["id"].tolist()).to_pandas()
    pd.testing.assert_frame_equal(loaded.predict(frame[["id"]]), now, check_exact=True)
    options = {"spend": {"interval": 0.8}, "next": {"k": 2, "new_only": True}}.get(name, {})
    at = tiny_shop.val_timestamp
    wished = Recommend(options.get("k"), options.get("new_only", False))
    found = loaded.predict(frame[["id"]], params={"at": at, **options})
    direct = predictor.predict(
        frame["id"].tolist(), at, None, wished, options.get("interval")
    ).to_pandas()
    pd.testing.assert_frame_equal(found, direct, check_exact=True)


def test_the_model_holds_the_run_and_no_pickle(model: Path, run_of: RunOf, ids: list[int]) -> None:
    files = {str(p.relative_to(model)) for p in model.rglob("*") if p.is_file()}
    assert {"MLmodel", "data/run/_SUCCESS", "data/run/model.safetensors"} <= files
    kinds = {Path(name).suffix for name in files} - {""}
    assert kinds == {".json", ".yaml", ".txt", ".parquet", ".safetensors"}, "and nothing that runs"
    example = json.loads((model / "serving_input_example.json").read_text())["dataframe_split"]
    assert example["columns"] == ["id", "time"]
    assert example["data"][0][0] not in ids, "a made-up key"
    info = mlflow.models.get_model_info(str(model))
    inputs = info.signature.inputs.to_dict()
    assert inputs == [
        {"name": "id", "type": "long", "required": True},
        {"name": "time", "type": "datetime", "required": False},
    ]
    assert gelgt.load(model / "data" / "run").metrics == run_of("churn").record.to_json()


def test_an_address_with_a_password_is_in_no_file(
    store: Path, run_of: RunOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_URL", f"postgresql://me:{PASSWORD}@127.0.0.1:9/shop")
    save_model(run_of("churn").folder, tmp_path / "model", source_env="SHOP_URL")
    with mlflow.start_run():
        log_run(run_of("churn").folder)
        log_model(run_of("churn").folder, source_env="SHOP_URL")
    written = [p for folder in (tmp_path, store) for p in folder.rglob("*") if p.is_file()]
    assert len(written) > 30
    assert [p for p in written if PASSWORD.encode() in p.read_bytes()] == []
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    with pytest.raises(mlflow.exceptions.MlflowException) as caught:
        loaded.predict(pd.DataFrame({"id": [1], "time": [pd.Timestamp("2024-06-01")]}))
    assert "cannot_open" in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_where_the_source_is_said_to_be(
    run_of: RunOf,
    model: Path,
    tiny_shop: Shop,
    ids: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A copy whose orders are gone, named by the environment or when the model is loaded."""
    other = f"sqlite:///{shutil.copy(tiny_shop.path, tmp_path / 'other.db')}"
    connection = sqlite3.connect(tmp_path / "other.db")
    with connection:
        connection.execute("DELETE FROM order_items")
    connection.close()
    frame = asked(ids, tiny_shop)
    here, there = (
        Predictor(run_of("churn"), source).predict(frame=frame).to_pandas()
        for source in (None, other)
    )
    assert not here.equals(there)
    loaded = mlflow.pyfunc.load_model(str(model), model_config={"source": other})
    assert loaded.predict(frame).equals(there)
    assert mlflow.pyfunc.load_model(str(model)).predict(frame).equals(here)
    monkeypatch.setenv("GELGT_SOURCE", other)
    assert mlflow.pyfunc.load_model(str(model)).predict(frame).equals(there)


def test_changes_are_seen_when_the_source_is_looked_at_again(
    model: Path, tiny_shop: Shop, ids: list[int], tmp_path: Path
) -> None:
    path = Path(shutil.copy(tiny_shop.path, tmp_path / "shop.db"))
    config = {"source": f"sqlite:///{path}"}
    held = mlflow.pyfunc.load_model(str(model), model_config={**config, "refresh": 3600})
    fresh = mlflow.pyfunc.load_model(str(model), model_config={**config, "refresh": 0})
    frame = pd.DataFrame({"id": ids[:20], "time": pd.Timestamp("2100-01-01")})
    before = held.predict(frame)
    assert fresh.predict(frame).equals(before)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM orders WHERE id % 2 = 0")
        connection.execute("DELETE FROM visits WHERE id % 2 = 0")
    connection.close()
    assert held.predict(frame).equals(before)
    assert not fresh.predict(frame).equals(before)


def test_errors_say_what_is_wrong(model: Path, ids: list[int], tmp_path: Path) -> None:
    loaded = mlflow.pyfunc.load_model(str(model))
    at = pd.Timestamp("2024-06-01")
    with pytest.raises(mlflow.exceptions.MlflowException, match="unknown_keys: 1 key is not in"):
        loaded.predict(pd.DataFrame({"id": [7], "time": [at]}))
    with pytest.raises(mlflow.exceptions.MlflowException, match="bad_option"):
        loaded.predict(pd.DataFrame({"id": ids[:1], "time": [at]}), params={"at": "2024-06-01"})
    with pytest.raises(GelgtError) as caught:
        save_model(model / "data" / "run", model)
    assert caught.value.code == "model_exists"
    for write in (log_run, log_model, lambda folder: save_model(folder, tmp_path / "new")):
        with pytest.raises(GelgtError) as caught:
            write(tmp_path / "nothing")
        assert caught.value.code == "no_run"
    assert not (tmp_path / "new").exists()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(GelgtError) as caught:
        log_run(tmp_path)
    assert caught.value.code == "missing_extra"
    assert caught.value.hint == "pip install 'gelgt[mlflow]'"


@pytest.fixture
def served(model: Path, cache_folder: Path, tmp_path: Path) -> Iterator[str]:
    """`mlflow models serve` as a process of its own, stopped with its children at the end."""
    port, log = free_port(), tmp_path / "server.log"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", str(model)]
    # MLflow starts uvicorn by its name, as in an environment that is activated
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*command, "--env-manager", "local", "--port", str(port)],
            stdout=out,
            stderr=out,
            env={**os.environ, "GELGT_CACHE": str(cache_folder), "PATH": path},
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if process.poll() is not None:
                pytest.fail(f"the server ended at once:\n{log.read_text()}")
            try:
                urllib.request.urlopen(f"{address}/ping", timeout=5)
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def post(address: str, content: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(
        f"{address}/invocations",
        json.dumps(content).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_mlflow_models_serve(served: str, run_of: RunOf, ids: list[int], tiny_shop: Shop) -> None:
    frame = asked(ids, tiny_shop)
    expected = Predictor(run_of("churn"), None).predict(frame=frame).to_pandas()
    data = [[key, str(at)] for key, at in frame.itertuples(index=False)]
    status, answer = post(served, {"dataframe_split": {"columns": ["id", "time"], "data": data}})
    assert status == 200, answer
    rows = pd.DataFrame(answer["predictions"])
    assert rows["id"].tolist() == frame["id"].tolist()
    assert pd.to_datetime(rows["time"]).tolist() == frame["time"].tolist()
    assert rows["probability"].tolist() == expected["probability"].tolist()
    status, answer = post(
        served,
        {"dataframe_records": [{"id": ids[0]}], "params": {"at": str(frame["time"].iloc[1])}},
    )
    assert status == 200, answer
    assert answer["predictions"][0]["probability"] == expected["probability"].iloc[1]
    status, answer = post(served, {"dataframe_records": [{"id": 7}]})
    assert status == 400
    assert "unknown_keys" in answer["message"]
    assert "Traceback" not in json.dumps(answer)
