"""Peers: what they are given, and what becomes of them in their own process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gelgt import Database, Task
from gelgt.bench.peers import Peer, check_peer, peer_predictions, process
from gelgt.bench.peers.exchange import write_exchange
from gelgt.errors import GelgtError
from gelgt.presets import RunConfig
from gelgt.training.data import TrainingData
from gelgt.training.regime import in_regime

MEAN = """
import sys, json
import pyarrow as pa, pyarrow.parquet as pq
name, folder = sys.argv[1:]
if name == "getml":
    raise ValueError("no engine")
if name == "slow":
    import time
    time.sleep(60)
for split in ("val", "test"):
    seeds = pq.read_table(f"{folder}/seeds/{split}.parquet")
    values = pa.array([0.25] * len(seeds))
    pq.write_table(pa.table({"prediction": values}), f"{folder}/{split}.parquet")
"""


@pytest.fixture
def data(db: Database, task: Task) -> tuple[TrainingData, RunConfig]:
    config = RunConfig.of("cpu", task.task_type, {"train.windows": 1, "train.retrain": True})
    config = in_regime(config, task, "seed-time")
    return TrainingData.opened(db, task, config), config


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "script.py"
    path.write_text(MEAN)
    monkeypatch.setattr(process, "SCRIPT", path)


Data = tuple[TrainingData, RunConfig]


@pytest.mark.usefixtures("script")
def test_predictions_come_back_for_every_row(data: Data) -> None:
    predictions = peer_predictions(Peer("featuretools", sys.executable), *data)
    assert predictions is not None
    for split, values in predictions.items():
        exists = data[0].exists(data[0].seeds[split])
        assert len(values) == len(exists)
        assert (values[exists] == 0.25).all()


@pytest.mark.usefixtures("script")
def test_a_failure_and_a_time_out_have_reasons(data: Data) -> None:
    with pytest.raises(GelgtError, match="getml ended with code 1: ValueError: no engine"):
        peer_predictions(Peer("getml", sys.executable), *data)
    with pytest.raises(GelgtError, match=r"slow was not done within 0\.5 s") as error:
        peer_predictions(Peer("slow", sys.executable, 0.5), *data)
    assert "--budget" in error.value.hint
    assert peer_predictions(Peer("slow", sys.executable), *data, lambda: True) is None


def test_a_peer_that_is_not_installed() -> None:
    for python in (sys.executable, "/nowhere/python"):
        with pytest.raises(GelgtError) as error:
            check_peer("no_such_library", python)
        assert error.value.code == "no_peer"
        assert "--peer-python" in error.value.hint


def test_what_a_peer_is_given(data: Data, tmp_path: Path) -> None:
    """The model's labels, no test labels, row numbers for keys, and the times that gelgt uses."""
    made, config = data
    scored = {split: made.seeds[split] for split in ("val", "test")}
    write_exchange(tmp_path, made, config, scored)
    spec = json.loads((tmp_path / "spec.json").read_text())
    assert spec["entity_table"] == "customers"
    assert spec["tables"]["order_items"]["has_time"]  # dated by the order
    items = pq.read_table(tmp_path / "tables" / "order_items.parquet")
    orders = pq.read_table(tmp_path / "tables" / "orders.parquet")
    parents = items.column("order_id").to_numpy()
    assert (orders.column("__row__").to_numpy()[parents] == parents).all()
    assert "label" not in pq.read_schema(tmp_path / "seeds" / "test.parquet").names
    known = pq.read_table(tmp_path / "seeds" / "known.parquet").column("time").to_numpy()
    assert known.max() < np.datetime64(made.task.test_timestamp)


@pytest.mark.parametrize("name", ["featuretools", "getml"])
def test_the_peers_themselves(data: Data, name: str, tmp_path: Path) -> None:
    """Where GELGT_PEER_PYTHON names a Python that has them: they predict, and rows at or
    after the last seed time of validation do not change what they predict for validation."""
    python = os.environ.get("GELGT_PEER_PYTHON")
    if python is None:
        pytest.skip("needs GELGT_PEER_PYTHON, a Python with featuretools, getml and lightgbm")
    check_peer(name, python)
    made, config = data
    predictions: Any = peer_predictions(Peer(name, python), made, config)
    assert np.std(predictions["test"]) > 0
    config = config.with_values("set", train__retrain=False)
    there = {s: np.flatnonzero(made.exists(made.seeds[s])) for s in ("val", "test")}
    write_exchange(tmp_path, made, config, {s: made.seeds[s].take(p) for s, p in there.items()})
    last = np.datetime64(int(made.seeds["val"].time.max()), "s")
    for path in (tmp_path / "tables").glob("*.parquet"):
        table = pq.read_table(path)
        if "__time__" in table.column_names:
            pq.write_table(_changed(table, table.column("__time__").to_numpy() >= last), path)
    subprocess.run([python, "-I", process.SCRIPT, name, tmp_path], check=True)
    again = pq.read_table(tmp_path / "val.parquet").column("prediction").to_numpy()
    assert np.array_equal(again, predictions["val"][there["val"]])


def _changed(table: pa.Table, is_later: Any) -> pa.Table:
    """A table with other numbers in its later rows."""
    places = np.flatnonzero(is_later)
    for place, field in enumerate(table.schema):
        if pa.types.is_floating(field.type):
            values = table.column(place).to_numpy().copy()
            values[places] = -1e6
            table = table.set_column(place, field, pa.array(values))
    return table
