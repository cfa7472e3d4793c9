"""Label tables are RelBench's own, row for row: sentences, manifests, saved tasks."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import relbench

import gelgt
from gelgt.tasks import Task
from gelgt.tasks.task import SPLITS

SENTENCES = {
    "driver-position": (
        "PREDICT AVG(results.positionOrder, 0, 60, days) FOR EACH drivers.driverId",
        (7453, 499, 760),
    ),
    "driver-top3": (
        "PREDICT MIN(qualifying.position, 0, 30, days) <= 3 FOR EACH drivers.driverId",
        (1353, 588, 726),
    ),
    "driver-dnf": (
        "PREDICT COUNT(results.* WHERE results.statusId != 1, 0, 30, days) > 0 FOR EACH "
        "drivers.driverId "
        "WHERE COUNT(results.*, 0, 30, days) > 0",
        (11411, 566, 702),
    ),
}


def assert_same(task: Task, theirs: object) -> None:
    for split in SPLITS:
        frame = theirs.get_table(split, mask_input_cols=False).df  # type: ignore[attr-defined]
        mine = task.table(split)
        assert mine.num_rows == len(frame)
        assert mine.column(0).type == pa.timestamp("us")
        assert mine.column(1).type == pa.int64()
        times = frame[theirs.time_col].to_numpy().astype("datetime64[us]")  # type: ignore[attr-defined]
        np.testing.assert_array_equal(mine.column(0).to_numpy(), times)
        np.testing.assert_array_equal(
            mine.column(1).to_numpy(), frame[theirs.entity_col].to_numpy()
        )  # type: ignore[attr-defined]
        np.testing.assert_array_equal(
            mine.column(2).to_numpy(), frame[theirs.target_col].to_numpy()
        )  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", SENTENCES)
def test_sentence_gives_relbench_labels(relbench_data: Callable[[str], Path], name: str) -> None:
    folder = relbench_data("rel-f1")
    sentence, counts = SENTENCES[name]
    task = gelgt.open(folder).task(sentence, eval_timestamps=40)
    assert tuple(task.rows.values()) == counts
    assert_same(task, relbench.load_dataset(folder).load_task(name, regenerate=True))


@pytest.mark.parametrize(
    ("data", "name"),
    [("rel-f1", name) for name in SENTENCES]
    + [("rel-stack-beer", "post-votes"), ("rel-stack-beer", "user-engagement")],
)
def test_manifest_task_gives_relbench_labels(
    relbench_data: Callable[[str], Path], data: str, name: str
) -> None:
    folder = relbench_data(data)
    task = gelgt.open(folder).task(name)
    theirs = relbench.load_dataset(folder).load_task(name, regenerate=True)
    assert_same(task, theirs)
    assert task.num_eval_timestamps == theirs.num_eval_timestamps
    assert task.task_type == theirs.task_type.value


def test_posts_of_a_self_linked_table(relbench_data: Callable[[str], Path]) -> None:
    db = gelgt.open(relbench_data("rel-stack-beer"))
    votes = (
        "PREDICT COUNT(votes.* WHERE votes.VoteTypeId = 2, 0, 91, days) FOR EACH posts.Id "
        "WHERE posts.PostTypeId IN (1, 2)"
    )
    mine, theirs = db.task(votes, eval_timestamps=2), db.task("post-votes")
    for split in SPLITS:
        assert [c.to_pylist() for c in mine.table(split).columns] == [
            c.to_pylist() for c in theirs.table(split).columns
        ]
    answers = db.task(
        "PREDICT COUNT(posts.* VIA ParentId, 0, 91, days) > 0 FOR EACH posts.Id WHERE "
        "posts.PostTypeId = 1"
    )
    assert 0 < answers.preview().target["train"]["positives"] < 0.5


@pytest.mark.parametrize("regenerate", [False, True])
def test_saved_sentence_is_a_relbench_task(
    relbench_data: Callable[[str], Path], tmp_path: Path, regenerate: bool
) -> None:
    source = relbench_data("rel-f1")
    folder = tmp_path / "rel-f1"
    shutil.copytree(source, folder)
    task = gelgt.open(folder).task(SENTENCES["driver-dnf"][0], eval_timestamps=40, name="dnf")
    assert task.save() == folder / "tasks" / "dnf"
    assert_same(task, relbench.load_dataset(folder).load_task("dnf", regenerate=regenerate))
