"""No label of a split depends on a row that lies behind the split."""

from collections.abc import Callable
from typing import Any

import pytest

from gelgt.sources.database import Database

Make = Callable[..., Database]
SENTENCES = [
    "PREDICT COUNT(orders.*, 0, 30, days) > 0 FOR EACH customers.id",
    "PREDICT AVG(orders.amount, 3, 20, days) FOR EACH customers.id WHERE COUNT(orders.*, 0, 30, "
    "days) > 0",
    "PREDICT LAST(orders.status, 0, 1, month) FOR EACH customers.id",
    "PREDICT SUM(items.quantity, 0, 30, days) FOR EACH customers.id",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_train_and_val_labels_do_not_change_when_later_rows_vanish(
    make_db: Make, random_shop: Callable[..., Any], sentence: str
) -> None:
    full = make_db(random_shop()).task(sentence, eval_timestamps=1)
    # Cut at the end of the one test window: what is left must give the same train and val labels,
    # and test labels too.
    cut = make_db(random_shop(until="2024-06-02")).task(sentence, eval_timestamps=1)
    for split in ("train", "val", "test"):
        assert full.table(split).equals(cut.table(split))


def test_train_labels_do_not_change_when_rows_after_validation_vanish(
    make_db: Make, random_shop: Callable[..., Any]
) -> None:
    sentence = SENTENCES[0]
    full = make_db(random_shop()).task(sentence)
    cut = make_db(random_shop(until="2024-03-01")).task(
        sentence, val="2023-10-03", test="2023-12-02"
    )
    complete = full.table("train").to_pandas()
    fewer = cut.table("train").to_pandas()
    common = complete.merge(fewer, on=["timestamp", "id"], suffixes=("", "_cut"))
    assert len(common) == len(fewer) > 0
    assert (common.target == common.target_cut).all()


@pytest.mark.parametrize("sentence", SENTENCES)
def test_windows_end_before_the_next_split(
    make_db: Make, random_shop: Callable[..., Any], sentence: str
) -> None:
    task = make_db(random_shop()).task(sentence)
    times = task.preview().seed_times
    assert task.timedelta is not None
    assert times["train"][-1] + task.timedelta <= task.val_timestamp
    assert times["val"][-1] + task.timedelta <= task.test_timestamp
