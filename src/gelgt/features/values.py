"""The values of a column by its kind: numbers, seconds, category names, parts, text.

Fitting and encoding read the same values here. Columns arrive in canonical types; a kind that a
user wrote into the manifest and that does not fit the type is an error that names the column.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.errors import SchemaError, SourceError

MISSING_TIME: int = int(np.iinfo(np.int64).min)
_FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Column:
    """The table and name of a column, for errors."""

    table: str
    name: str

    def misfit(self, kind: str, arrow: pa.DataType) -> SchemaError:
        return SchemaError(
            "bad_kind",
            f"'{self.table}.{self.name}' holds {arrow} values and cannot be {kind}.",
            hint="Write another kind, or 'ignored', into a --schema file.",
        )

    def check_utf8(self, texts: pa.Array) -> pa.Array:
        """The texts, if they are text: a Parquet file may hold any bytes in a string column."""
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raise SourceError(
                "not_utf8",
                f"'{self.table}.{self.name}' holds bytes that are not UTF-8.",
                hint="Write the file again, or leave out the column.",
            ) from None
        return texts


@dataclass(frozen=True)
class Numbers:
    """Values with NaN for missing ones, and how many could not be read."""

    values: NDArray[np.float64]
    non_finite: int  # infinite, or beyond the range of float32
    unparsable: int  # text that is no number


def as_numbers(array: pa.Array, column: Column) -> Numbers:
    """Floats; text is parsed, booleans are 0 or 1."""
    unparsable = 0
    if pa.types.is_string(array.type):
        array, unparsable = _parse(column.check_utf8(array))
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    elif not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise column.misfit("numerical", array.type)
    values = array.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    outside = np.abs(values) > _FLOAT32_MAX  # NaN is not
    count = int(np.count_nonzero(outside))
    return Numbers(np.where(outside, np.nan, values) if count else values, count, unparsable)


def _parse(array: pa.Array) -> tuple[pa.Array, int]:
    coded = array.dictionary_encode()
    numbers = pa.array([_number(text) for text in coded.dictionary.to_pylist()], pa.float64())
    values = numbers.take(coded.indices)
    return values, values.null_count - array.null_count


def _number(text: str) -> float | None:
    try:
        # Python reads 1_000 as a number, but it is more likely a code
        return None if "_" in text else float(text)
    except ValueError:
        return None


def as_seconds(array: pa.Array, column: Column) -> NDArray[np.int64]:
    """Whole seconds since 1970, `MISSING_TIME` for none."""
    if array.null_count == len(array):
        return np.full(len(array), MISSING_TIME, np.int64)
    if not pa.types.is_timestamp(array.type):
        raise column.misfit("timestamp", array.type)
    seconds = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False) // 1_000_000
    return np.where(array.is_valid().to_numpy(zero_copy_only=False), seconds, MISSING_TIME)


def check_nameable(arrow: pa.DataType, column: Column) -> None:
    """Refuse lists and structs, which Arrow cannot count."""
    if pa.types.is_nested(arrow):
        raise column.misfit("categorical", arrow)


def category_names(distinct: pa.Array, column: Column) -> pa.Array:
    """The names of distinct values: 3 and 3.0 are "3", booleans "true" and "false", NaN has
    none."""
    if pa.types.is_string(distinct.type):
        return column.check_utf8(distinct)
    if pa.types.is_floating(distinct.type):
        return _float_names(distinct)
    return distinct.cast(pa.string())  # whole numbers, booleans, times


def _float_names(distinct: pa.Array) -> pa.Array:
    values = distinct.fill_null(np.nan).to_numpy(zero_copy_only=False)
    whole = (np.abs(values) < 2.0**63) & (np.floor(values) == values)
    names = np.full(len(values), None, object)
    names[whole] = values[whole].astype(np.int64).astype(str)  # -0.0 becomes "0"
    rest = ~whole & ~np.isnan(values)
    names[rest] = [repr(value) for value in values[rest].tolist()]
    return pa.array(names, pa.string())


def as_parts(
    array: pa.Array, separator: str | None, column: Column
) -> tuple[pa.Array, NDArray[np.int64]]:
    """The parts of every row and the row of each part; parts of text are trimmed, empty ones are
    left out."""
    if pa.types.is_string(array.type):
        # Without a separator a text is one part.
        array = pc.split_pattern(column.check_utf8(array), separator or "\0")
        trim = True
    elif pa.types.is_list(array.type):
        trim = False
    else:
        raise column.misfit("multicategorical", array.type)
    parts, rows = pc.list_flatten(array), pc.list_parent_indices(array)
    parts = pc.utf8_trim_whitespace(parts) if trim else parts
    is_filled = pc.fill_null(pc.not_equal(parts, ""), False)
    return parts.filter(is_filled), rows.filter(is_filled).to_numpy(zero_copy_only=False)


def as_text(array: pa.Array, column: Column) -> pa.Array:
    """Strings; other values by their category name, lists joined by a space."""
    if pa.types.is_string(array.type):
        return column.check_utf8(array)
    if pa.types.is_list(array.type):
        return pc.binary_join(array, " ")
    coded = array.dictionary_encode()
    return category_names(coded.dictionary, column).take(coded.indices)
