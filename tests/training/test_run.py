"""Run folders: what they hold, what they refuse, and the two regimes."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tiny import small

import gelgt
from gelgt import Database, GelgtError, Task
from gelgt.metrics import score
from gelgt.presets import RunConfig
from gelgt.runs.folder import CHECKPOINT, MARK
from gelgt.training import Options, Progress, Run, in_regime, load_run, train_run
from gelgt.training.checkpoint import Snapshot, State, save_checkpoint
from gelgt.training.ensemble import is_behind
from gelgt.training.run import _as_begun

pytestmark = pytest.mark.usefixtures("usual_shares")


@pytest.fixture(scope="module")
def run(db: Database, task: Task, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "orders-soon"
    train_run(
        db, task, out, small(task.task_type), Options(baseline_hops=(1, 2), command="gelgt train …")
    )
    return out


@pytest.fixture(scope="module")
def plain(db: Database, task: Task, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run without baselines that nothing interrupts."""
    out = tmp_path_factory.mktemp("plain") / "run"
    return train_run(db, task, out, small(task.task_type), Options(baselines=False))


def test_the_folder_holds_everything(run: Path, db: Database, task: Task) -> None:
    loaded = load_run(run)
    assert loaded.config.preset == "cpu"
    assert loaded.task["gelgt"]["val_timestamp"]
    assert loaded.task["gelgt"]["sentence"] == task.sentence
    assert loaded.record.to_json()["regime"] == "seed-time"
    assert loaded.record.to_json()["horizon"] is None
    assert set(loaded.record.to_json()["baselines"]) == {"lightgbm", "lightgbm-2hop", "entity-mean"}
    assert loaded.record.to_json()["data"]["hash"]
    assert loaded.record.to_json()["data"]["source"] == db.source
    assert list(loaded.schema.tables) == db.table_names
    assert not (run / CHECKPOINT).exists()
    assert not [p for p in run.rglob("*") if p.suffix in (".pt", ".pkl", ".pickle")]
    assert len(loaded.record.to_json()["epochs"]) == 2


def test_scores_follow_from_the_predictions(run: Path) -> None:
    loaded = load_run(run)
    for split in ("val", "test"):
        table = pq.read_table(run / "predictions" / f"{split}.parquet").to_pandas()
        assert list(table.columns)[:4] == ["id", "time", "prediction", "probability"]
        assert (
            score(
                "binary_classification", table["label"].to_numpy(), table["probability"].to_numpy()
            )
            == loaded.record.to_json()["metrics"][split]
        )
        for name in ("lightgbm", "entity-mean"):
            found = score(
                "binary_classification",
                table["label"].to_numpy(),
                table[f"baseline:{name}"].to_numpy(),
            )
            assert found == loaded.record.to_json()["baselines"][name][split]


def test_profile_sums_to_one(run: Path) -> None:
    shown = json.loads((run / "profile.json").read_text())
    for part in ("by_table", "by_hop", "rows_by_table", "rows_by_hop"):
        assert sum(shown["attention"][part].values()) == pytest.approx(1.0, abs=1e-3)
    assert 0 < shown["fusion"] < 1
    assert shown["bias"][0]["kernels"][0]["text"].startswith("centre")


def test_a_taken_folder_is_refused(run: Path, db: Database, task: Task, tmp_path: Path) -> None:
    with pytest.raises(GelgtError) as caught:
        train_run(db, task, run, small())
    assert caught.value.code == "run_exists"
    told: list[str] = []

    class Notices(Progress):
        def notice(self, text: str) -> None:
            told.append(text)

    left = run / "checkpoint-columns.safetensors"  # by a process that was killed at its end
    left.touch()
    train_run(db, task, run, small(), Options(resume=True), progress=Notices())
    assert "finished" in told[0]
    assert not left.exists()


