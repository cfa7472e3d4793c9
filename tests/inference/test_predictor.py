"""Predictions: the same bits twice, and the same numbers in any company."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import gelgt
from gelgt.inference import Predictor
from gelgt.inference.evaluate import score_split
from gelgt.training import Run

from .conftest import Twins, change, failure, tiny_run


# The table.
def test_columns_of_every_kind_of_task(twins: Twins, run_of: Callable[[str], Run]) -> None:
    binary = Predictor(run_of("binary"), twins.whole).predict(at=twins.at).table
    assert binary.column_names == ["id", "time", "prediction", "probability"]
    probability = binary.column("probability").to_numpy()
    assert ((probability > 0) & (probability < 1)).all()
    np.testing.assert_array_equal(binary.column("prediction").to_numpy(), probability > 0.5)
    assert set(binary.column("time").to_pylist()) == {twins.at.to_pydatetime()}

    values = Predictor(run_of("regression"), twins.whole).predict(at=twins.at).table
    assert values.column_names == ["id", "time", "prediction"]
    assert 0 < len(values) < len(binary), "the condition on past visits applies"

    classes = Predictor(run_of("multiclass"), twins.whole).predict(at=twins.at).to_pandas()
    shares = classes.filter(like="probability_")
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares.idxmax(axis=1) == "probability_" + classes["prediction"]).all()

    products = Predictor(run_of("products"), twins.whole).predict(at=twins.at).table
    assert products.schema.field("sku").type == pa.string()


def test_rows_of_an_autocomplete_task_have_times_of_their_own(
    twins: Twins, run_of: Callable[[str], Run]
) -> None:
    predictor = Predictor(run_of("autocomplete"), twins.cut)
    found = predictor.predict()
    placed = twins.cut.read("orders", ["placed_at"]).column(0)
    assert found.table.column("time").to_pylist() == placed.to_pylist()
    assert found.notices == ()
    few = predictor.predict(found.table.column("id").slice(5, 3))
    assert few.table.column("time").to_pylist() == placed.slice(5, 3).to_pylist()
    assert "is_gift" in predictor.scorer.data.hide["orders"]


def test_the_hidden_column_does_not_reach_the_model(
    twins: Twins, run_of: Callable[[str], Run], tmp_path: Path
) -> None:
    """Flip the target of every row: predictions of an autocomplete task must not move."""
    import shutil

    shutil.copy(twins.folder / "cut.db", tmp_path / "flipped.db")
    change(tmp_path / "flipped.db", ["UPDATE orders SET is_gift = 1 - is_gift"])
    run = run_of("autocomplete")
    found = [
        Predictor(run, url).predict().table
        for url in (twins.url("cut"), f"sqlite:///{tmp_path / 'flipped.db'}")
    ]
    assert found[0].equals(found[1])


# Determinism.
def test_twice_gives_the_same_bits(predictor: Predictor, twins: Twins, binary_run: Run) -> None:
    again = Predictor(binary_run, twins.whole)
    first = predictor.predict(at=twins.at).table
    assert first.equals(predictor.predict(at=twins.at).table)
    assert first.equals(again.predict(at=twins.at).table)


def test_company_does_not_matter(
    predictor: Predictor, twins: Twins, binary_run: Run, ids: list[int], monkeypatch: Any
) -> None:
    all_of_them = predictor.predict(ids, at=twins.at).to_pandas()["probability"].to_numpy()
    small = (
        Predictor(binary_run, twins.whole, batch_size=7)
        .predict(ids, at=twins.at)
        .to_pandas()["probability"]
        .to_numpy()
    )
    np.testing.assert_allclose(small, all_of_them, atol=1e-5, rtol=0)
    monkeypatch.setattr("gelgt.inference.predictor.CHUNK", 11)
    chunked = predictor.predict(ids, at=twins.at).to_pandas()["probability"].to_numpy()
    np.testing.assert_allclose(chunked, all_of_them, atol=1e-5, rtol=0)
    alone = [predictor.predict([key], at=twins.at).to_pandas()["probability"][0] for key in ids[:5]]
    np.testing.assert_allclose(alone, all_of_them[:5], atol=1e-5, rtol=0)


def test_chunks_grow_with_a_large_database_up_to_a_limit(
    predictor: Predictor, monkeypatch: Any
) -> None:
    module = "gelgt.inference.predictor"
    assert predictor._chunk_size() == 8192
    monkeypatch.setattr(f"{module}.CHUNK", 2)
    monkeypatch.setattr(f"{module}.LARGE_GRAPH", 1)
    monkeypatch.setattr(f"{module}.NODES_PER_SEED", predictor.graph.num_nodes // 10)
    assert predictor._chunk_size() == 10
    monkeypatch.setattr(f"{module}.MAX_CHUNK", 5)
    assert predictor._chunk_size() == 5


def test_the_generator_of_the_world_is_left_alone(twins: Twins, binary_run: Run) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    Predictor(binary_run, twins.whole).predict(at=twins.at)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("as_of", [None, "2000-01-01", "early"])
def test_scored_rows_are_predicted_alike(
    twins: Twins, binary_run: Run, tmp_path: Path, as_of: str | None
) -> None:
    """What a run was scored on is what it predicts, whatever time its ages are measured from
    (--as-of)."""
    run = binary_run
    if as_of is not None:
        moment = twins.val - pd.Timedelta(days=90) if as_of == "early" else pd.Timestamp(as_of)
        run = tiny_run(
            twins.whole, twins.task("binary"), tmp_path / "run", as_of=int(moment.timestamp())
        )
    predictor = Predictor(run, twins.whole, "cpu")
    for split in ("val", "test"):
        scored = pq.read_table(run.folder / "predictions" / f"{split}.parquet")
        found = predictor.predict(frame=scored.select(["id", "time"])).table
        assert found.column("probability").equals(scored.column("probability")), "the same bits"
    data = score_split(run, twins.whole, "test", device="cpu").data
    with torch.inference_mode():
        expected = [
            predictor.scorer.model.seed_vectors(inputs).numpy()
            for inputs in data.loader(data.seeds["test"], 64)
        ]
    np.testing.assert_allclose(
        predictor.embed(frame=scored.select(["id", "time"])).vectors,
        np.concatenate(expected),
        atol=1e-4,
        rtol=0,
    )


def test_a_frozen_run_predicts_from_every_row_before_the_time(twins: Twins, tmp_path: Path) -> None:
    run = tiny_run(twins.whole, twins.task("binary"), tmp_path / "run", visibility="frozen")
    assert run.config.sampling.horizon is not None
    used = Predictor(run, twins.whole, "cpu").scorer.data.sampling
    assert (used.visibility, used.horizon) == ("seed-time", None)


def test_a_stream_is_the_frame(predictor: Predictor, twins: Twins, monkeypatch: Any) -> None:
    monkeypatch.setattr("gelgt.inference.predictor.CHUNK", 16)
    chosen = predictor.seeds(at=twins.at)
    parts = list(predictor.predict_table(chosen.rows, chosen.times))
    assert len(parts) == -(-len(chosen) // 16)
    assert pa.concat_tables(parts).equals(predictor.predict(at=twins.at).table)


def test_batches_are_let_go(predictor: Predictor, twins: Twins, monkeypatch: Any) -> None:
    """However many rows are asked for, a few batches are alive at a time."""
    import weakref

    from gelgt.nn import ModelInput

    alive, most, make = weakref.WeakSet[Any](), [0], ModelInput.of

    def watched(*arguments: Any) -> ModelInput:
        made = make(*arguments)
        alive.add(made.batch.node)
        most[0] = max(most[0], len(alive))
        return made

    monkeypatch.setattr(ModelInput, "of", watched)
    monkeypatch.setattr("gelgt.inference.predictor.CHUNK", 300)
    monkeypatch.setattr(predictor.scorer, "batch_size", 16)
    monkeypatch.setattr(predictor.scorer, "graph", 1.0)  # validation may take nothing of it
    chosen = predictor.seeds(at=twins.at)
    rows = np.resize(chosen.rows, 1500)
    assert sum(len(t) for t in predictor.predict_table(rows, np.resize(chosen.times, 1500))) == 1500
    assert 1 < most[0] <= 10, f"{most[0]} of {1500 // 16}"


# Vectors.
def test_vectors(twins: Twins, ids: list[int], tmp_path: Path) -> None:
    # the head alone predicts
    run = tiny_run(
        twins.cut,
        twins.task("binary", twins.cut),
        tmp_path / "run",
        {"model.trees": False, "model.column_members": 0},
    )
    predictor = Predictor(run, twins.cut)
    made = predictor.embed(ids[:6], at=twins.at)
    assert made.table.column_names == ["id", "time", *(f"vector_{i}" for i in range(16))]
    assert made.vectors.shape == (6, 16)
    assert made.vectors.std(0).max() > 1e-3
    import torch

    out = predictor.scorer.model.first.head(torch.from_numpy(made.vectors))
    probability = predictor.predict(ids[:6], at=twins.at).to_pandas()["probability"]
    np.testing.assert_allclose(predictor.target.decode(out), probability, atol=1e-6)
    made.save(tmp_path / "vectors.parquet")
    assert pd.read_parquet(tmp_path / "vectors.parquet").shape == (6, 18)


# Entities and rows that training never saw.
def test_a_source_that_has_grown(twins: Twins, tmp_path: Path) -> None:
    """Trained on the cut shop, asked about customers and orders that came later."""
    run = tiny_run(twins.cut, twins.task("binary", twins.cut), tmp_path / "run")
    known = set(twins.cut.keys("customers").column(0).to_pylist())  # type: ignore[union-attr]
    # the last customer signs up on the last day
    found = Predictor(run, twins.url("whole")).predict().to_pandas()
    new = found[~found["id"].isin(known)]
    assert len(new) > 0
    assert found["probability"].notna().all()


# Keys of several parts.
@pytest.fixture(scope="module")
def sensors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    folder = tmp_path_factory.mktemp("sensors")
    connection = sqlite3.connect(folder / "sensors.db")
    random = np.random.default_rng(0)
    with connection:
        connection.execute(
            "CREATE TABLE sensors (site TEXT, number INTEGER, height REAL, PRIMARY KEY (site, "
            "number))"
        )
        connection.execute(
            "CREATE TABLE readings (id INTEGER PRIMARY KEY, site TEXT, number INTEGER, taken_at "
            "DATETIME, value REAL,"
            " FOREIGN KEY (site, number) REFERENCES sensors (site, number))"
        )
        keys = [(site, number) for site in "xyz" for number in range(1, 9)]
        connection.executemany(
            "INSERT INTO sensors VALUES (?, ?, ?)", [(*key, random.normal()) for key in keys]
        )
        times = pd.Timestamp("2024-01-01") + pd.to_timedelta(
            np.sort(random.integers(0, 200 * 86_400, 600)), unit="s"
        )
        connection.executemany(
            "INSERT INTO readings VALUES (?, ?, ?, ?, ?)",
            [
                (i, *keys[random.integers(len(keys))], str(t), random.normal())
                for i, t in enumerate(times)
            ],
        )
    connection.close()
    db = gelgt.open(folder / "sensors.db")
    days = pd.date_range("2024-01-20", "2024-07-10", freq="10D")
    frame = pd.DataFrame(
        [(*key, day, int(random.integers(2))) for day in days for key in keys],
        columns=["site", "number", "day", "broken"],
    )
    task = db.task(
        frame, entity="sensors", timedelta="10 days", val="2024-05-01", test="2024-06-01"
    )
    return folder, tiny_run(db, task, folder / "run")


def test_keys_of_several_parts(sensors: tuple[Path, Run]) -> None:
    folder, run = sensors
    predictor = Predictor(run, folder / "sensors.db")
    found = predictor.predict(
        [("y", 3), {"number": 1, "site": "x"}, ("y", "3")], at="2024-06-10"
    ).table
    assert found.select(["site", "number"]).to_pylist() == [
        {"site": "y", "number": 3},
        {"site": "x", "number": 1},
        {"site": "y", "number": 3},
    ]
    frame = pd.DataFrame({"number": [3], "site": ["y"], "time": pd.to_datetime(["2024-06-10"])})
    assert predictor.predict(frame=frame).table.column("probability")[0].as_py() == pytest.approx(
        found.column("probability")[0].as_py()
    )
    error = failure(lambda: predictor.predict([("y", 3), ("q", 1)], at="2024-06-10"))
    assert (error.code, error.message) == (
        "unknown_keys",
        "1 key is not in the table 'sensors': ('q', 1).",
    )
    assert failure(lambda: predictor.predict(["y"], at="2024-06-10")).code == "bad_key"
    assert len(predictor.predict(at="2024-06-10")) == 24
