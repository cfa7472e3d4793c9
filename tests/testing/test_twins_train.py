"""gelgt trains, scores and predicts on every entity task of every twin, and never looks ahead on
any of their schemas.

A few steps of a tiny model: what is tested is that every schema goes through, not how well it is
learned.
"""

import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt import Database, Task
from gelgt.graph import NEVER, TIMELESS
from gelgt.inference import Predictor, evaluate_run
from gelgt.presets import RunConfig
from gelgt.sources.row_times import RowTimes, instant
from gelgt.testing.twins import TWINS, make_twin, twin_tasks
from gelgt.training import Options, Run, TrainingData, train_run
from gelgt.training.regime import in_regime

TINY: Mapping[str, Any] = {
    "train.epochs": 1,
    "train.steps_per_epoch": 2,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 32,
    "train.warmup": 1,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 20,
    "model.column_members": 1,
    "sampling.budget": 24,
}
METRICS = {
    "binary_classification": "roc_auc",
    "regression": "mae",
    "multiclass_classification": "mrr",
}
PAPER = """
    rel-f1 driver-dnf driver-top3 driver-position
    rel-avito user-clicks user-visits ad-ctr
    rel-event user-repeat user-ignore user-attendance
    rel-trial study-outcome study-adverse site-success
    rel-amazon user-churn item-churn user-ltv item-ltv
    rel-stack user-engagement user-badge post-votes
    rel-hm user-churn item-sales
    rel-salt item-plant item-shippoint item-incoterms sales-office sales-group
    rel-salt sales-payterms sales-shipcond sales-incoterms
    rel-ratebeer beer_ratings-total_score
"""  # its table of results says user-votes for post-votes
TASKS = [(name, task) for name in TWINS for task in twin_tasks(name)]
FIRST = {name: twin_tasks(name)[0] for name in TWINS}
AUTOCOMPLETE = {
    "rel-amazon": "review-rating",
    "rel-avito": "searchstream-click",
    "rel-event": "event_interest-interested",
    "rel-f1": "results-position",
    "rel-hm": "transactions-price",
    "rel-ratebeer": "beer_ratings-total_score",
    "rel-salt": "item-plant",
    "rel-stack": "badges-class",
    "rel-trial": "eligibilities-adult",
}
every_twin = pytest.mark.parametrize("name", TWINS)
pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


@pytest.fixture(scope="module")
def task_of(database: Callable[[str], Database]) -> Callable[[str, str], Task]:
    """A task of a twin, whose labels are read once."""
    return cache(lambda name, task_name: database(name).task(task_name))


@pytest.fixture(scope="module")
def run_of(
    database: Callable[[str], Database],
    task_of: Callable[[str, str], Task],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str, str], Run]:
    """The run of a task, made once; LightGBM beside it for the first task of a database."""

    @cache
    def make(name: str, task_name: str) -> Run:
        db, task = database(name), task_of(name, task_name)
        options = Options(baseline_hops=(1,) if task_name == FIRST[name] else (), device="cpu")
        return train_run(
            db,
            task,
            tmp_path_factory.mktemp("runs") / task_name,
            RunConfig.of("cpu", task.task_type, TINY),
            options,
        )

    return make


def test_the_tasks_of_the_paper_are_among_them() -> None:
    lines = [line.split() for line in PAPER.strip().splitlines()]
    wanted = [(name, task) for name, *tasks in lines for task in tasks]
    assert len(wanted) == 30
    assert set(wanted) <= set(TASKS)


@pytest.mark.parametrize(
    ("name", "task_name"), TASKS, ids=[f"{name}/{task}" for name, task in TASKS]
)
def test_train_evaluate_predict(
    name: str,
    task_name: str,
    database: Callable[[str], Database],
    task_of: Callable[[str, str], Task],
    run_of: Callable[[str, str], Run],
) -> None:
    db, task, run = database(name), task_of(name, task_name), run_of(name, task_name)
    assert run.record.to_json()["regime"] == "frozen", "as for every RelBench folder"
    assert run.record.to_json()["metric"] == METRICS[str(task.task_type)]
    assert set(run.record.to_json()["baselines"]) >= (
        {"lightgbm"} if task_name == FIRST[name] else set()
    )

    scores = evaluate_run(run, db, "test", device="cpu")
    assert scores["metrics"]["test"] == run.record.to_json()["metrics"]["test"]
    assert scores["rows"] == task.rows["test"]
    assert np.isfinite(scores["metrics"]["test"][METRICS[str(task.task_type)]])

    at = None if task.kind == "autocomplete" else db.test_timestamp
    predictor = Predictor(run, db, device="cpu")
    table = predictor.predict(at=at).table
    times = (
        db.read(task.entity_table, [task.time_col]).column(0)
        if task.kind == "autocomplete"
        else None
    )
    assert len(table) == (
        len(times.drop_null()) if times is not None else len(task.population(db, at))
    )
    assert table.column("prediction").null_count == 0
    chances = [c for c in table.column_names if c.startswith("probability")]
    assert len(chances) == {"binary_classification": 1, "regression": 0}.get(
        str(task.task_type), len(task.classes)
    )
    if task.task_type == "multiclass_classification":
        np.testing.assert_allclose(sum(table.column(c).to_numpy() for c in chances), 1)
        assert set(table.column("prediction").to_pylist()) <= set(task.classes)
    else:
        assert np.isfinite(table.column(chances[0] if chances else "prediction").to_numpy()).all()


