from typing import Any

import pyarrow as pa
import pytest

from gelgt.errors import TaskError
from gelgt.tasks.labels import Raw
from gelgt.tasks.targets import category_type, finish
from gelgt.tasks.task import Definition, TaskType


def raw(
    train: list[Any], val: list[Any] | None = None, test: list[Any] | None = None
) -> dict[str, Raw]:
    splits = {}
    for split, values in (
        ("train", train),
        ("val", train if val is None else val),
        ("test", train if test is None else test),
    ):
        target = pa.array(values, pa.array(train).type)
        splits[split] = Raw(
            pa.table(
                {
                    "time": pa.array(range(len(values)), pa.timestamp("us")),
                    "entity": range(len(values)),
                    "target": target,
                }
            ),
            len(values),
        )
    return splits


def definition(task_type: TaskType | None = None) -> Definition:
    return Definition("t", "external", "customers", "id", "y", "at", task_type)


@pytest.mark.parametrize(
    ("values", "task_type", "labels"),
    [
        ([True, False], "binary_classification", [1, 0]),
        ([1, 0, 1], "binary_classification", [1, 0, 1]),
        ([1.0, 0.0], "binary_classification", [1, 0]),
        ([1, 0, 2], "regression", [1.0, 0.0, 2.0]),
        ([1, 1], "regression", [1.0, 1.0]),
        (["b", "a", "b"], "multiclass_classification", [1, 0, 1]),
    ],
)
def test_inferred(values: list[Any], task_type: str, labels: list[float]) -> None:
    finished = finish(raw(values), definition())
    assert finished.task_type == task_type
    assert finished.tables["train"].column("y").to_pylist() == labels
    assert finished.tables["train"].column_names == ["at", "id", "y"]


@pytest.mark.parametrize("texts", [["t", "f"], ["Yes", "no"], ["TRUE", "false "], ["1", "0"]])
def test_texts_that_say_true_and_false(texts: list[str]) -> None:
    finished = finish(raw([texts[0], texts[1], texts[0]]), definition("binary_classification"))
    assert finished.tables["train"].column("y").to_pylist() == [1, 0, 1]
    assert finish(raw(texts), definition()).task_type == "multiclass_classification", (
        "only where a binary task is asked for"
    )
    with pytest.raises(TaskError, match="holds texts, not 0 and 1"):
        finish(raw([*texts, "perhaps"]), definition("binary_classification"))


def test_later_values_do_not_change_what_is_learned() -> None:
    """The type comes from training; a value that does not fit it is an error that names it, not
    another model."""
    assert finish(raw([0, 7], test=[0, 1]), definition()).task_type == "regression"
    assert finish(raw([3, 3], val=[0, 1], test=[0, 1]), definition()).task_type == "regression"
    with pytest.raises(TaskError, match="other than 0 and 1: 7"):
        finish(raw([0, 1], test=[0, 7]), definition())


def test_classes_are_those_of_training() -> None:
    finished = finish(
        raw([3, 1, 3], val=[1, 2], test=[3, 9, 9]), definition("multiclass_classification")
    )
    assert finished.classes == (1, 3)
    assert {s: t.column("y").to_pylist() for s, t in finished.tables.items()} == {
        "train": [1, 0, 1],
        "val": [0],
        "test": [1],
    }
    assert finished.notices == (
        "val: 1 rows of classes that training does not have were left out",
        "test: 2 rows of classes that training does not have were left out",
    )


def test_known_classes_are_kept() -> None:
    finished = finish(
        raw(["b", "c"]), definition("multiclass_classification"), classes=("a", "b", "c")
    )
    assert finished.classes == ("a", "b", "c")
    assert finished.tables["val"].column("y").to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("values", "task_type", "message"),
    [
        ([0, 2], "binary_classification", "holds values other than 0 and 1: 2."),
        (["a", "b"], "binary_classification", "'y' holds texts, not 0 and 1: 'a', 'b'."),
        (["a", "b"], "regression", "'y' of a regression task holds texts: 'a', 'b'."),
        (["a", "a"], None, "'y' has the single value 'a' in training."),
        (list(map(str, range(10_001))), None, "'y' has 10,001 different values in training."),
        ([[1.0]], None, "A target that is a list needs its task type."),
        (
            [],
            "regression",
            "The task 't' has no label rows in train and val and test (train 0, val 0, test 0).",
        ),
    ],
)
def test_errors(values: list[Any], task_type: TaskType | None, message: str) -> None:
    with pytest.raises(TaskError) as caught:
        finish(
            raw(values)
            if values
            else {s: Raw(r.rows.slice(0, 0), 0) for s, r in raw([1.5]).items()},
            definition(task_type),
        )
    assert message in caught.value.message


def test_multilabel_lists_stay() -> None:
    finished = finish(raw([[1.0, 0.0], [0.0, 1.0]]), definition("multilabel_classification"))
    assert finished.tables["test"].column("y").to_pylist() == [[1.0, 0.0], [0.0, 1.0]]


def test_numbers_that_name_categories() -> None:
    assert category_type(raw([0, 1, 1])) == "binary_classification"
    assert category_type(raw([1, 2])) == "multiclass_classification"
