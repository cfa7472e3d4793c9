"""More seed times in training: the same labels where both have one, and no window that reaches
behind the validation time."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import relbench

import gelgt
from gelgt import Database, Task, TrainConfig
from gelgt.demo import Shop
from gelgt.tasks.windows import differing_labels, has_windows, with_more_windows
from gelgt.testing import to_frames
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN
from gelgt.training.regime import in_regime


@pytest.fixture(scope="module")
def db(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("windows") / "shop")


def frame(task: Task, split: str = "train") -> pd.DataFrame:
    return task.table(split).to_pandas()


SENTENCES = [
    "PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id",
    "PREDICT COUNT(visits.*, 0, 14, days) FOR EACH customers.id",
    "PREDICT COUNT(orders.*, 0, 1, months) = 0 FOR EACH customers.id",
]


@pytest.mark.parametrize("sentence", SENTENCES)
@pytest.mark.parametrize("each", [2, 4])
def test_the_same_labels_and_more(db: Database, small_shop: Shop, sentence: str, each: int) -> None:
    task = db.task(sentence, val=small_shop.val_timestamp, test=small_shop.test_timestamp)
    more = with_more_windows(task, each)
    plain, dense = frame(task), frame(more)
    keys = [task.entity_col, task.time_col]
    both = plain.merge(dense, on=keys, suffixes=("", "_more"))
    assert len(both) == len(plain)
    assert (both[task.label_col] == both[f"{task.label_col}_more"]).all()
    assert len(dense) > (each - 1) * len(plain)
    assert not dense.duplicated(keys).any()
    assert plain[task.time_col].min() <= dense[task.time_col].min()
    assert dense[task.time_col].max() == plain[task.time_col].max()
    assert (dense[task.time_col] + task.timedelta <= task.val_timestamp).all()
    for split in ("val", "test"):
        assert more.table(split) is task.table(split)


def test_rows_after_the_validation_time_change_nothing(small_shop: Shop, tmp_path: Path) -> None:
    """What is learned from ends before the validation time: other orders after it leave the labels
    as they are."""
    shown = []
    for name in ("whole", "other"):
        frames = to_frames(small_shop)
        if name == "other":
            late = frames["orders"]["placed_at"] > pd.Timestamp(small_shop.val_timestamp)
            frames["orders"].loc[late, "customer_id"] = frames["orders"]["customer_id"].iloc[0]
        db = gelgt.open(frames, out=tmp_path / name)
        task = db.task(
            small_shop.sentence, val=small_shop.val_timestamp, test=small_shop.test_timestamp
        )
        shown.append((frame(with_more_windows(task, 3)), frame(task, "val")))
    pd.testing.assert_frame_equal(shown[0][0], shown[1][0])
    assert not shown[0][1].equals(shown[1][1])  # the rows did change


def test_labels_that_are_given_stay_as_they_are(db: Database, small_shop: Shop) -> None:
    forecast = db.task(SENTENCES[0], val=small_shop.val_timestamp, test=small_shop.test_timestamp)
    given = forecast.table("train").to_pandas()
    rows = pd.concat([given, *(forecast.table(split).to_pandas() for split in ("val", "test"))])
    rows[forecast.entity_col] = (
        db.keys("customers")
        .column(0)
        .take(rows[forecast.entity_col].to_numpy())
        .to_pandas()
        .to_numpy()
    )  # type: ignore[union-attr]
    task = db.task(
        rows,
        entity=f"customers.{forecast.entity_col}",
        timedelta="30 days",
        val=small_shop.val_timestamp,
        test=small_shop.test_timestamp,
    )
    assert not has_windows(task)
    assert with_more_windows(task, 4) is task


def test_small_tables_take_more_by_themselves(relbench_data: Callable[[str], Path]) -> None:
    from gelgt.presets import RunConfig

    db = gelgt.open(relbench_data("rel-f1"))
    ratios = {}
    for name in ("driver-top3", "driver-dnf"):
        task = db.task(name)
        data = TrainingData.of(db, task, in_regime(RunConfig.of("cpu", task.task_type), task))
        seeds, labels = data.learned("train", TrainConfig(windows="auto", stale=0))
        assert len(seeds) == len(labels)
        ratios[name] = len(seeds) / task.rows["train"]
    assert 3.5 < ratios["driver-top3"] < 4.5
    assert ratios["driver-dnf"] == 1


def saved(db: Database, small_shop: Shop, folder: Path, **options: Any) -> Path:
    times = {"val": small_shop.val_timestamp, "test": small_shop.test_timestamp}
    return db.task(SENTENCES[0], name="churn", **times, **options).save(folder / "churn")


def training_data(task: Task) -> TrainingData:
    from gelgt.presets import RunConfig

    return TrainingData.of(
        task.database, task, in_regime(RunConfig.of("cpu", task.task_type), task)
    )


def flip(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(target=1 - frame["target"])


EDITS: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "every label": ("train", flip),
    "one label": ("train", lambda frame: pd.concat([flip(frame[:1]), frame[1:]])),
    "a row less": ("train", lambda frame: frame.drop(index=3)),
    "a seed time less": (
        "train",
        lambda frame: frame[frame["timestamp"] != frame["timestamp"].unique()[2]],
    ),
    "validation": ("val", flip),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_files_are_what_is_learned(
    db: Database, small_shop: Shop, tmp_path: Path, edit: str
) -> None:
    folder = saved(db, small_shop, tmp_path)
    split, change = EDITS[edit]
    edited = change(pd.read_parquet(folder / f"{split}.parquet"))
    edited.to_parquet(folder / f"{split}.parquet")
    task = db.task(folder)
    data = training_data(task)
    seeds, labels = data.windows("train", 4)
    assert len(seeds) == task.rows["train"]
    assert labels.tolist() == task.table("train").column("target").to_pylist()
    seeds, labels = data.windows(KNOWN, 4)
    rows = pd.concat([task.table("train").to_pandas(), task.table("val").to_pandas()])
    rows = rows[rows["timestamp"] + task.timedelta <= task.test_timestamp]
    assert labels.tolist() == rows["target"].tolist()
    assert seeds.time.tolist() == (rows["timestamp"].astype("int64") // 10**6).tolist()
    whole = db.task(SENTENCES[0], val=small_shop.val_timestamp, test=small_shop.test_timestamp)
    differ = {
        "every label": whole.rows["train"],
        "validation": whole.rows["val"],
        "a seed time less": whole.rows["train"] - len(edited),
    }
    count = differ.get(edit, 1)
    for notices in (data.notices("auto"), data.notices(1, retrain=True)):
        assert (
            f"{count:,} labels of training and validation are not what the SQL of 'churn' gives"
            in notices[0]
        )
    assert not any("SQL" in n for n in data.notices(1))


@pytest.mark.parametrize("options", [{}, {"max_rows": 200}])
def test_files_as_they_were_written_take_more_windows(
    db: Database, small_shop: Shop, tmp_path: Path, options: dict[str, Any]
) -> None:
    task = db.task(saved(db, small_shop, tmp_path, **options))
    assert task.is_read
    data = training_data(task)
    assert data.differing_labels == 0
    assert len(data.windows("train", 4)[0]) > task.rows["train"] or options
    assert not any("SQL" in n for n in data.notices("auto", retrain=True))


def test_official_files_take_more_windows(
    relbench_data: Callable[[str], Path], tmp_path: Path
) -> None:
    """RelBench's own labels, made by RelBench, are what the SQL gives."""
    folder = tmp_path / "rel-f1"
    shutil.copytree(relbench_data("rel-f1"), folder)
    for name in ("driver-dnf", "driver-top3", "driver-position"):
        theirs = relbench.load_dataset(folder).load_task(name, regenerate=True)
        for split in ("train", "val", "test"):
            theirs.get_table(split, mask_input_cols=False).df.to_parquet(
                folder / "tasks" / name / f"{split}.parquet"
            )
        task = gelgt.open(folder).task(name)
        assert task.is_read
        assert differing_labels(task) == 0
