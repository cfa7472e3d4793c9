"""Learning what is known at the test time, once validation has chosen: no more than that, and no
other scores before it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import opened, small

import gelgt
from gelgt import Database, GelgtError, Task
from gelgt.cli.scores import retrain_words
from gelgt.demo import Shop
from gelgt.inference.evaluate import evaluate_run
from gelgt.inference.relbench import write_relbench
from gelgt.nn.columns import PREFIX
from gelgt.runs.folder import CHECKPOINT
from gelgt.testing import to_frames
from gelgt.training import Options, Progress, Run, shares, stages, train_run
from gelgt.training.budget import Budget
from gelgt.training.checkpoint import State
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import Trained, known_share, retraining_seconds
from gelgt.training.examples import KNOWN
from gelgt.training.fit import Trainer
from gelgt.training.job import Clock, Job
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime
from gelgt.training.session import Goal

pytestmark = pytest.mark.usefixtures("usual_shares")


def data_of(db: Database, task: Task) -> TrainingData:
    return opened(db, task, in_regime(small(task.task_type), task))


def seconds(time: pd.Timestamp | None) -> int:
    assert time is not None
    return int(time.timestamp())


def rows_of(data: TrainingData, split: str, each: int = 1) -> dict[tuple[int, int], float]:
    seeds, labels = data.windows(split, each)
    return {(int(n), int(t)): float(y) for n, t, y in zip(seeds.node, seeds.time, labels)}


@pytest.mark.parametrize("each", [1, 3])
def test_known_labels_end_by_the_test_time(db: Database, task: Task, each: int) -> None:
    data = data_of(db, task)
    known, val = rows_of(data, KNOWN, each), rows_of(data, "val")
    assert task.timedelta is not None
    last = max(time for _, time in known) + task.timedelta.total_seconds()
    assert last == seconds(task.test_timestamp), "the last window ends at the test time"
    assert max(time for _, time in known) >= max(time for _, time in val)
    both = known.keys() & val.keys()
    assert len(both) > 0
    assert all(known[key] == val[key] for key in both)
    assert len(known) > each * len(rows_of(data, "train"))


def test_given_labels_whose_window_passes_the_test_time_are_not_known(
    db: Database, task: Task
) -> None:
    """A table of labels that someone else has made, whose last validation windows reach over the
    test time."""
    assert task.test_timestamp is not None
    assert task.timedelta is not None
    given = replace(task, sql=None, test_timestamp=task.test_timestamp - pd.Timedelta(days=15))
    data, length = data_of(db, given), int(task.timedelta.total_seconds())
    everything = np.concatenate([data.seeds[split].time for split in ("train", "val")]) + length
    found = np.array([time for _, time in rows_of(data, KNOWN)])
    assert 0 < np.count_nonzero(everything > seconds(given.test_timestamp)) < task.rows["val"]
    assert len(found) == np.count_nonzero(everything <= seconds(given.test_timestamp))
    assert found.max() + length <= seconds(given.test_timestamp)


def test_rows_after_the_test_time_change_nothing(small_shop: Shop, tmp_path: Path) -> None:
    """Other orders after the test time: other test labels, and the same weights."""
    runs, labels = [], []
    for name in ("whole", "other"):
        frames = to_frames(small_shop)
        if name == "other":
            late = frames["orders"]["placed_at"] > pd.Timestamp(small_shop.test_timestamp)
            frames["orders"].loc[late, "customer_id"] = frames["orders"]["customer_id"].iloc[0]
        db = gelgt.open(frames, out=tmp_path / name)
        task = db.task(
            small_shop.sentence, val=small_shop.val_timestamp, test=small_shop.test_timestamp
        )
        # on a busy machine a limit of time leaves out folds of one run and not of the other
        config = small(
            task.task_type, train__retrain=True, train__windows=2, train__time_limit=None
        )
        runs.append(train_run(db, task, tmp_path / f"run-{name}", config, Options(baselines=False)))
        labels.append(task.table("test").to_pandas())
    assert not labels[0].equals(labels[1])
    assert runs[0].record.retrain == runs[1].record.retrain
    first, second = runs[0].weights(), runs[1].weights()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def again(db: Database, task: Task, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that was retrained and not interrupted."""
    config = small(task.task_type, train__retrain=True)
    out = tmp_path_factory.mktemp("again") / "run"
    return train_run(db, task, out, config, Options(baselines=False))


