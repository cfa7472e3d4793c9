"""How a column becomes features: kinds inferred from a sample of the training period.

The sample holds rows up to the validation time only, evenly spaced over them, so that a later row
cannot change a kind. Whether whole numbers arrived as int64 or float64 (pandas turns one into the
other as soon as a value is missing) makes no difference.
"""

import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.schema.model import ColumnKind, Kind

SAMPLE_ROWS = 50_000
MAX_CATEGORIES = 10_000  # more categories than this are better read as hashed text
SEPARATORS = ("|", ";", ",")

# Whole numbers that name something rather than measure it.
_WORDS = (
    "id",
    "type",
    "code",
    "class",
    "status",
    "kind",
    "flag",
    "category",
    "group",
    "state",
    "zone",
)
_CAPITALS = (*(word.capitalize() for word in _WORDS), "ID")
_CODE = re.compile(
    rf"(^|[_\s])({'|'.join(_WORDS)})s?$|(?<=[a-z])({'|'.join(_CAPITALS)})s?$", re.ASCII
)
_IDENTIFIER = re.compile(
    r"(^|[_\s])(id|uuid|guid|key)$|(?<=[a-z])(Id|ID|Uuid|UUID|Guid|GUID|Key)$", re.ASCII
)


def is_identifier(name: str) -> bool:
    """Whether a column name says that its values identify something: `id`, `user_id`, `userId`,
    `uuid`, `ID`."""
    return bool(_IDENTIFIER.search(name) or _IDENTIFIER.search(_uncapitalised(name)))


def is_code(name: str) -> bool:
    """Whether a column name says that its numbers name things: `statusId`, `vote_type`, `Class`."""
    return bool(_CODE.search(name) or _CODE.search(_uncapitalised(name)))


def _uncapitalised(name: str) -> str:
    return name.lower() if name.isupper() else name[:1].lower() + name[1:]


def infer_kind(name: str, sample: pa.Array) -> ColumnKind:
    """The kind of one column from a sample of its values (canonical types)."""
    values = sample.drop_null()
    if pa.types.is_floating(values.type):
        values = values.filter(pc.is_finite(values))
    rows, filled = len(sample), len(values)
    if rows == 0:
        return _by_type(values.type)
    if filled == 0:
        return ColumnKind("ignored", evidence="no value up to the validation time")
    if pa.types.is_boolean(values.type):
        return ColumnKind("categorical", evidence="true or false")
    if pa.types.is_timestamp(values.type):
        return ColumnKind("timestamp", evidence="dates or times")
    if pa.types.is_list(values.type):
        return ColumnKind("multicategorical", evidence="lists of strings")
    distinct = pc.count_distinct(values).as_py()
    if distinct == 1 and filled == rows:
        evidence = f"one value in all {rows:,} rows: {_short(values[0])}"
        return ColumnKind("ignored", evidence=evidence)
    counted = f"{distinct:,} distinct in {filled:,} values"
    if pa.types.is_string(values.type):
        return _string_kind(name, values, distinct, counted)
    return _number_kind(name, values, distinct, counted)


def _by_type(arrow: pa.DataType) -> ColumnKind:
    kind: Kind = "numerical"
    if pa.types.is_boolean(arrow):
        kind = "categorical"
    elif pa.types.is_timestamp(arrow):
        kind = "timestamp"
    elif pa.types.is_list(arrow):
        kind = "multicategorical"
    elif pa.types.is_string(arrow):
        kind = "text"
    return ColumnKind(kind, evidence="by type: no row up to the validation time")


def _number_kind(name: str, values: pa.Array, distinct: int, counted: str) -> ColumnKind:
    numbers = values.to_numpy(zero_copy_only=False)
    is_whole = bool(np.all(numbers == np.floor(numbers)))
    if is_whole and distinct >= 100 and distinct > 0.95 * len(values) and is_identifier(name):
        return ColumnKind("ignored", evidence=f"an identifier by name, {counted}")
    if is_whole and distinct <= 2:
        return ColumnKind("categorical", evidence=f"whole numbers, {counted}")
    if is_whole and is_code(name) and distinct <= 1000 and len(values) >= 4 * distinct:
        return ColumnKind("categorical", evidence=f"a code by name, {counted}")
    return ColumnKind("numerical", evidence=f"numbers, {counted}")


def _string_kind(name: str, values: pa.Array, distinct: int, counted: str) -> ColumnKind:
    length = pc.mean(pc.utf8_length(values)).as_py()
    for separator in SEPARATORS:
        counts = _parts(values, separator)
        if counts is None:
            continue
        total, parts = counts
        if parts < distinct and parts <= 1000 and total >= 5 * parts:
            evidence = f"{parts:,} parts between '{separator}'"
            return ColumnKind("multicategorical", evidence=evidence, separator=separator)
    repeated = len(values) >= 4 * distinct or (distinct <= 20 and len(values) >= 2 * distinct)
    if repeated and distinct <= MAX_CATEGORIES and length <= 100:
        return ColumnKind("categorical", evidence=counted)
    if is_identifier(name) and distinct >= 100 and distinct > 0.95 * len(values):
        return ColumnKind("ignored", evidence=f"an identifier by name, {counted}")
    return ColumnKind("text", evidence=f"{counted}, {length:.0f} characters on average")


def _parts(values: pa.Array, separator: str) -> tuple[int, int] | None:
    """Number of parts and of distinct parts, if the separator is common and the parts are short."""
    head = values[:5000]
    share = pc.mean(pc.match_substring(head, separator).cast(pa.float64())).as_py()
    if share < 0.3:
        return None
    parts = pc.utf8_trim_whitespace(pc.list_flatten(pc.split_pattern(head, separator)))
    if pc.mean(pc.utf8_length(parts)).as_py() > 30:
        return None
    return len(parts), pc.count_distinct(parts).as_py()


def _short(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 40 else text[:37] + "…"


class Sampler:
    """Samples every k-th row of a stream of `total` rows, at most `SAMPLE_ROWS` of them."""

    def __init__(self, total: int) -> None:
        self.step = max(1, -(-total // SAMPLE_ROWS))
        self.total = total
        self.seen = 0
        self.batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        stop = min(self.total, self.seen + batch.num_rows)
        first = -(-self.seen // self.step) * self.step
        if first < stop:
            rows = np.arange(first - self.seen, stop - self.seen, self.step)
            self.batches.append(batch.take(pa.array(rows)))
        self.seen += batch.num_rows

    def column(self, name: str, arrow: pa.DataType) -> pa.Array:
        chunks = [batch.column(name) for batch in self.batches]
        return pa.concat_arrays(chunks) if chunks else pa.array([], arrow)


def sample_batches(batches: Iterable[pa.RecordBatch], total: int) -> Sampler:
    """A sample of the first `total` rows of a stream."""
    sampler = Sampler(total)
    for batch in batches:
        if sampler.seen >= total:
            break
        sampler.add(batch)
    return sampler
