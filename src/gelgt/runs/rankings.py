"""Reads predictions/SPLIT.parquet of a run that recommends, and what can be said about its lists.

    key columns, time     of the entity
    prediction            list of the destination's keys, the best first
    label                 list of the keys that were right
    baseline:NAME         list of keys

Destinations are numbered in the order of their first appearance in the file. Rows without any right
destination are left out and counted, as RelBench leaves them out of its scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.errors import GelgtError
from gelgt.runs.predictions import (
    BASELINE,
    REPAIR,
    Array,
    Predictions,
    entity_numbers,
    key_columns,
    read_table,
    times_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

RECOMMENDATION = "recommendation"


@dataclass(frozen=True)
class Rankings:
    """What was recommended to the n rows of one split, and what was right.

    Attributes:
        lists: Model name to (n, k) numbers of destinations, -1 behind the last; the run's own model
            first.
        right: (p,) numbers of the destinations that were right, row after row.
        right_row: (p,) the row of each.
        keys: The key of each destination, as text.
        entity_keys: The key of the entity of each row, as text.
        time: (n,) seed times, or None.
        entity: (n,) a number for the entity of each row; None where no entity comes twice.
        left_out: Rows without a right destination.
    """

    lists: dict[str, Array]
    right: Array
    right_row: Array
    keys: list[str]
    entity_keys: list[str]
    time: Array | None = None
    entity: Array | None = None
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.entity_keys)

    @property
    def k(self) -> int:
        """Recommendations that count."""
        return int(next(iter(self.lists.values())).shape[1])

    @cached_property
    def right_count(self) -> Array:
        """(n,) how many destinations were right."""
        return np.bincount(self.right_row, minlength=len(self))

    @cached_property
    def hits(self) -> dict[str, Array]:
        """Model name to (n, k) whether each recommendation was right."""
        size = max(len(self.keys), 1)
        right = self.right_row * size + self.right
        row = np.arange(len(self))[:, None] * size
        return {
            model: (ranked >= 0) & np.isin(row + ranked, right)
            for model, ranked in self.lists.items()
        }

    @property
    def predictions(self) -> Predictions:
        """The same as scores and intervals read it: the number of right destinations as the label,
        hits as the scores."""
        hits = {model: each.astype(np.int8) for model, each in self.hits.items()}
        return Predictions(
            self.right_count, hits, self.time, left_out=self.left_out, entity=self.entity
        )

    def counts(self, model: str | None) -> Array:
        """(D,) how often each destination is recommended by a model; None: how often it was
        right."""
        numbers = self.right if model is None else self.lists[model]
        return np.bincount(numbers[numbers >= 0], minlength=len(self.keys))

    @cached_property
    def popularity(self) -> Array:
        """(D,) one more than the number of destinations that were right for more rows: 1 for the
        most popular, one rank for all that were never right."""
        count = self.counts(None)
        ascending = np.sort(count)
        return 1 + len(count) - np.searchsorted(ascending, count, side="right")


def average_precision(right_count: Array, hits: Array) -> Array:
    """(n,) average precision at k of each row, as RelBench has it: over the first k, divided by the
    most that could be right among them.

    Example:
        >>> average_precision(np.array([3]), np.array([[1, 0]])).tolist()
        [0.5]
    """
    k = hits.shape[1]
    precision = np.cumsum(hits, 1) / np.arange(1, k + 1)
    found: Array = (precision * hits).sum(1) / np.clip(right_count, 1, k)
    return found


def read_rankings(path: Path, model: str, k: int | None = None) -> Rankings | None:
    """The lists in a file, or None where it holds no labels.

    Args:
        path: A Parquet file of the run folder.
        model: The name of the run's model.
        k: Recommendations that count; None: as many as the longest list has.
    """
    import pyarrow as pa

    table = read_table(path)
    if "label" not in table.column_names:
        return None
    try:
        return _rankings(table, model, k)
    except (pa.ArrowException, KeyError, ValueError, TypeError, AttributeError) as error:
        message = f"{path} does not hold the predictions of a {RECOMMENDATION} task: {error}."
        raise GelgtError("broken_run", message, hint=REPAIR) from None


def _rankings(table: "pa.Table", model: str, k: int | None) -> Rankings:
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(table["label"]), 0).to_numpy()
    left_out = int((lengths == 0).sum())
    table = table.filter(lengths > 0)
    columns = {"label": "label", model: "prediction"} | {
        name.removeprefix(BASELINE): name
        for name in table.column_names
        if name.startswith(BASELINE) and name != BASELINE + model
    }
    numbers, ends, keys = _numbered({name: table[column] for name, column in columns.items()})
    longest = max((int(np.diff(e).max(initial=0)) for n, e in ends.items() if n != "label"))
    lists = {
        name: _padded(numbers[name], ends[name], k or max(longest, 1))
        for name in columns
        if name != "label"
    }
    entities = zip(*(table[name].to_pylist() for name in key_columns(table.column_names)))
    texts = [_text(key) for key in entities] or [str(i + 1) for i in range(len(table))]
    return Rankings(
        lists,
        numbers["label"],
        np.repeat(np.arange(len(table)), np.diff(ends["label"])),
        keys,
        texts,
        times_of(table),
        entity_numbers(table),
        left_out,
    )


def _numbered(
    columns: Mapping[str, "pa.ChunkedArray"],
) -> tuple[dict[str, Array], dict[str, Array], list[str]]:
    """Of columns of lists: numbers of their keys one after the other, where each list ends, and the
    keys as texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends, flat = {}, {}
    for name, column in columns.items():
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        ends[name] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        flat[name] = pc.list_flatten(column).combine_chunks()
    together = pa.concat_arrays([_plain(each) for each in flat.values()])
    encoded = pc.dictionary_encode(together)
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    cuts = np.cumsum([len(each) for each in flat.values()])[:-1]
    numbers = dict(zip(flat, np.split(codes, cuts), strict=True))
    return numbers, ends, [_text((key,)) for key in encoded.dictionary.to_pylist()]


def _plain(keys: "pa.Array") -> "pa.Array":
    """Keys that can be numbered: those of several columns as one text."""
    import pyarrow as pa

    if not pa.types.is_struct(keys.type):
        return keys
    texts = [_text(tuple(key.values())) for key in keys.to_pylist()]
    return pa.array(texts, pa.string())


def _padded(numbers: Array, ends: Array, k: int) -> Array:
    """(n, k) the first k of each list, -1 behind the last."""
    lengths = np.diff(ends)
    place = np.arange(len(numbers)) - np.repeat(ends[:-1], lengths)
    row = np.repeat(np.arange(len(lengths)), lengths)
    out = np.full((len(lengths), k), -1, np.int64)
    out[row[place < k], place[place < k]] = numbers[place < k]
    return out


def _text(key: tuple[Any, ...]) -> str:
    return ", ".join(map(str, key))
