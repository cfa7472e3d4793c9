"""`Guard`: what every request passes before a route sees it, and every response on its way out.

token   compared in constant time; health and the page itself are open, since they hold no data
host    without a token, only names of this machine: a web page elsewhere that has its own name
        point here is refused
out     headers that keep browsers from guessing, framing and loading from elsewhere; counts
"""

import hmac
import json
import logging
import time
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gelgt.errors import GelgtError
from gelgt.serve.failures import BUG, body_of, headers_of, status_of
from gelgt.serve.meters import Meters
from gelgt.serve.settings import ServeSettings

log = logging.getLogger("gelgt.serve")
OPEN = ("/", "/v1/health/live", "/v1/health/ready")  # without a token
STATIC = "/static/"
LOCAL = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
OUT = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, meters: Meters) -> None:
        self.app, self.settings, self.meters = app, settings, meters
        self._token = None if settings.token is None else f"bearer {settings.token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def out(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *OUT]
            await send(message)

        try:
            error = self._refusal(scope)
            if error is not None:
                await refuse(error, out)
            else:
                await self.app(scope, receive, out)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not status:
                await refuse(BUG, out)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.meters.request(route, status or 499, time.perf_counter() - start)

    def _refusal(self, scope: Scope) -> GelgtError | None:
        headers = scope["headers"]
        if self._token is None:
            hosts = [value for name, value in headers if name == b"host"]
            if len(hosts) != 1 or _name(hosts[0]) not in LOCAL:
                return GelgtError(
                    "wrong_host",
                    "Without a token, the server answers as localhost alone.",
                    hint="Ask http://127.0.0.1, or start it with --token-env.",
                )
            return None
        if scope["path"] in OPEN or scope["path"].startswith(STATIC):
            return None
        given = [value for name, value in headers if name == b"authorization"]
        if len(given) == 1:
            kind, _, token = given[0].partition(b" ")
            if hmac.compare_digest(kind.lower() + b" " + token.strip(), self._token):
                return None
        return GelgtError(
            "unauthorized",
            "The request brings no valid token.",
            hint="Send the header Authorization: Bearer TOKEN.",
        )


def _name(host: bytes) -> str:
    """The name in a Host header, without its port."""
    text = host.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]


async def refuse(error: GelgtError, send: Any) -> None:
    """Answer with an error; the rest of a body is not read, so the connection ends."""
    content = json.dumps(body_of(error), ensure_ascii=False).encode()
    headers = {"content-type": "application/json", "connection": "close", **headers_of(error)}
    pairs = [(n.lower().encode(), v.encode()) for n, v in headers.items()]
    length = (b"content-length", str(len(content)).encode())
    status = status_of(error)
    await send({"type": "http.response.start", "status": status, "headers": [*pairs, length]})
    await send({"type": "http.response.body", "body": content})