def test_validation_is_scored_before_and_test_after(
    db: Database, task: Task, again: Run, tmp_path: Path
) -> None:
    none = Options(baselines=False)
    plain = train_run(db, task, tmp_path / "plain", small(task.task_type), none)
    assert plain.record.to_json()["retrain"] is None
    assert again.record.to_json()["retrain"]["labels"] == "known"
    assert again.record.to_json()["retrain"]["rows"] > task.rows["train"] + task.rows["val"] / 2
    # before any map of probabilities, which has no shift where a model is retrained
    assert all(
        again.record.parts[part]["val"] == s["val"] for part, s in plain.record.parts.items()
    )
    assert again.record.metrics["val"]["roc_auc"] == plain.record.metrics["val"]["roc_auc"]
    assert again.record.to_json()["metrics"]["test"] != plain.record.to_json()["metrics"]["test"]
    found = evaluate_run(again, db)
    assert found["metrics"]["test"] == again.record.to_json()["metrics"]["test"], (
        "the folder holds the weights that were scored"
    )
    assert found["notices"] == []
    assert "learned the labels of 'val'" in evaluate_run(again, db, split="val")["notices"][0]
    assert write_relbench(again, db, tmp_path / "submission").exists()
    both = train_run(
        db,
        task,
        tmp_path / "both",
        small(task.task_type, train__retrain=True),
        Options(baselines=False, retrain_all=True),
    )
    assert both.record.to_json()["metrics"] == again.record.to_json()["metrics"]
    assert both.record.to_json()["retrain"]["labels"] == "all"
    with pytest.raises(GelgtError) as caught:
        write_relbench(both, db, tmp_path / "other")
    assert caught.value.code == "learned_test"


def test_an_interrupted_retrain_goes_on(
    db: Database, task: Task, again: Run, tmp_path: Path
) -> None:
    config, none = small(task.task_type, train__retrain=True), Options(baselines=False)
    steps = iter(range(1000))
    selecting = 2 * 4 + 2  # epochs of four steps, and whoever is asked before
    cut = train_run(db, task, tmp_path / "cut", config, none, stop=lambda: next(steps) >= selecting)
    assert cut.record.to_json()["retrain"] is None
    assert cut.record.to_json()["ended"] == "interrupted"
    assert cut.record.to_json()["metrics"]["val"] == again.record.to_json()["metrics"]["val"]
    assert (tmp_path / "cut" / CHECKPOINT).exists()
    rest = train_run(db, task, tmp_path / "cut", config, Options(baselines=False, resume=True))
    assert rest.record.to_json()["retrain"] == again.record.to_json()["retrain"]
    assert rest.record.to_json()["metrics"] == again.record.to_json()["metrics"]
    weights = again.weights()
    assert all(torch.equal(weights[name], value) for name, value in rest.weights().items())


def test_networks_without_a_share_are_not_retrained(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "choose_shares", lambda *_: shares.Shares(0.0, 0.25))
    weights, runs = [], []
    for is_retrained in (False, True):
        config = small(few.task_type, train__retrain=is_retrained)
        out = tmp_path / str(is_retrained)
        runs.append(train_run(db, few, out, config, Options(baselines=False)))
        weights.append(runs[-1].weights())
    once, again = weights
    changed = {name for name, value in once.items() if not torch.equal(again[name], value)}
    assert any(name.startswith(PREFIX) for name in changed)
    assert all(name.startswith((PREFIX, "trees.")) for name in changed)
    retrained = runs[1].record.retrain
    assert retrained is not None
    assert (retrained.labels, retrained.epochs) == ("known", 0)
    assert "epochs" not in retrain_words(retrained)