def test_a_budget_of_no_columns_is_told(db: Database, task: Task, tmp_path: Path) -> None:
    told: list[str] = []

    class Notices(Progress):
        def notice(self, text: str) -> None:
            told.append(text)

    config = small(task.task_type, model__history=True, model__history_columns=0)
    done = train_run(db, task, tmp_path / "run", config, progress=Notices())
    assert any("no history column is read" in text for text in told)
    assert 0 <= done.record.metrics["test"]["roc_auc"] <= 1


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("name", ["thesis.txt", "config.json", "_SUCCESS", CHECKPOINT])
def test_a_folder_of_someone_else_is_left_alone(
    name: str, is_resumed: bool, db: Database, task: Task, tmp_path: Path
) -> None:
    (tmp_path / name).write_text('{"architectures": ["of another project"]}')
    with pytest.raises(GelgtError) as caught:
        train_run(db, task, tmp_path, small(), Options(resume=is_resumed))
    assert caught.value.code == "not_empty"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == '{"architectures": ["of another project"]}'


def test_one_training_at_a_time(db: Database, task: Task, tmp_path: Path) -> None:
    """While a training goes on nothing else may write to its folder, resumed or not; it ends as if
    nobody had tried."""
    out, refused = tmp_path / "run", []

    class Second(Progress):
        def step(self, *told: Any) -> None:
            for is_resumed in (False, True):
                with pytest.raises(GelgtError) as caught:
                    train_run(db, task, out, small(train__seed=7), Options(resume=is_resumed))
                refused.append(caught.value.code)
                assert f"process {os.getpid()} on {socket.gethostname()}" in caught.value.message

    first = train_run(
        db, task, out, small(task.task_type), Options(baselines=False), progress=Second()
    )
    assert set(refused) == {"run_busy"}
    assert (out / MARK).read_bytes() == b""
    assert first.config.train.seed == 0
    with pytest.raises(GelgtError) as caught:
        train_run(db, task, out, small(train__seed=7))
    assert caught.value.code == "run_exists"
    assert load_run(out).record.to_json() == first.record.to_json()


def test_a_resumed_run_keeps_the_origins_of_its_settings(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, State(columns=5), Snapshot({}, [], {}, {}), "key")
    config = RunConfig.of("cpu", "binary_classification", {"model.history_columns": 5})
    assert _as_begun(config, tmp_path, "key").origins["model.history_columns"] == "set"
    other = RunConfig.of("cpu", "binary_classification", {"model.history_columns": 6})
    begun = _as_begun(other, tmp_path, "key")  # with more time it would read more
    assert begun.model.history_columns == 5
    assert begun.origins["model.history_columns"] == "derived"


def test_a_run_without_the_mark_is_known(
    run: Path, db: Database, task: Task, tmp_path: Path
) -> None:
    """Runs that older versions wrote, and copies that `save` made, have no `.gelgt-run`."""
    shutil.copytree(run, tmp_path / "old", ignore=shutil.ignore_patterns(".*"))
    with pytest.raises(GelgtError) as caught:
        train_run(db, task, tmp_path / "old", small())
    assert caught.value.code == "run_exists"


def test_an_interrupted_run_loads_and_goes_on(
    db: Database, task: Task, plain: Run, tmp_path: Path
) -> None:
    config, alone = small(task.task_type), Options(baselines=False)
    steps = iter(range(100))
    cut = train_run(db, task, tmp_path / "cut", config, alone, stop=lambda: next(steps) >= 5)
    assert cut.record.to_json()["ended"] == "interrupted"
    assert (tmp_path / "cut" / CHECKPOINT).exists()
    assert cut.record.to_json()["metrics"]["test"]
    rest = train_run(db, task, tmp_path / "cut", config, replace(alone, resume=True))
    assert rest.record.to_json()["ended"] == "all epochs"
    weights = plain.weights()
    assert all(torch.equal(weights[name], value) for name, value in rest.weights().items())
    assert rest.record.to_json()["metrics"] == plain.record.to_json()["metrics"]


def test_retrain_learns_from_every_window_and_keeps_the_scores(
    db: Database, task: Task, plain: Run, tmp_path: Path
) -> None:
    options = Options(baselines=False, retrain_all=True)
    again = train_run(db, task, tmp_path / "retrain", small(task.task_type), options)
    assert again.record.to_json()["retrain"] == {
        "labels": "all",
        "rows": sum(task.rows.values()),
        "epochs": plain.record.to_json()["best_epoch"],
    }
    assert again.record.parts == plain.record.parts
    assert again.record.probabilities is not None
    assert again.record.probabilities.shift == 0, "retraining learns the rate of validation itself"
    for split, scores in plain.record.metrics.items():
        assert again.record.metrics[split]["roc_auc"] == scores["roc_auc"]
    weights = plain.weights()
    assert not all(torch.equal(weights[name], value) for name, value in again.weights().items())


