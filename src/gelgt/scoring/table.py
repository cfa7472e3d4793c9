"""The table of predictions: the user's own keys, the time, the prediction.

binary       prediction (0 or 1), probability
regression   prediction; lower and upper where an interval is asked for
multiclass   prediction (a class), probability_<class>
multilabel   prediction (a list of labels), probability_<label>
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.nn.target import Target
from gelgt.sources.database import Database

RESERVED = ("time", "prediction", "probability", "lower", "upper", "label")


def key_table(db: Database, table: str, rows: NDArray[np.int64]) -> pa.Table:
    """The user's keys of some rows, under their own names; row numbers where a table has no keys of
    its own."""
    keys = db.keys_of(table, rows)
    if keys is None:
        return pa.table({_free(db.table(table).pkey or "row"): pa.array(rows)})
    return keys.rename_columns([_free(name) for name in keys.column_names])


def keys_array(db: Database, table: str, rows: NDArray[np.int64]) -> pa.Array:
    """The same as one array: structs where a key has several columns."""
    keys = key_table(db, table, rows)
    columns = [column.combine_chunks() for column in keys.columns]
    if len(columns) == 1:
        return columns[0]
    return pa.StructArray.from_arrays(columns, names=keys.column_names)


def key_lists(db: Database, table: str, rows: NDArray[np.int64]) -> pa.Array:
    """Lists of the user's keys from rows (S, k), -1 behind the last."""
    there = rows >= 0
    ends = np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), keys_array(db, table, rows[there]))


def prediction_columns(target: Target, predictions: NDArray[np.float64]) -> dict[str, pa.Array]:
    """Predictions as columns, in the order in which they are shown."""
    if target.task_type == "regression":
        return {"prediction": pa.array(predictions)}
    if target.task_type == "binary_classification":
        return {
            "prediction": pa.array((predictions > 0.5).astype(np.int64)),
            "probability": pa.array(predictions),
        }
    labels = target.space.labels
    probabilities = {
        f"probability_{name}": pa.array(np.ascontiguousarray(predictions[:, c]))
        for c, name in enumerate(labels)
    }
    if target.task_type == "multiclass_classification":
        return {"prediction": pa.array([labels[c] for c in predictions.argmax(1)]), **probabilities}
    return {
        "prediction": pa.array(
            [[labels[c] for c in np.flatnonzero(row > 0.5)] for row in predictions]
        ),
        **probabilities,
    }


def label_column(target: Target, labels: NDArray[Any]) -> pa.Array:
    """Labels as the user gave them."""
    names = target.space.labels
    if target.task_type == "multiclass_classification":
        return pa.array([names[int(c)] for c in labels])
    if target.task_type == "multilabel_classification":
        return pa.array([[names[c] for c in np.flatnonzero(row > 0.5)] for row in labels])
    return pa.array(labels)


def times_column(seconds: NDArray[np.int64]) -> pa.Array:
    """Seconds since 1970 as timestamps."""
    return pa.array(seconds.astype("datetime64[s]").astype("datetime64[us]"))


def _free(name: str) -> str:
    while name in RESERVED or name.startswith("probability_"):
        name += "_"
    return name
