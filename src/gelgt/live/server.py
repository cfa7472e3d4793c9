"""`LiveServer`: serves the page of a training to browsers on this machine, from a thread.

It answers GET alone, and only to this machine's own name, so that no page of another site can read
along under a name of its own that leads here (DNS rebinding). Nothing is written.
"""

import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from gelgt.errors import GelgtError
from gelgt.live.folder import Watched, report_page
from gelgt.live.page import answer_text, asset, document, style_sheet

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
RECENT = 5.0  # seconds since a page asked, for which it counts as open
LINGER = 4.0  # seconds that open pages have to learn how a training ended
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The report brings its style sheet with it, and no script.
_REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class LiveServer:
    """The page of one training, for as long as it is entered.

    Args:
        watched: Whose progress is shown.
        port: 0 takes a free one.
    """

    def __init__(self, watched: Watched, port: int = 0) -> None:
        self.watched = watched
        self.told: dict[
            str, tuple[float, bool]
        ] = {}  # pages: when they asked, if they know the end
        handler = type("Handler", (_Handler,), {"server_of_page": self})
        try:
            self._server = _Server((HOST, port), handler)
        except (OSError, OverflowError) as error:
            raise GelgtError(
                "port_taken",
                f"Port {port} of this machine cannot be used: "
                f"{getattr(error, 'strerror', None) or error}.",
                hint="Choose another port, or none: then a free one is taken.",
            ) from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="gelgt-live", daemon=True
        )

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def __enter__(self) -> "LiveServer":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def linger(self) -> None:
        """Wait until every open page knows how the training ended, for some seconds at most."""
        until = time.monotonic() + LINGER
        while time.monotonic() < until and self.untold():
            time.sleep(0.05)

    def untold(self) -> list[str]:
        """Pages that are open and do not know how the training ended."""
        since = time.monotonic() - RECENT
        asked = list(self.told.items())  # other threads add to it
        return [page for page, (at, is_told) in asked if not is_told and at > since]

    def tell(self, page: str) -> str:
        """What a page that asks is told."""
        record = self.watched.record()
        if page and (page in self.told or len(self.told) < 1000):
            self.told[page] = time.monotonic(), record is not None and record.is_over
        return answer_text(self.watched)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that goes away in the middle of an answer is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server_of_page: ClassVar[LiveServer]
    timeout = 10  # seconds for a request to arrive
    server_version = "gelgt"
    sys_version = ""

    def do_GET(self) -> None:
        name = self.headers.get("Host", "").partition(":")[0]
        if name not in NAMES:
            self._send("Ask for 127.0.0.1.", "text/plain", HTTPStatus.FORBIDDEN)
            return
        url, server = urlsplit(self.path), self.server_of_page
        watched = server.watched
        page = parse_qs(url.query).get("page", [""])[0][:40]
        routes: dict[str, tuple[str, Callable[[], str | None]]] = {
            "/": ("text/html", lambda: document(watched)),
            "/live.json": ("application/json", lambda: server.tell(page)),
            "/page.css": ("text/css", style_sheet),
            "/page.js": ("text/javascript", lambda: asset("page.js")),
            "/report": ("text/html", lambda: report_page(watched.folder)),
        }
        kind, content = routes.get(url.path, ("text/plain", lambda: None))
        text = content()
        if text is None:
            message = "There is no report yet." if url.path == "/report" else "There is no page."
            self._send(message, "text/plain", HTTPStatus.NOT_FOUND)
        else:
            policy = _REPORT_POLICY if url.path == "/report" else _POLICY
            self._send(text, kind, HTTPStatus.OK, policy)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, text: str, kind: str, status: HTTPStatus, policy: str = _POLICY) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(content))),
            ("Content-Security-Policy", policy),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cache-Control", "no-store"),
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Standard error belongs to the training."""
