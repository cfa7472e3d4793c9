"""Reads predictions/SPLIT.parquet into arrays: labels, and scores of the model and of the baselines
that have a column.

    task type                     label                  score of a model
    binary_classification         (n,) 0 or 1            (n,) probability of 1
    regression                    (n,)                   (n,) predicted value
    multiclass_classification     (n,) index of a class  (n, C) probability of each class
    multilabel_classification     (n, C) 0 or 1          (n, C) probability of each label
    recommendation                (n,) how many rows     (n, k) whether each recommendation was
                                  were right             right; read by `rankings.py`

Of the keys only the entity of each row is kept, as a number: rows of one entity are alike, so
intervals draw entities. Rows without a label or with a score that is not a number are left out and
counted, so that one bad row does not spoil every figure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.errors import GelgtError

if TYPE_CHECKING:
    import pyarrow as pa

Array = np.ndarray[Any, np.dtype[Any]]
BINARY, REGRESSION, MULTICLASS, MULTILABEL = TASK_TYPES = (
    "binary_classification",
    "regression",
    "multiclass_classification",
    "multilabel_classification",
)
REPAIR = "Copy the run folder again, or train again."
BASELINE, _PROBABILITY = "baseline:", "probability_"


@dataclass(frozen=True)
class Predictions:
    """The predictions of one split, with their labels.

    Attributes:
        label: As above; -1 for a class that was not among those of training.
        scores: Model name to scores, the run's own model first. Baselines are there for binary and
            regression tasks where the file has a score of theirs for every row.
        time: Seed times, or None.
        entity: A number for the entity of each row; None where no entity comes twice.
        classes: Names of classes or labels, in the order of the scores' columns.
        left_out: Rows without a label or a usable score.
    """

    label: Array
    scores: dict[str, Array]
    time: Array | None
    classes: tuple[str, ...] = ()
    left_out: int = 0
    entity: Array | None = None

    def __len__(self) -> int:
        return len(self.label)

    def take(self, rows: Array) -> "Predictions":
        """The same for some of the rows: positions or a mask."""
        scores = {model: score[rows] for model, score in self.scores.items()}
        time = None if self.time is None else self.time[rows]
        entity = (
            None if self.entity is None else np.unique(self.entity[rows], return_inverse=True)[1]
        )
        return replace(self, label=self.label[rows], scores=scores, time=time, entity=entity)


def read_predictions(
    path: Path, task_type: str, model: str, classes: Sequence[str] = ()
) -> Predictions | None:
    """The predictions in a file, or None where it holds no labels or the task type has no charts.

    Args:
        path: A Parquet file of the run folder.
        task_type: One of the four above.
        model: The name of the run's model.
        classes: Names of the classes, where the task has them.
    """
    import pyarrow as pa

    table = read_table(path)
    if "label" not in table.column_names or task_type not in TASK_TYPES:
        return None
    try:
        read = _by_class if task_type in (MULTICLASS, MULTILABEL) else _by_value
        rows = replace(read(table, model, classes, task_type), entity=entity_numbers(table))
    except (pa.ArrowException, KeyError, ValueError, TypeError) as error:
        message = f"{path} does not hold the predictions of a {task_type} task: {error}."
        raise GelgtError("broken_run", message, hint=REPAIR) from None
    is_usable = ~np.isnan(rows.label.astype(float)).reshape(len(rows), -1).any(axis=1)
    is_usable &= np.isfinite(rows.scores[model]).reshape(len(rows), -1).all(axis=1)
    usable = rows.take(is_usable)
    # A baseline with gaps is left out rather than its rows: the model's own figures must not depend
    # on a baseline.
    scores = {name: score for name, score in usable.scores.items() if np.isfinite(score).all()}
    return replace(usable, scores=scores, left_out=int((~is_usable).sum()))


def read_table(path: Path) -> "pa.Table":
    """The columns of a file that hold keys, times, predictions, labels or baselines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if not path.is_file():  # a pipe would be waited for
            raise FileNotFoundError("there is no such file")
        names = pq.read_schema(path).names
        columns = [
            name
            for name in names
            if name in ("time", "prediction", "probability", "label")
            or name.startswith((BASELINE, _PROBABILITY))
        ]
        return pq.ParquetFile(path).read(columns=[*key_columns(names), *columns])
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        message = f"{path} is not readable Parquet: {error}."
        raise GelgtError("broken_run", message, hint=REPAIR) from None


