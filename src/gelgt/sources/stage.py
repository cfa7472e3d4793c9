"""First pass over a source: rows stream to an Arrow file in canonical types, and the ranges, nulls
and texts of whole columns are noted.

Types that only a whole column shows (text that holds times, numbers that count from 1970) are
decided afterwards; a table that needs it is rewritten once. Memory stays bounded by a batch.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import SourceError
from gelgt.meter import Work
from gelgt.schema.model import Finding, ForeignKey
from gelgt.sources.canonical import STRINGS, TIME, canonical_array, canonical_name, canonical_type
from gelgt.sources.digest import Digest, RowDigest
from gelgt.sources.epoch import DIGITS, EpochProfile, from_epoch, is_timelike
from gelgt.sources.raw import RawTable
from gelgt.sources.table_file import TableFile, read_batches
from gelgt.sources.text_types import TextProfile, parse_numbers, parse_text

_AS_IT_IS = ("text", "categorical", "multicategorical", "ignored")  # kinds that keep a type
_HEAD = 1000  # values that mostly tell already that a column has fractions


@dataclass
class StagedColumn:
    """What the first pass saw of one column."""

    stored: str  # its name in the staged file: positions, because DuckDB's names ignore case
    type: pa.DataType
    nulls: int = 0
    low: float | int | None = None  # numbers and times (µs)
    high: float | int | None = None
    is_whole: bool = True  # no fraction, nothing infinite
    non_finite: int = 0
    text: TextProfile | None = None
    epoch: EpochProfile | None = None  # where its name or declared type is that of a time
    how: str = ""  # how times were read: the unit of an epoch, or whether texts have a zone
    stated: str | None = None  # the kind that the user states

    def add(self, values: pa.Array) -> None:
        self.nulls += values.null_count
        if self.epoch is not None:
            self.epoch.add(values)
        if self.text is not None:
            self.text.add(values)
        elif self.type in (pa.int64(), pa.float64(), TIME):
            self._add_numbers(values)

    def _add_numbers(self, values: pa.Array) -> None:
        if self.type == TIME:
            values = values.view(pa.int64())
        elif self.type == pa.float64():
            # A sum is finite only where all values are; adding up is cheaper than asking each one.
            if not math.isfinite(pc.sum(values).as_py() or 0.0):
                finite = pc.is_finite(values)
                self.non_finite += len(values) - values.null_count - (pc.sum(finite).as_py() or 0)
                values = values.filter(finite)
            self.is_whole = self.is_whole and _are_whole(values[:_HEAD]) and _are_whole(values)
        extremes = pc.min_max(values)
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        if low is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


def _are_whole(values: pa.Array) -> bool:
    """Whether finite numbers have no fraction and are small enough to show one."""
    numbers = values.drop_null().to_numpy(zero_copy_only=False)
    return bool(np.all(numbers == np.floor(numbers)) and np.all(np.abs(numbers) < 2**53))


@dataclass
class StagedTable:
    """A table on disk in canonical types, with what the source declared about it."""

    name: str
    path: Path
    rows: int
    columns: dict[str, StagedColumn]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    delivered: dict[str, str] = field(default_factory=dict)  # types in which the columns came
    digests: list[Digest] = field(default_factory=list)
    partitions: frozenset[str] = frozenset()  # columns that the names of folders give

    def types(self) -> dict[str, str]:
        return {name: canonical_name(column.type) for name, column in self.columns.items()}


def stage_table(raw: RawTable, folder: Path, number: int, forced: Mapping[str, str]) -> StagedTable:
    """Stream one table to an Arrow file and settle its column types.

    Args:
        number: The file is named by it, not by the table: a table name may hold characters that a
            file name cannot.
        forced: Column kinds that the user set; ``text`` and ``categorical`` keep a column as it is.
    """
    if not raw.columns:
        raise SourceError(
            "no_columns", f"Table '{raw.name}' has no columns.", hint="Leave the table out."
        )
    types = {name: canonical_type(arrow) for name, arrow in raw.columns.items()}
    dropped = [name for name, arrow in types.items() if arrow is None]
    findings = [
        *raw.findings,
        *(
            Finding("binary_column", raw.name, c, message="binary data is left out")
            for c in dropped
        ),
    ]
    columns = {
        name: _column(raw, name, arrow, i)
        for i, (name, arrow) in enumerate(types.items())
        if arrow is not None
    }
    path = folder / f"{number}.arrow"
    rows, work = 0, Work(f"reading {raw.name}")
    schema = _file_schema(columns)
    digest = RowDigest()
    with TableFile(path, schema) as file, digest:
        for batch in raw.batches():
            arrays = [_array(batch, raw.name, name) for name in columns]
            file.write(arrays)
            digest.add(arrays)
            for column, array in zip(columns.values(), arrays):
                column.add(array)
            rows += batch.num_rows
            work(batch.num_rows)
    staged = StagedTable(raw.name, path, rows, columns, raw.primary_key, raw.foreign_keys, findings)
    staged.delivered = {name: str(raw.columns[name]) for name in columns}
    staged.digests, staged.partitions = digest.result(), raw.partitions
    _settle(staged, raw, forced)
    for name, column in staged.columns.items():
        column.stated = forced.get(name)
    return staged


def _array(batch: pa.RecordBatch, table: str, column: str) -> pa.Array:
    """A column in its canonical type. Files may call any bytes text; DuckDB trusts ours."""
    array = canonical_array(batch.column(column), table, column)
    if array.type in (pa.string(), STRINGS):
        try:
            array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise SourceError(
                "not_utf8",
                f"'{table}.{column}' holds text that is not UTF-8 ({error}).",
                hint="Re-encode the column as UTF-8.",
            ) from None
    return array


def _column(raw: RawTable, name: str, arrow: pa.DataType, position: int) -> StagedColumn:
    column = StagedColumn(f"c{position}", arrow)
    if arrow == pa.string():
        column.text = TextProfile(raw.name, name, numbers=raw.is_text)
    is_number = arrow in (pa.int64(), pa.float64(), pa.string())  # strings may hold numbers
    if is_number and (name in raw.time_columns or is_timelike(name)):
        column.epoch = EpochProfile()
    return column


def _file_schema(columns: Mapping[str, StagedColumn]) -> pa.Schema:
    return pa.schema([pa.field(column.stored, column.type) for column in columns.values()])


def _settle(staged: StagedTable, raw: RawTable, forced: Mapping[str, str]) -> None:
    """Decide the types that only whole columns show, and rewrite the file if any changed."""
    changes: dict[str, tuple[pa.DataType, str]] = {}
    for name, column in staged.columns.items():
        kind = forced.get(name)
        is_forced = kind in _AS_IT_IS
        if column.epoch is not None and column.epoch.unit and kind not in (*_AS_IT_IS, "numerical"):
            changes[name] = (TIME, column.epoch.unit)
            since = "" if column.epoch.unit == DIGITS else " since 1970"
            message = f"numbers read as {column.epoch.unit}{since}"
            staged.findings.append(Finding("epoch_time", staged.name, name, message=message))
        elif column.text is not None:
            if is_forced and not raw.is_text:
                continue
            verdict = pa.string() if is_forced else column.text.verdict(name in raw.time_columns)
            if verdict != pa.string():
                changes[name] = (verdict, "")
            elif kind == "numerical":
                changes[name] = (pa.float64(), "")
            elif not is_forced and (doubt := column.text.doubts()):
                staged.findings.append(Finding(doubt[0], staged.name, name, message=doubt[1]))
    if changes:
        _rewrite(staged, changes)


def _rewrite(staged: StagedTable, changes: Mapping[str, tuple[pa.DataType, str]]) -> None:
    texts = {name: staged.columns[name].text for name in changes}
    lost = dict.fromkeys(changes, 0)
    for name, (arrow, _) in changes.items():
        staged.columns[name] = StagedColumn(
            staged.columns[name].stored, arrow, how=_how(texts[name], *changes[name])
        )
    schema = _file_schema(staged.columns)
    target = staged.path.with_suffix(".settled.arrow")
    with TableFile(target, schema) as file:
        for batch in read_batches(staged.path):
            arrays = []
            for name, column in staged.columns.items():
                array = batch.column(column.stored)
                if name in changes:
                    arrow, unit = changes[name]
                    text, before = texts[name], array.null_count
                    if unit or text is None:
                        array = from_epoch(array, unit)
                    elif arrow == pa.float64() and not (text.numbers and text.maybe["float"]):
                        # only because the user says so
                        array = parse_numbers(array)
                    else:
                        array = parse_text(array, arrow, staged.name, name, numbers=text.numbers)
                    lost[name] += array.null_count - before
                    column.add(array)
                arrays.append(array)
            file.write(arrays)
    os.replace(target, staged.path)
    for name, count in lost.items():
        if count:
            zeros = "0, -1 and " if changes[name][1] else ""
            message = f"{zeros}words among numbers or times count as missing"
            staged.findings.append(Finding("missing_words", staged.name, name, count, message))


def _how(text: TextProfile | None, arrow: pa.DataType, unit: str) -> str:
    if unit or text is None or arrow != TIME:
        return unit
    return "zoned" if text.zoned else "naive"