@pytest.mark.parametrize(
    ("name", "task_name"),
    [("rel-trial", "study-outcome"), ("rel-salt", "sales-office"), ("rel-stack", "user-badge")],
)
def test_inferred_kinds_train_too(
    name: str, task_name: str, own_cache: None, tmp_path: Path
) -> None:
    """A hosted database states no kinds: columns without a value, codes that look like numbers, and
    texts are found as they are."""
    db = gelgt.open(make_twin(name, tmp_path / name, kinds=False))
    task = db.task(task_name)
    run = train_run(
        db,
        task,
        tmp_path / "run",
        RunConfig.of("cpu", task.task_type, TINY),
        Options(baseline_hops=(), device="cpu"),
    )
    assert run.record.to_json()["regime"] == "frozen"
    assert np.isfinite(run.record.to_json()["metrics"]["test"][METRICS[str(task.task_type)]])


@pytest.mark.parametrize("visibility", ["frozen", "seed-time"])
@every_twin
def test_no_sampled_row_is_of_the_future(
    name: str,
    visibility: Any,
    database: Callable[[str], Database],
    task_of: Callable[[str, str], Task],
) -> None:
    """Around the seeds of every task: nothing at or after the seed time; nothing after it where the
    row itself is asked about."""
    db = database(name)
    for task_name in twin_tasks(name):
        task = task_of(name, task_name)
        # the history is no part of what is sampled
        config = RunConfig.of("cpu", task.task_type, {"model.history": 0})
        data = TrainingData.of(db, task, in_regime(config, task, visibility))
        seen = 0
        for split, seeds in data.seeds.items():
            there = seeds.take(np.flatnonzero(data.exists(seeds))[:200])
            sample = data.sampler.sample(there.node, there.time, there.key)
            times = data.graph.node_time[sample.node]
            seed_times = np.repeat(there.time, np.diff(sample.offsets))
            others = (sample.hop > 0) & (times != TIMELESS)
            seen += int(np.count_nonzero(others))
            assert not (times[others] == NEVER).any()
            latest = seed_times[others] - (task.kind != "autocomplete")
            if visibility == "frozen":
                latest = np.minimum(
                    latest, np.datetime64(str(db.test_timestamp), "s").astype(np.int64)
                )
            assert (times[others] <= latest).all(), (task_name, split)
        assert seen > 0, task_name


@every_twin
def test_what_comes_later_changes_no_prediction(
    name: str,
    database: Callable[[str], Database],
    task_of: Callable[[str, str], Task],
    run_of: Callable[[str, str], Run],
    tmp_path: Path,
) -> None:
    """Bit for bit, whether or not the rows after a time exist: also for rows that refer to what is
    to come."""
    whole, run = database(name), run_of(name, FIRST[name])
    cut = gelgt.open(_cut(whole, tmp_path / name))
    assert sum(cut.num_rows(t) for t in cut.table_names) < sum(
        whole.num_rows(t) for t in whole.table_names
    )
    task = task_of(name, FIRST[name])
    rows = list(range(cut.num_rows(task.entity_table))) if task.kind == "autocomplete" else None
    at = None if task.kind == "autocomplete" else whole.test_timestamp
    found = [Predictor(run, db, device="cpu").predict(rows, at=at).table for db in (whole, cut)]
    assert len(found[0]) > 10
    assert found[0].equals(found[1])


def _cut(db: Database, target: Path) -> Path:
    """The rows up to the test time, by their own time or by the rows that date them; references to
    later ones are null."""
    (target / "db").mkdir(parents=True)
    shutil.copy(db.folder / "manifest.yaml", target)
    until = np.datetime64(str(db.test_timestamp))
    tables = {name: pq.read_table(db.paths(name)[0]) for name in db.table_names}
    times = RowTimes(db)
    kept = {name: np.flatnonzero(times.of(name) <= instant(until)) for name in db.table_names}
    for name, table in tables.items():
        table = table.take(pa.array(kept[name]))
        numbers = {
            key.column: {row: place for place, row in enumerate(kept[key.table].tolist())}
            for key in db.table(name).foreign_keys
        }
        if (pkey := db.table(name).pkey) is not None:
            numbers[pkey] = {row: place for place, row in enumerate(kept[name].tolist())}
        for column, places in numbers.items():
            values = pa.array([places.get(v) for v in table.column(column).to_pylist()], pa.int64())
            table = table.set_column(table.schema.get_field_index(column), column, values)
        pq.write_table(table, target / "db" / f"{name}.parquet")
    return target


@every_twin
def test_hidden_columns_do_not_reach_the_model(
    name: str,
    twin: Callable[[str], Path],
    database: Callable[[str], Database],
    run_of: Callable[[str, str], Run],
    tmp_path: Path,
) -> None:
    """The target of an autocomplete task, and every column that would give it away, mixed among the
    rows: predictions stay."""
    db, run = database(name), run_of(name, AUTOCOMPLETE[name])
    shutil.copytree(twin(name), tmp_path / name)
    hidden = [
        pair
        for pair in db.task(AUTOCOMPLETE[name]).remove_columns
        if pair[1] in db.table(pair[0]).columns
    ]
    assert hidden
    for table, column in hidden:
        path = tmp_path / name / "db" / f"{table}.parquet"
        rows = pq.read_table(path)
        mixed = rows.column(column).take(pa.array(np.roll(np.arange(len(rows)), 7)))
        assert not mixed.equals(rows.column(column)) or column.endswith("_raw")
        pq.write_table(rows.set_column(rows.schema.get_field_index(column), column, mixed), path)
    found = [
        Predictor(run, source, device="cpu").predict().table for source in (db, tmp_path / name)
    ]
    assert found[0].equals(found[1])
