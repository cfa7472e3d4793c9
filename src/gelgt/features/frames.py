"""Slices arrays into PyTorch Frame's tensors, and statistics into its `StatType`s.

Imported by `Features.frame`, so that data can be prepared without torch.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_frame import TensorFrame, stype
from torch_frame.data import MultiEmbeddingTensor, MultiNestedTensor
from torch_frame.data.stats import StatType

from gelgt.features.encode import columns_of
from gelgt.features.statistics import (
    CategoricalStatistics,
    ColumnStatistics,
    MulticategoricalStatistics,
    NumericalStatistics,
    TextStatistics,
    TimestampStatistics,
)
from gelgt.features.values import MISSING_TIME

if TYPE_CHECKING:
    from gelgt.features.store import Features

CONSTANT = "__const__"  # RelBench's name for the feature of a table that has none
_CONSTANT_STATISTICS = NumericalStatistics(1, 0.0, 1.0, (1.0,) * 5)


def tensor_frame(
    features: "Features", table: str, rows: NDArray[np.int64], hide: Collection[str]
) -> TensorFrame:
    """See `Features.frame`."""
    statistics = features.statistics.tables[table]
    shown = features.columns(table, hide)
    arrays, versions = features.arrays(table), features.versions(table)
    tensors: dict[Any, Any] = {}
    names: dict[Any, list[str]] = {}
    for kind, slice_rows in _SLICERS.items():
        columns = columns_of(statistics, kind)
        places = [j for j, name in enumerate(columns) if name in shown]
        if places:
            key = stype.embedding if kind == "text" else stype(kind)
            names[key] = [columns[j] for j in places]
            # texts that no date changes are those of the row
            is_short = kind == "text" and len(arrays[kind]) == features.rows[table]
            there = versions.source(rows) if versions is not None and is_short else rows
            tensors[key] = slice_rows(arrays, there, places, [statistics[c] for c in names[key]])
    if not tensors:
        tensors[stype.numerical], names[stype.numerical] = torch.ones(len(rows), 1), [CONSTANT]
    return TensorFrame(tensors, names)


Arrays = Mapping[str, NDArray[Any]]


def _gather(array: NDArray[Any], rows: NDArray[np.int64], columns: list[int]) -> NDArray[Any]:
    gathered = np.take(array, rows, axis=0)
    return gathered if len(columns) == array.shape[1] else gathered[:, columns]


def _numerical(
    arrays: Arrays, rows: NDArray[np.int64], columns: list[int], _: list[Any]
) -> torch.Tensor:
    return torch.from_numpy(_gather(arrays["numerical"], rows, columns))  # (n, columns)


def _categorical(
    arrays: Arrays, rows: NDArray[np.int64], columns: list[int], _: list[Any]
) -> torch.Tensor:
    # (n, columns)
    return torch.from_numpy(_gather(arrays["categorical"], rows, columns).astype(np.int64))


def _timestamp(
    arrays: Arrays,
    rows: NDArray[np.int64],
    columns: list[int],
    statistics: list[TimestampStatistics],
) -> torch.Tensor:
    parts = calendar(_gather(arrays["timestamp"], rows, columns))  # (n, columns, 7)
    # PyTorch Frame counts years from the first fitted one and refuses to count backwards.
    first_years = np.array([_year(s.oldest) for s in statistics])
    has_time = parts[:, :, 1] >= 0
    parts[:, :, 0] = np.where(has_time, np.maximum(parts[:, :, 0], first_years), -1)
    return torch.from_numpy(parts)


def _text(
    arrays: Arrays, rows: NDArray[np.int64], columns: list[int], statistics: list[TextStatistics]
) -> MultiEmbeddingTensor:
    dim = statistics[0].dim  # one embedder for all columns
    dims = [k for j in columns for k in range(j * dim, (j + 1) * dim)]
    values = _gather(arrays["text"], rows, dims).astype(np.float32)  # (n, columns · dim)
    offset = torch.arange(0, (len(columns) + 1) * dim, dim)
    return MultiEmbeddingTensor(len(rows), len(columns), torch.from_numpy(values), offset)


def _multicategorical(
    arrays: Arrays, rows: NDArray[np.int64], columns: list[int], _: list[Any]
) -> MultiNestedTensor:
    offsets = [arrays[f"multicategorical-{j}-offsets"] for j in columns]
    starts = np.stack([of_column[rows] for of_column in offsets], axis=1)  # (n, columns)
    lengths = np.stack([of_column[rows + 1] for of_column in offsets], axis=1) - starts
    offset = np.concatenate([[0], np.cumsum(lengths)])  # cell by cell, row after row
    values = np.empty(offset[-1], np.int64)
    within = np.arange(offset[-1]) - np.repeat(offset[:-1], lengths.ravel())
    source = np.repeat(starts.ravel(), lengths.ravel()) + within
    column = np.repeat(np.tile(np.arange(len(columns)), len(rows)), lengths.ravel())
    for place, j in enumerate(columns):
        values[column == place] = arrays[f"multicategorical-{j}-places"][source[column == place]]
    cells = torch.from_numpy(values), torch.from_numpy(offset)
    return MultiNestedTensor(len(rows), len(columns), *cells)


_SLICERS: dict[str, Any] = {
    "numerical": _numerical,
    "categorical": _categorical,
    "timestamp": _timestamp,
    "text": _text,
    "multicategorical": _multicategorical,
}


def calendar(seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Year, month - 1, day - 1, weekday (Monday is 0), hour, minute, second on a last axis; all -1
    where missing."""
    missing = seconds == MISSING_TIME
    instants = np.where(missing, 0, seconds)
    days = instants // 86_400
    dates = days.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    month = months.astype(np.int64)  # months since 1970
    clock = instants % 86_400
    parts = [
        month // 12 + 1970,
        month % 12,
        (dates - months.astype("datetime64[D]")).astype(np.int64),
        (days + 3) % 7,  # 1970 began on a Thursday
        clock // 3600,
        clock // 60 % 60,
        clock % 60,
    ]
    return np.where(missing[..., None], -1, np.stack(parts, axis=-1))


