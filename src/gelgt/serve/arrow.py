"""Arrow streams from and to clients.

What comes in is not trusted: compressed and dictionary-encoded batches are refused before they are
unpacked, since a few bytes of them may mean gigabytes, and all buffers are checked.
"""

import io
import struct

import pyarrow as pa

from gelgt.errors import GelgtError

MEDIA = "application/vnd.apache.arrow.stream"
_COMPRESSION = 3  # the field of a record batch in Arrow's Message.fbs


def read_stream(body: bytes, most: int) -> pa.Table:
    """The table of a stream of at most so many rows.

    Raises:
        GelgtError: ``bad_request``, ``too_many_rows``.
    """
    try:
        _check_messages(body)
        with pa.ipc.open_stream(io.BytesIO(body)) as reader:
            batches, rows = [], 0
            for batch in reader:
                batch.validate(full=True)
                batches.append(batch)
                rows += batch.num_rows
                if rows > most:
                    break
            table = pa.Table.from_batches(batches, schema=reader.schema)
    except (pa.ArrowException, OSError, ValueError, TypeError, struct.error, IndexError) as error:
        what = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise GelgtError(
            "bad_request",
            f"The body is no Arrow stream that can be read: {what}.",
            hint="Send an uncompressed stream of plain columns (pyarrow.ipc.new_stream).",
        ) from None
    if table.num_rows > most:
        raise GelgtError(
            "too_many_rows",
            f"A request has at most {most:,} entities.",
            hint="Ask in several requests, or use gelgt predict for all of them.",
        )
    return table


def stream_bytes(table: pa.Table) -> bytes:
    """A table as a stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _check_messages(body: bytes) -> None:
    source = pa.BufferReader(body)
    while True:
        try:
            message = pa.ipc.read_message(source)
        except EOFError:
            return
        if message.type not in ("schema", "record batch"):
            raise ValueError(f"it holds a {message.type}, which is not accepted")
        if message.type == "record batch" and _has_field(message.metadata, _COMPRESSION):
            raise ValueError("it is compressed")


def _has_field(metadata: pa.Buffer, field: int) -> bool:
    """Whether the header of a message has a field (the layout of flatbuffers: a table begins with
    the distance back to its list of field offsets)."""
    data = metadata.to_pybytes()
    root = struct.unpack_from("<I", data, 0)[0]
    header = _field(data, root, 2)  # Message: version, header_type, header
    if header is None:
        raise ValueError("a message has no header")
    return _field(data, header + struct.unpack_from("<I", data, header)[0], field) is not None


def _field(data: bytes, table: int, field: int) -> int | None:
    """Where a field of a table lies; None where it is left out."""
    fields = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, fields)[0]
    place = 4 + 2 * field
    if place + 2 > size:
        return None
    offset = struct.unpack_from("<H", data, fields + place)[0]
    return table + offset if offset else None
