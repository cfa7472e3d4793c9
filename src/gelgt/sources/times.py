"""The time column of a table, read the same way by the graph and by the features."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import SchemaError, in_schema
from gelgt.schema.model import TableSchema


def microseconds(
    column: pa.Array, table: TableSchema
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Microseconds since 1970 and where there is a time; a column without a single value may have
    any type.

    Raises:
        SchemaError: the column holds something other than times.
    """
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    if not pa.types.is_timestamp(column.type):
        raise SchemaError(
            "bad_time",
            f"The time column '{table.name}.{table.time_col}' holds {column.type} values, not "
            "times.",
            hint=f"State another column, or null, {in_schema(table.name, 'time_col: …')}.",
        )
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return values, column.is_valid().to_numpy(zero_copy_only=False)
