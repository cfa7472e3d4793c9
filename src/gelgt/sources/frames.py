"""A dict of frames as a source: pandas, polars, or Arrow tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gelgt.errors import SourceError, some
from gelgt.sources.raw import RawTable, StaticSource


class FramesSource(StaticSource):
    """Tables that are already in memory; they declare no keys, so `schema=` or inference names
    them."""

    has_snapshot = True

    def __init__(self, frames: Mapping[str, Any]) -> None:
        self.address = "frames"
        self.name = "frames"
        self._frames = frames

    def table_names(self) -> list[str]:
        return [str(name) for name in self._frames]

    def tables(self, only: Sequence[str] | None = None) -> list[RawTable]:
        if not self._frames:
            raise SourceError(
                "no_tables", "The dict of frames is empty.", hint="Pass {'table name': frame, …}."
            )
        return [self._table(str(name), frame) for name, frame in self._frames.items()]

    def _table(self, name: str, frame: Any) -> RawTable:
        table = to_arrow(name, frame)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from table.to_batches(max_chunksize=1 << 17)

        return RawTable(name, {field.name: field.type for field in table.schema}, batches)

    def content_key(self) -> str | None:
        return None


def to_arrow(name: str, frame: Any) -> pa.Table:
    """One frame as an Arrow table; a named index becomes a column, an unnamed one is dropped."""
    if isinstance(frame, pa.Table):
        return frame
    if hasattr(frame, "reset_index"):
        return _from_pandas(name, frame)
    if hasattr(frame, "__arrow_c_stream__"):
        return pa.table(frame)
    raise SourceError(
        "bad_frame",
        f"Table '{name}' is a {type(frame).__name__}, not a frame.",
        hint="Pass a pandas or polars frame or an Arrow table.",
    )


def _from_pandas(name: str, frame: Any) -> pa.Table:
    if any(label is not None for label in frame.index.names):
        frame = frame.reset_index()
    columns = [str(c) for c in frame.columns]
    repeated = sorted({c for c in columns if columns.count(c) > 1})
    if repeated:
        raise SourceError(
            "duplicate_column",
            f"Table '{name}' has columns of the same name: {some(repeated)}.",
            hint="Rename them.",
        )
    arrays = [_column(name, c, frame.iloc[:, i]) for i, c in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=columns)


def _column(table: str, column: str, values: Any) -> pa.Array:
    if values.dtype == object:
        _check_zones(table, column, values)
    try:
        array = pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        kinds = {type(v).__name__: v for v in values if v is not None}
        examples = ", ".join(f"{v!r} ({k})" for k, v in list(kinds.items())[:4])
        raise SourceError(
            "mixed_types",
            f"'{table}.{column}' mixes types: {examples}.",
            hint="Convert the column to one type, for example with astype(str).",
        ) from None
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _check_zones(table: str, column: str, values: Any) -> None:
    """Times with and without a zone in one column are an error: Arrow would read the latter as UTC,
    which nobody stated."""
    from datetime import datetime

    times = [v for v in values if isinstance(v, datetime) and v == v]
    zoned = [v for v in times if v.tzinfo is not None]
    if zoned and len(zoned) < len(times):
        naive = next(v for v in times if v.tzinfo is None)
        raise SourceError(
            "mixed_time_zones",
            f"'{table}.{column}' mixes times with a zone ({str(zoned[0])!r}) and without "
            f"({str(naive)!r}).",
            hint="Give every value a zone, or none (then all are taken as UTC).",
        )