def _year(seconds: int) -> int:
    return int(calendar(np.array(seconds, np.int64))[0])


def col_stats(columns: Mapping[str, ColumnStatistics]) -> dict[str, dict[StatType, Any]]:
    """See `Features.col_stats`."""
    return {
        name: _stat_types(s) for name, s in (columns or {CONSTANT: _CONSTANT_STATISTICS}).items()
    }


def _stat_types(statistics: ColumnStatistics) -> dict[StatType, Any]:
    if isinstance(statistics, NumericalStatistics):
        # Division by a spread below the precision of float32 would only magnify rounding errors.
        is_resolved = statistics.std > abs(statistics.mean) * float(np.finfo(np.float32).eps)
        std = statistics.std if is_resolved else 1.0
        return {
            StatType.MEAN: statistics.mean,
            StatType.STD: std,
            StatType.QUANTILES: list(statistics.quantiles),
        }
    if isinstance(statistics, CategoricalStatistics | MulticategoricalStatistics):
        is_single = isinstance(statistics, CategoricalStatistics)
        key = StatType.COUNT if is_single else StatType.MULTI_COUNT
        return {key: (list(statistics.categories), list(statistics.counts))}
    if isinstance(statistics, TimestampStatistics):
        times = np.array([statistics.oldest, statistics.median, statistics.newest], np.int64)
        oldest, median, newest = torch.from_numpy(calendar(times))
        return {
            StatType.YEAR_RANGE: [_year(statistics.oldest), _year(statistics.newest)],
            StatType.OLDEST_TIME: oldest,
            StatType.MEDIAN_TIME: median,
            StatType.NEWEST_TIME: newest,
        }
    return {StatType.EMB_DIM: statistics.dim}
