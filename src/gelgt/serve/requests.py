"""What comes in: bodies in bounded size and time, and what goes out in the form that was asked
for."""

import asyncio
import json
import math
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gelgt.errors import GelgtError
from gelgt.serve.arrow import MEDIA as ARROW
from gelgt.serve.arrow import stream_bytes
from gelgt.serve.settings import ServeSettings

JSON = "application/json"


async def read_body(request: Request, settings: ServeSettings, *accepted: str) -> tuple[str, bytes]:
    """The media type and the bytes of a request.

    Raises:
        GelgtError: ``wrong_media_type``, ``too_large``, ``too_slow_request``.
    """
    media = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if media not in accepted:
        raise GelgtError(
            "wrong_media_type",
            f"The body is of type '{media[:80]}'.",
            hint=f"Send {' or '.join(accepted)}, and name it in Content-Type.",
        )
    try:
        async with asyncio.timeout(settings.receive_seconds):
            return media, await _bounded(request, settings.body_bytes)
    except TimeoutError:
        raise GelgtError(
            "too_slow_request",
            f"The body did not arrive within {settings.receive_seconds:g} s.",
            hint="Send it faster, or in smaller requests.",
        ) from None
    except ClientDisconnect:
        raise GelgtError("bad_request", "The client went away.") from None


async def _bounded(request: Request, most: int) -> bytes:
    too_large = GelgtError(
        "too_large", f"A body has at most {most:,} bytes.", hint="Ask in several requests."
    )
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise too_large
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_large
        parts.append(part)
    return b"".join(parts)


def json_response(content: Any, status: int = 200) -> Response:
    """Content as JSON that every reader takes: no NaN, times in ISO 8601."""
    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, media_type=JSON)


def table_response(request: Request, name: str, table: pa.Table, more: dict[str, Any]) -> Response:
    """A table as JSON under a name, with more beside it, or as an Arrow stream with that in the
    metadata of its schema."""
    if ARROW in request.headers.get("accept", ""):
        about = {key: json.dumps(plain(value)) for key, value in more.items()}
        return Response(stream_bytes(table.replace_schema_metadata(about)), media_type=ARROW)
    return json_response({name: table.to_pylist(), **more})


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime | date):
        return value.isoformat()
    if hasattr(value, "item"):
        return plain(value.item())
    return str(value)
