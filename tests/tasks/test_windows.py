"""More seed times in training: the same labels where both have one, and no window that reaches behind the validation time."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import gelgt
from gelgt import Database, Task, TrainConfig
from gelgt.tasks.windows import has_windows, with_more_windows
from gelgt.testing import Shop, to_frames
from gelgt.training.data import TrainingData, in_regime


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
    own, dense = frame(task), frame(more)
    keys = [task.entity_col, task.time_col]
    both = own.merge(dense, on=keys, suffixes=("", "_more"))
    assert len(both) == len(own)
    assert (both[task.label_col] == both[f"{task.label_col}_more"]).all()
    assert len(dense) > (each - 1) * len(own)
    assert not dense.duplicated(keys).any()
    assert own[task.time_col].min() <= dense[task.time_col].min()
    assert dense[task.time_col].max() == own[task.time_col].max()
    assert (dense[task.time_col] + task.timedelta <= task.val_timestamp).all()
    for split in ("val", "test"):
        assert more.table(split) is task.table(split)


def test_rows_after_the_validation_time_change_nothing(small_shop: Shop, tmp_path: Path) -> None:
    """What is learned from ends before the validation time: other orders after it leave the labels as they are."""
    shown = []
    for name in ("whole", "other"):
        frames = to_frames(small_shop)
        if name == "other":
            late = frames["orders"]["placed_at"] > pd.Timestamp(small_shop.val_timestamp)
            frames["orders"].loc[late, "customer_id"] = frames["orders"]["customer_id"].iloc[0]
        db = gelgt.open(frames, out=tmp_path / name)
        task = db.task(small_shop.sentence, val=small_shop.val_timestamp, test=small_shop.test_timestamp)
        shown.append((frame(with_more_windows(task, 3)), frame(task, "val")))
    pd.testing.assert_frame_equal(shown[0][0], shown[1][0])
    assert not shown[0][1].equals(shown[1][1])  # the rows did change


def test_labels_that_are_given_stay_as_they_are(db: Database, small_shop: Shop) -> None:
    made = db.task(SENTENCES[0], val=small_shop.val_timestamp, test=small_shop.test_timestamp)
    given = made.table("train").to_pandas()
    rows = pd.concat([given, *(made.table(split).to_pandas() for split in ("val", "test"))])
    rows[made.entity_col] = db.keys("customers").column(0).take(rows[made.entity_col].to_numpy()).to_pandas().to_numpy()  # type: ignore[union-attr]
    task = db.task(
        rows, entity=f"customers.{made.entity_col}", timedelta="30 days", val=small_shop.val_timestamp, test=small_shop.test_timestamp
    )
    assert not has_windows(task)
    assert with_more_windows(task, 4) is task


def test_small_tables_take_more_by_themselves(relbench_data: Callable[[str], Path]) -> None:
    from gelgt.presets import RunConfig

    db = gelgt.open(relbench_data("rel-f1"))
    found = {}
    for name in ("driver-top3", "driver-dnf"):
        task = db.task(name)
        data = TrainingData.of(db, task, in_regime(RunConfig.of("cpu", task.task_type), task))
        seeds, labels = data.learned("train", TrainConfig(windows="auto"))
        assert len(seeds) == len(labels)
        found[name] = len(seeds) / task.rows["train"]
    assert 3.5 < found["driver-top3"] < 4.5
    assert found["driver-dnf"] == 1