def test_regimes(db: Database, task: Task, relbench_data: Callable[[str], Path]) -> None:
    assert in_regime(small(), task).sampling.visibility == "seed-time"
    frozen = in_regime(small(), task, "frozen").sampling
    assert frozen.horizon == int(pd.Timestamp(task.test_timestamp).timestamp())
    assert in_regime(small(), task, "seed-time", as_of=7).sampling.horizon == 7
    f1 = gelgt.open(relbench_data("rel-f1"))
    assert in_regime(small(), f1.task("driver-dnf")).sampling.visibility == "frozen"
    assert in_regime(small(), f1.task("driver-dnf")).origins["sampling.horizon"] == "derived"


def labelled(db: Database, values: Any, **options: Any) -> Task:
    """A task whose labels are given, for customers that exist at all times."""
    joined = db.read("customers", ["signed_up_at"]).column(0).to_pandas()
    keys = pd.Series(db.keys("customers").column(0).to_pylist())
    old = keys[joined.argsort()[:40]].tolist()
    times = pd.date_range(
        joined.sort_values().iloc[60] + pd.Timedelta(days=1), periods=10, freq="15D"
    )
    frame = pd.DataFrame([(key, time) for time in times for key in old], columns=["id", "time"])
    frame["y"] = [values[i % len(values)] for i in range(len(frame))]
    split = {"val": times[7], "test": times[9]} | options
    return db.task(
        frame, entity="customers.id", time_col="time", target_col="y", timedelta="5 days", **split
    )


@pytest.mark.parametrize(
    ("values", "task_type", "metric"),
    [
        ([1.5, 2.5, -3.0, 8.0], "regression", "mae"),
        (["red", "green", "blue"], "multiclass_classification", "mrr"),
        ([0, 1, 1], "binary_classification", "roc_auc"),
    ],
)
def test_every_type_of_task(
    db: Database, tmp_path: Path, values: Any, task_type: str, metric: str
) -> None:
    task = labelled(db, values, task_type=task_type)
    found = train_run(db, task, tmp_path / "run", small(task_type, train__epochs=1))
    assert found.record.to_json()["metric"] == metric
    assert metric in found.record.to_json()["metrics"]["test"]
    assert all(metric in scores["test"] for scores in found.record.to_json()["baselines"].values())
    table = pq.read_table(tmp_path / "run" / "predictions" / "test.parquet")
    probabilities = [name for name in table.column_names if name.startswith("probability_")]
    assert len(probabilities) == (3 if task_type == "multiclass_classification" else 0)
    if task_type == "multiclass_classification":
        assert set(table.column("prediction").to_pylist()) <= {"red", "green", "blue"}
        assert np.allclose(sum(table.column(p).to_numpy() for p in probabilities), 1)


def test_a_multilabel_task(db: Database, tmp_path: Path) -> None:
    """Label tables of a RelBench folder may hold lists."""
    numbers = labelled(db, [0, 1, 2], task_type="regression")
    lists = pa.array([["a"], ["a", "b"], []])

    def with_lists(table: pa.Table) -> pa.Table:
        place = table.schema.get_field_index("y")
        return table.set_column(
            place, "y", lists.take(table.column("y").cast(pa.int64()).combine_chunks())
        )

    labels = {split: with_lists(table) for split, table in numbers.labels.items()}
    task = replace(numbers, task_type="multilabel_classification", labels=labels)
    found = train_run(db, task, tmp_path / "run", small(task.task_type, train__epochs=1))
    assert "macro_auprc" in found.record.to_json()["metrics"]["test"]
    table = pq.read_table(tmp_path / "run" / "predictions" / "test.parquet")
    assert {"probability_a", "probability_b"} <= set(table.column_names)
    assert table.column("label").to_pylist() == labels["test"].column("y").to_pylist()


