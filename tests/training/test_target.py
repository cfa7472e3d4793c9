"""Labels to what a network learns, and back."""

import json

import numpy as np
import pyarrow as pa
import pytest
import torch
from tiny import opened, small

from gelgt import Database, GelgtError, Task
from gelgt.nn.target import Target, mostly_alike
from gelgt.training.data import TrainingData
from gelgt.training.regime import in_regime


def test_binary_starts_at_the_base_rate(task: Task) -> None:
    target = Target.of(task)
    rate = target.labels(task, "train").mean()
    assert target.decode(torch.tensor([target.start]))[0] == pytest.approx(rate)
    assert target.metric == "roc_auc"


@pytest.mark.parametrize(
    "task_type", ["regression", "multiclass_classification", "binary_classification"]
)
def test_json_gives_the_same_target(task: Task, task_type: str) -> None:
    from dataclasses import replace

    target = Target.of(task)
    if task_type != "binary_classification":
        target = replace(
            target,
            space=replace(
                target.space, task_type=task_type, labels=("a", "b") if "multi" in task_type else ()
            ),
            start=(0.0, 0.0) if "multi" in task_type else (0.0,),
        )
    assert Target.from_dict(json.loads(json.dumps(target.to_dict()))) == target
    with pytest.raises(GelgtError, match="target"):
        Target.from_dict({"space": {}})
    with pytest.raises(GelgtError, match="logits"):
        Target.from_dict(target.to_dict() | {"start": []})


def test_regression_is_standardised_and_stays_inside_the_percentiles() -> None:
    from gelgt.tasks.label_space import LabelSpace

    target = Target(LabelSpace("regression"), centre=10.0, scale=2.0, low=7.0, high=13.0)
    assert target.encode(np.array([10.0, 14.0])).tolist() == [0.0, 2.0]
    assert target.decode(torch.tensor([[0.5], [9.0], [-9.0]])).tolist() == [11.0, 13.0, 7.0]
    assert target.loss(
        torch.tensor([[1.0], [0.0]]), torch.tensor([0.0, 0.5])
    ).item() == pytest.approx(0.75)


def test_a_few_large_counts_do_not_set_the_scale(task: Task) -> None:
    """Half of the labels are 0 to 9, and a few are thousands: ordinary rows still differ by a good
    part of the unit."""
    from dataclasses import replace

    table = task.table("train")
    counts = np.tile(np.arange(20.0), 1 + table.num_rows // 20)[: table.num_rows]
    counts[:: max(1, table.num_rows // 5)] = 1_000.0
    place = table.schema.get_field_index(str(task.target_col))
    labels = table.set_column(place, task.target_col, pa.array(counts))
    counted = replace(task, task_type="regression", labels=dict(task.labels) | {"train": labels})
    target = Target.of(counted)
    assert target.centre == np.median(counts)
    assert target.scale == pytest.approx(np.abs(counts - target.centre).mean())
    assert target.scale < counts.std() / 3


def test_predictions_of_whole_numbers_are_whole(task: Task) -> None:
    from dataclasses import replace

    table = task.table("train")
    place = table.schema.get_field_index(str(task.target_col))
    counts = np.tile([0.0, 1.0, 2.0, 9.0], 1 + table.num_rows // 4)[: table.num_rows]

    def target_of(labels: np.ndarray) -> Target:
        changed = table.set_column(place, task.target_col, pa.array(labels))
        split = dict(task.labels) | {"train": changed}
        return Target.of(replace(task, task_type="regression", labels=split))

    target = target_of(counts)
    assert target.is_whole
    out = target.encode(np.array([0.4, 0.6, 1.2, 8.7, 99.0]))[:, None]
    assert target.decode(out).tolist() == [0.0, 1.0, 1.0, 9.0, 9.0]
    np.testing.assert_allclose(target.values(out), [0.4, 0.6, 1.2, 8.7, 9.0], rtol=1e-6)
    assert target.rounded(np.array([2.6])).tolist() == [3.0]
    assert Target.from_dict(json.loads(json.dumps(target.to_dict()))) == target

    counts[0] = 0.25
    target = target_of(counts)
    assert not target.is_whole
    np.testing.assert_allclose(target.decode(out), target.values(out), rtol=1e-12)


def test_a_run_from_before_predictions_were_rounded_predicts_as_it_did() -> None:
    from gelgt.tasks.label_space import LabelSpace

    target = Target(LabelSpace("regression"), centre=1.0, low=0.0, high=9.0)
    content = {k: v for k, v in target.to_dict().items() if k != "is_whole"}
    assert Target.from_dict(content).decode(torch.tensor([[0.25]])).tolist() == [1.25]


def test_multiclass_and_multilabel_decode_to_probabilities() -> None:
    from gelgt.tasks.label_space import LabelSpace

    classes = Target(
        LabelSpace("multiclass_classification", ("a", "b", "c")), start=(0.0, 0.0, 0.0)
    )
    assert classes.outputs == 3
    assert classes.decode(torch.tensor([[0.0, 1.0, 2.0]])).sum() == pytest.approx(1.0)
    assert classes.loss(torch.zeros(2, 3), torch.tensor([0, 2])).item() == pytest.approx(np.log(3))
    labels = Target(LabelSpace("multilabel_classification", (0, 1), True), start=(0.0, 0.0))
    assert labels.decode(torch.zeros(1, 2)).tolist() == [[0.5, 0.5]]
    assert labels.loss(torch.zeros(2, 2), torch.ones(2, 2)).item() == pytest.approx(np.log(2))


def test_labels_that_are_mostly_alike() -> None:
    assert mostly_alike(np.array([0.0] * 97 + [1.0, 2.0, np.nan, 5.0])) == (0.0, 0.97)
    assert mostly_alike(np.arange(10.0)) is None
    assert mostly_alike(np.zeros(10)) is None  # nothing else to tell apart
    assert mostly_alike(np.array([np.nan])) is None


def test_the_user_is_told_what_that_does(db: Database, task: Task) -> None:
    counted = db.task(
        "PREDICT COUNT(support_tickets.*, 0, 10, days) FOR EACH customers.id",
        val=task.val_timestamp,
        test=task.test_timestamp,
    )
    texts = TrainingData.of(db, counted, in_regime(small(counted.task_type), counted)).notices()
    assert any(
        "of the labels are 0" in text and "predict whether it is 0" in text for text in texts
    )
    assert not opened(db, task, in_regime(small(task.task_type), task)).notices()
