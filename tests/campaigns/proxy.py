"""A TCP proxy in front of a server, which breaks the connection after a number of bytes.

cut      both sides are closed as if the other had ended
reset    the client's connection is reset
stall    nothing arrives for a moment; then all goes on
hang     nothing arrives for a moment; then both sides are closed
"""

import socket
import struct
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Self

FAULTS = ("cut", "reset", "stall", "hang")
PAUSE = 0.15  # seconds of a stall
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER of zero seconds


class Proxy:
    """Forwards connections to a port; the fault comes once `after` bytes came from the server, over
    all connections together, and only once where it `heals`."""

    def __init__(self, port: int, fault: str, after: int, heals: bool) -> None:
        self._port, self._fault, self._left, self._heals = port, fault, after, heals
        self.struck = False
        self._lock, self._sockets = threading.Lock(), set[socket.socket]()
        self._reset = set[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for open_socket in (self._listener, *self._sockets):
            _close(open_socket)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.struck and not self._heals and self._fault != "stall":
                _close(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                _close(client)
                continue
            self._sockets |= {client, server}
            for source, target, is_answer in ((client, server, False), (server, client, True)):
                way = (source, target, is_answer)
                threading.Thread(target=self._forward, args=way, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        try:
            while data := source.recv(4096):
                if is_answer and (allowed := self._allowed(len(data))) is not None:
                    target.sendall(data[:allowed])
                    if not self._strike(source, target):
                        return
                    data = data[allowed:]
                target.sendall(data)
        except OSError:
            pass
        self._close(source)
        self._close(target)

    def _allowed(self, size: int) -> int | None:
        """How many bytes go through before the fault; None where it is not due."""
        with self._lock:
            if self.struck:
                return None
            self._left -= size
            if self._left > 0:
                return None
            self.struck = True
            return size + self._left

    def _strike(self, server: socket.socket, client: socket.socket) -> bool:
        """Whether the connection goes on."""
        if self._fault in ("stall", "hang"):
            time.sleep(PAUSE)
        if self._fault == "stall":
            return True
        if self._fault == "reset":
            self._reset.add(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.shutdown(socket.SHUT_RD)  # the other thread, which waits for it, lets it go
            client.close()
        self._close(client)
        self._close(server)
        return False

    def _close(self, connection: socket.socket) -> None:
        """End a connection; after a reset, nothing more is said."""
        if connection in self._reset:
            connection.close()
        else:
            _close(connection)


def _close(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