def test_networks_are_retrained_where_time_is_left(
    db: Database, few: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads columns is retrained in any case."""
    config = small(few.task_type, train__retrain=True, train__time_limit=300.0)
    weights, facts = [], []
    for seconds in (0.0, 1e6):
        monkeypatch.setattr(stages, "retraining_seconds", lambda *_, seconds=seconds: seconds)
        run = train_run(db, few, tmp_path / str(seconds), config, Options(baselines=False))
        weights.append(run.weights())
        facts.append((run.record.retrain, run.record.time.cut_off))
    (whole, nothing), (part, said) = facts
    assert whole is not None
    assert part is not None
    assert whole.epochs > 0
    assert part.epochs == 0
    assert whole.rows == part.rows
    assert nothing == []
    assert said == ["networks over subgraphs were not retrained"]
    changed = {n for n, value in weights[0].items() if not torch.equal(weights[1][n], value)}
    assert changed
    assert not any(name.startswith((PREFIX, "trees.")) for name in changed)


def test_retraining_takes_the_chosen_epochs_alone(db: Database, task: Task) -> None:
    data = data_of(db, task)
    config = in_regime(small(task.task_type), task)
    clock = Clock(Progress(), phases={"training": 60.0})
    job = Job(data, config, Options(), Path(), "", "", torch.device("cpu"), clock, Budget(None))
    history = [{"epoch": epoch} for epoch in range(1, 7)]
    state = State(history=history, best_epoch=3)
    found = retraining_seconds(job, Trained((), (state,)))
    assert found == pytest.approx(30.0 * known_share(data, config.train))


def test_the_mean_of_the_chosen_epochs_is_taken(db: Database, task: Task) -> None:
    data = data_of(db, task)

    def trained(*mixed: int) -> dict[str, torch.Tensor]:
        config = small(task.task_type, train__epochs=9)
        model = make_model(data, config)
        state = Trainer(model, data, config.train, goal=Goal((KNOWN,), mixed)).run()
        assert state.epoch == max(mixed)
        return {
            name: tensor.clone()
            for name, tensor in model.state_dict().items()
            if tensor.is_floating_point()
        }

    first, third, both = trained(1), trained(3), trained(1, 3)
    assert any(not torch.equal(first[name], third[name]) for name in first)
    for name, tensor in both.items():
        torch.testing.assert_close(tensor, (first[name] + third[name]) / 2)


def test_retraining_takes_what_its_labels_take(db: Database, task: Task) -> None:
    data = data_of(db, task)
    whole = small(task.task_type, train__steps_per_epoch=None).train
    labels = [len(data.windows(split, 1)[0]) for split in (KNOWN, "train")]
    assert known_share(data, whole) == pytest.approx(labels[0] / labels[1])
    assert known_share(data, whole.model_copy(update={"steps_per_epoch": 1})) == 1.0


def test_whoever_watches_is_told(db: Database, task: Task, tmp_path: Path) -> None:
    told: list[tuple[int, int, int]] = []

    class Watcher(Progress):
        def retrain(self, number: int, count: int, epochs: int) -> None:
            told.append((number, count, epochs))

    config = small(task.task_type, train__retrain=True, train__ensemble=2)
    run = train_run(
        db, task, tmp_path / "run", config, Options(baselines=False), progress=Watcher()
    )
    assert [(number, count) for number, count, _ in told] == [(1, 2), (2, 2)]
    assert [epochs for _, _, epochs in told] == [
        member["best_epoch"] for member in run.record.to_json()["members"]
    ]


def test_labels_that_cannot_be_made_end_a_run_before_it_trains(
    db: Database, task: Task, tmp_path: Path
) -> None:
    """The label tables hold 0 and 1 alone, windows between them a 2: nobody wants to hear of it
    after an hour of training."""
    assert task.sql is not None
    changed = (
        f"CASE WHEN timestamp > '{task.val_timestamp}' THEN 2 ELSE {task.label_col} END AS "
        f"{task.label_col}"
    )
    sql = f"SELECT * REPLACE ({changed}) FROM ({task.sql})"
    odd = replace(task, sql=sql)
    steps = Steps()
    with pytest.raises(GelgtError) as caught:
        train_run(
            db,
            odd,
            tmp_path / "run",
            small(task.task_type, train__retrain=True),
            Options(baselines=False),
            progress=steps,
        )
    assert caught.value.code == "bad_target"
    assert "make it a binary_classification" in caught.value.message
    assert "--task-type" in caught.value.hint
    assert steps.taken == 0


class Steps(Progress):
    def __init__(self) -> None:
        self.taken = 0

    def step(self, *facts: object) -> None:
        self.taken += 1


def test_a_part_of_an_epoch_is_refitted_as_a_part(db: Database, task: Task, tmp_path: Path) -> None:
    steps = Steps()
    config = small(
        task.task_type,
        train__retrain=True,
        train__steps_per_epoch=200,
        train__time_limit=1e-3,
        model__trees=False,
        model__column_members=0,  # beside others it would not be retrained
    )
    run = train_run(db, task, tmp_path / "run", config, Options(baselines=False), progress=steps)
    assert run.record.ended == "time limit"
    taken = run.record.epochs[0].step
    assert taken is not None
    assert steps.taken == 2 * taken < 2 * 200


def test_sampled_rows_stay_as_few(db: Database, small_shop: Shop) -> None:
    few = db.task(
        small_shop.sentence,
        val=small_shop.val_timestamp,
        test=small_shop.test_timestamp,
        max_rows=50,
    )
    data = data_of(db, few)
    assert (
        few.rows["train"]
        == len(data.windows("train", 3)[0])
        == len(data.windows(KNOWN, 3)[0])
        == 50
    )


def test_what_was_learned_goes_by_times(
    db: Database, task: Task, small_shop: Shop, again: Run
) -> None:
    """A split of another task has the same name and other times."""
    assert task.val_timestamp is not None
    assert task.test_timestamp is not None
    earlier = db.task(
        small_shop.sentence,
        val=task.val_timestamp - pd.Timedelta(days=90),
        test=task.val_timestamp,
        eval_timestamps=1,
    )
    assert "learned the labels of 'test'" in evaluate_run(again, db, task=earlier)["notices"][0]
    later = db.task(
        small_shop.sentence,
        val=task.test_timestamp,
        test=task.test_timestamp + pd.Timedelta(days=30),
        eval_timestamps=1,
    )
    assert not any(
        "learned" in text for text in evaluate_run(again, db, split="val", task=later)["notices"]
    )


def test_a_finished_run_of_another_test_time_is_not_resumed(
    db: Database, small_shop: Shop, tmp_path: Path
) -> None:
    val, test = small_shop.val_timestamp, pd.Timestamp(small_shop.test_timestamp)
    tasks = [
        db.task(small_shop.sentence, val=val, test=t, eval_timestamps=1)
        for t in (test, test + pd.Timedelta(days=20))
    ]
    assert tasks[0].table("val").equals(tasks[1].table("val"))
    train_run(db, tasks[0], tmp_path / "run", small(), Options(baselines=False))
    with pytest.raises(GelgtError) as caught:
        train_run(db, tasks[1], tmp_path / "run", small(), Options(baselines=False, resume=True))
    assert caught.value.code == "other_run"