def entity_numbers(table: "pa.Table") -> Array | None:
    """(S,) a number for the entity of each row of a table of predictions, by its key; None where no
    entity comes twice."""
    import pyarrow.compute as pc

    keys = key_columns(table.column_names)
    if not keys:
        return None
    numbers = np.zeros(len(table), np.int64)
    for name in keys:
        codes = pc.fill_null(
            pc.dictionary_encode(table[name].combine_chunks()).indices, -1
        ).to_numpy(zero_copy_only=False)
        numbers = np.unique(
            numbers * (int(codes.max(initial=0)) + 2) + codes + 1, return_inverse=True
        )[1].astype(np.int64)
    return None if numbers.max(initial=-1) + 1 == len(numbers) else numbers


def key_columns(names: Sequence[str]) -> list[str]:
    """The columns of the entity's key, which stand before the time."""
    return list(names[: names.index("time")]) if "time" in names else []


def _by_value(table: "pa.Table", model: str, classes: Sequence[str], task_type: str) -> Predictions:
    has_probability = task_type == BINARY and "probability" in table.column_names
    scores = {model: _floats(table, "probability" if has_probability else "prediction")}
    for name in table.column_names:
        if name.startswith(BASELINE) and name[len(BASELINE) :] != model:
            scores[name[len(BASELINE) :]] = _floats(table, name)
    return Predictions(_floats(table, "label"), scores, times_of(table))


def _by_class(table: "pa.Table", model: str, classes: Sequence[str], task_type: str) -> Predictions:
    names = [n[len(_PROBABILITY) :] for n in table.column_names if n.startswith(_PROBABILITY)]
    if names:
        score = np.column_stack([_floats(table, _PROBABILITY + n) for n in names])
    else:  # one list a row
        score = np.asarray(
            table[
                "probability" if "probability" in table.column_names else "prediction"
            ].to_pylist(),
            dtype=float,
        )
        names = (
            list(classes)
            if len(classes) == score.shape[1]
            else [str(i) for i in range(score.shape[1])]
        )
    labels = table["label"].to_pylist()
    places = {name: i for i, name in enumerate(names)}
    truth = (
        _indicators(labels, places)
        if task_type == MULTILABEL
        else np.array([_place(v, places) for v in labels], dtype=float)
    )
    return Predictions(truth, {model: score}, times_of(table), tuple(names))


def _place(value: Any, places: dict[str, int]) -> float:
    return float("nan") if value is None else places.get(str(value), -1)


def _indicators(labels: list[Any], places: dict[str, int]) -> Array:
    """Lists of 0 and 1, one for each label, or lists of the labels that hold."""
    given = [value for value in labels if value is not None]
    is_indicator = all(len(value) == len(places) and set(value) <= {0, 1} for value in given)
    out = np.zeros((len(labels), len(places)))
    for row, value in enumerate(labels):
        if value is None:
            out[row] = np.nan
        elif is_indicator:
            out[row] = value
        else:
            out[row, [places[str(v)] for v in value if str(v) in places]] = 1
    return out


def _floats(table: "pa.Table", name: str) -> Array:
    import pyarrow as pa

    column = table[name]
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=float)


def times_of(table: "pa.Table") -> Array | None:
    """Seed times in seconds; None where there are none, or where one is missing."""
    import pyarrow as pa

    if "time" not in table.column_names or not pa.types.is_timestamp(table["time"].type):
        return None
    times: Array = (
        table["time"]
        .cast(pa.timestamp("us"))
        .to_numpy(zero_copy_only=False)
        .astype("datetime64[s]")
    )
    return None if np.isnat(times).any() else times
