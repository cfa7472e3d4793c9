"""uvicorn around the application, until a signal ends it."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import torch
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gelgt.errors import GelgtError
from gelgt.serve.app import make_app
from gelgt.serve.service import Service
from gelgt.serve.settings import ServeSettings

log = logging.getLogger("gelgt.serve")
CONNECTIONS = 1_000  # open at a time; a slow client holds one for a few seconds at most
HEAD_BYTES = 64 << 10
TOO_MUCH = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
SWITCH = 0.0005  # seconds after which a thread that computes lets the one that answers go on


def serve(service: Service, told: Callable[[str], None] = lambda address: None) -> None:
    """Answer until SIGINT or SIGTERM, then finish what was accepted.

    Args:
        told: Is told the address once the server listens.

    Raises:
        GelgtError: ``port_taken``, ``bad_host``.
    """
    bound = bind(service.settings)
    server = _Server(configured(service), told, bound)
    # uvicorn raises the signal again once it has ended; that it came is no failure.
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: None)
    sys.setswitchinterval(SWITCH)
    # The thread that answers wants a core of its own: with two threads on two cores a batch of 32
    # took half as long again.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    try:
        server.run(sockets=[bound])
    finally:
        service.close()


def configured(service: Service) -> uvicorn.Config:
    """How uvicorn runs the application of a service."""
    settings = service.settings
    return uvicorn.Config(
        make_app(service),
        http=_protocol(settings),
        ws="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.time_limit) + 1,
        limit_concurrency=CONNECTIONS,
        lifespan="off",
    )


def bind(settings: ServeSettings) -> socket.socket:
    """The socket that a server listens on."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    bound = socket.socket(family)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((settings.host, settings.port))
    except socket.gaierror:
        bound.close()
        raise GelgtError(
            "bad_host", f"There is no address '{settings.host}'.", hint="Use 127.0.0.1 or 0.0.0.0."
        ) from None
    except OSError as error:
        bound.close()
        raise GelgtError(
            "port_taken",
            f"{settings.host}:{settings.port} cannot be listened on: {error.strerror}.",
            hint="Choose another with --port; 0 takes a free one.",
        ) from None
    return bound


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, told: Callable[[str], None], bound: socket.socket
    ) -> None:
        super().__init__(config)
        self._told, self._bound = told, bound

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host, port = self._bound.getsockname()[:2]
            self._told(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def _protocol(settings: ServeSettings) -> type[asyncio.Protocol]:
    """uvicorn's protocol, which has no limit of its own on how long headers take, and how long they
    are: connections that send none, send them byte by byte, or send too many are closed."""

    class Protocol(HttpToolsProtocol):
        _headers_due: asyncio.TimerHandle | None = None
        _head_bytes = 0

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._headers_due is not None:  # all of it was headers, and there are more
                self._head_bytes += len(data)
                if self._head_bytes > HEAD_BYTES:
                    self._refuse()

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect_headers()

        def on_message_begin(self) -> None:
            if self._headers_due is None:
                self._expect_headers()
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._forget()
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > HEAD_BYTES:
                self._refuse()
            else:
                super().on_headers_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _expect_headers(self) -> None:
            self._headers_due = self.loop.call_later(settings.receive_seconds, self._close)

        def _forget(self) -> None:
            if self._headers_due is not None:
                self._headers_due.cancel()
                self._headers_due = None
            self._head_bytes = 0

        def _refuse(self) -> None:
            self._forget()
            self.transport.write(TOO_MUCH)
            self._close()

        def _close(self) -> None:
            self.transport.close()

    return Protocol