def test_a_task_without_times_is_refused(db: Database, task: Task, tmp_path: Path) -> None:
    with pytest.raises(GelgtError) as caught:
        train_run(db, replace(task, time_col=None), tmp_path / "run", small())
    assert caught.value.code == "no_times"


def test_several_models_predict_by_their_mean(db: Database, few: Task, tmp_path: Path) -> None:
    """Each has a seed of its own, the first that of the run; a run that is cut off between them
    goes on to the same weights."""
    config = small(few.task_type, train__ensemble=3, train__best_epochs=2)
    options = Options(baselines=False)
    run = train_run(db, few, tmp_path / "whole", config, options)
    assert [member["epochs"] for member in run.record.to_json()["members"]] == [2, 2, 2]
    alone = train_run(
        db,
        few,
        tmp_path / "alone",
        small(few.task_type, train__ensemble=1, train__best_epochs=2, model__trees=False),
        options,
    ).weights()
    together = run.weights()
    first = [name for name in alone if name.startswith("members.0.")]
    assert first
    assert all(torch.equal(together[name], alone[name]) for name in first)
    assert not torch.equal(together["members.0.head.1.weight"], together["members.1.head.1.weight"])

    steps = iter(range(100))
    # in the second model
    cut = train_run(db, few, tmp_path / "cut", config, options, stop=lambda: next(steps) >= 11)
    assert cut.record.to_json()["ended"] == "interrupted"
    assert len(cut.record.to_json()["members"]) in (
        1,
        2,
    )  # the second joins if it is no worse by then
    resumed = train_run(db, few, tmp_path / "cut", config, replace(options, resume=True))
    weights = resumed.weights()
    assert all(torch.equal(weights[name], tensor) for name, tensor in together.items())
    assert not list((tmp_path / "cut").glob("checkpoint*"))

    model = gelgt.load(tmp_path / "whole")
    found = model.predict(db, at=few.test_timestamp)
    assert found.probability.between(0, 1).all()
    assert model.temporal_profile()


@pytest.mark.parametrize(
    ("metric", "scores", "ended", "expected"),
    [
        ("mae", [0.038, 0.142], "time limit", True),
        ("mae", [0.038, 0.037], "time limit", False),
        ("roc_auc", [0.8, 0.7, 0.6], "time limit", True),
        ("roc_auc", [0.8, 0.7, 0.75], "interrupted", False),
        ("roc_auc", [0.8, 0.5], "all epochs", False),  # it had its time
        ("roc_auc", [0.8, None], "interrupted", True),  # not one step
        ("roc_auc", [0.5], "time limit", False),  # there is no other
    ],
)
def test_a_model_that_was_broken_off_joins_if_it_is_good_enough(
    metric: str, scores: list[float | None], ended: str, expected: bool
) -> None:
    states = [State(best=score, ended="all epochs") for score in scores]
    states[-1].ended = ended
    assert is_behind(metric, states) == expected


def test_a_model_without_its_first_step_is_left_out(
    db: Database, few: Task, tmp_path: Path
) -> None:
    """Stopped right after the first model: a second one that knows nothing would halve what the
    first has learned."""
    steps = iter(range(100))
    # with this seed, one step is not by chance ahead of eight
    config = small(few.task_type, train__ensemble=2, model__trees=False, train__seed=1)
    alone = small(few.task_type, train__ensemble=1, model__trees=False, train__seed=1)
    options = Options(baselines=False)
    # one step of the second
    cut = train_run(db, few, tmp_path / "cut", config, options, stop=lambda: next(steps) >= 9)
    whole = train_run(db, few, tmp_path / "one", alone, options)
    assert (cut.record.to_json()["ended"], len(cut.record.to_json()["members"])) == (
        "interrupted",
        1,
    )
    weights = cut.weights()
    assert all(torch.equal(weights[name], tensor) for name, tensor in whole.weights().items())
    resumed = train_run(db, few, tmp_path / "cut", config, replace(options, resume=True))
    assert len(resumed.record.to_json()["members"]) == 2
