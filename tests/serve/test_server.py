"""`gelgt serve` as a process: what arrives on its socket, and how it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from forked import Forked
from gelgt.runs.folder import Run

PYTHON = (sys.executable, "-c", "from gelgt.cli import main; main()")
TOKEN = "a-token-nobody-should-see"


class Server:
    """A server process, once it listens."""

    def __init__(
        self, run: Path, source: Path, *options: str, is_forked: bool = True, **environment: str
    ) -> None:
        words = ("serve", str(run), "--source", str(source), "--port", "0", *options)
        env = {"OMP_NUM_THREADS": "1", **environment}
        self.process: Forked | subprocess.Popen[str] = (
            Forked(*words, **env)
            if is_forked
            else subprocess.Popen(
                [*PYTHON, *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | env,
            )
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)", line)
        assert found, (line, self.process.communicate(timeout=10))
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def raw(self, content: bytes, seconds: float = 20.0) -> bytes:
        """What comes back for some bytes until the connection ends, or nothing more comes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            connection.sendall(content)
            parts = []
            try:
                while part := connection.recv(65_536):
                    parts.append(part)
            except (TimeoutError, ConnectionResetError):
                pass
            return b"".join(parts)

    def end(self) -> tuple[str, str]:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def start(run_of: Callable[[str], Run], shop_file: Path) -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def make(*options: str, source: Path | None = None, **more: Any) -> Server:
        run = run_of("binary").folder
        servers.append(Server(run, source or shop_file, *options, **more))
        return servers[-1]

    yield make
    for server in servers:
        if server.process.poll() is None:
            server.process.kill()
        server.process.wait()


@pytest.fixture(scope="module")
def server(start: Callable[..., Server]) -> Server:
    return start()


def body(server: Server) -> bytes:
    keys = httpx.get(f"{server.url}/v1/model").json()["example"]["keys"]
    return json.dumps({"entities": keys}).encode()


def test_it_answers_and_tells_where(server: Server) -> None:
    response = httpx.post(f"{server.url}/v1/predictions", json=json.loads(body(server)))
    assert response.status_code == 200
    assert len(response.json()["predictions"]) == 2


def test_a_signal_ends_it_behind_the_last_answer(start: Callable[..., Server]) -> None:
    server = start()
    asked = json.loads(body(server))
    keys = asked["entities"] * 2_000
    statuses: list[int] = []

    def ask() -> None:
        answer = httpx.post(f"{server.url}/v1/predictions", json={"entities": keys}, timeout=60)
        statuses.append(answer.status_code)

    askers = [threading.Thread(target=ask) for _ in range(3)]
    for asker in askers:
        asker.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        text = httpx.get(f"{server.url}/metrics").text
        if re.search(r"gelgt_queue_requests [12]\.0", text):  # the first is being answered
            break
        time.sleep(0.01)
    server.process.terminate()
    for asker in askers:
        asker.join(60)
    out, err = server.end()
    assert statuses == [200] * 3, err
    assert server.process.returncode == 0
    assert "Traceback" not in out + err


def test_too_many_get_429_and_later_ones_an_answer(start: Callable[..., Server]) -> None:
    server = start("--queue", "2")
    asked = json.loads(body(server))
    keys, answers = asked["entities"] * 500, []

    def ask() -> None:
        answers.append(
            httpx.post(f"{server.url}/v1/predictions", json={"entities": keys}, timeout=60)
        )

    askers = [threading.Thread(target=ask) for _ in range(12)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(60)
    refused = [answer for answer in answers if answer.status_code == 429]
    assert {answer.status_code for answer in answers} == {200, 429}
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert refused[0].json()["error"]["code"] == "busy"
    assert httpx.post(f"{server.url}/v1/predictions", json=asked).status_code == 200
    server.end()


HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding: xchunked\r\n",
    ],
)
def test_requests_whose_end_is_in_doubt_are_refused(server: Server, head: bytes) -> None:
    """A proxy and the server must not see two different requests in the same bytes."""
    inner = b"GET /v1/model HTTP/1.1\r\n" + HOST + b"\r\n"
    outer = b"POST /v1/predictions HTTP/1.1\r\n" + HOST + JSON + head + b"\r\n0\r\n\r\n"
    answer = server.raw(outer + inner, seconds=2.0)
    assert answer.startswith(b"HTTP/1.1 4"), answer[:200]
    assert answer.count(b"HTTP/1.1 ") == 1  # the inner one is no request
    assert b'"gelgt"' not in answer


def test_requests_that_are_none_are_refused(server: Server) -> None:
    for content in (
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /v1/model HTTP/1.1\r\n" + HOST + b"X: a\x00b\r\n\r\n",
        b"GET /v1/model HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /v1/model HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
    ):
        answer = server.raw(content, seconds=3.0)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:100]
    assert httpx.get(f"{server.url}/v1/health/live").status_code == 200


def test_slow_clients_are_let_go(run_of: Callable[[str], Run], shop_file: Path) -> None:
    from gelgt.serve import ServeSettings, Service
    from gelgt.serve.server import _Server, bind, configured
    from gelgt.serve.service import Origin

    settings = ServeSettings(port=0, receive_seconds=0.5)
    service = Service(run_of("binary"), Origin(str(shop_file)), settings, "cpu")
    bound, address = bind(settings), []
    running = _Server(configured(service), address.append, bound)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [bound]})
    thread.start()
    while not address:
        time.sleep(0.01)
    port = bound.getsockname()[1]
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as silent:
            assert silent.recv(10) == b""  # closed without a byte from us
        with socket.create_connection(("127.0.0.1", port), timeout=20) as headers:
            headers.sendall(b"GET /v1/model HTTP/1.1\r\nHost: local")
            assert headers.recv(10) == b""
        with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
            head = (
                b"POST /v1/predictions HTTP/1.1\r\n" + HOST + JSON + b"Content-Length: 99\r\n\r\n"
            )
            slow.sendall(head + b"{")
            answer = slow.recv(4096)
            assert answer.startswith(b"HTTP/1.1 408"), answer
        assert httpx.get(f"http://127.0.0.1:{port}/v1/health/live").status_code == 200
    finally:
        running.should_exit = True
        thread.join(60)
        service.close()
    assert not thread.is_alive()


def test_no_token_is_told_anywhere(start: Callable[..., Server]) -> None:
    words = ("--token-env", "SERVE_TOKEN", "--host", "0.0.0.0")
    server = start(*words, SERVE_TOKEN=TOKEN, is_forked=False)  # with a title of its own
    answers = [
        httpx.get(f"{server.url}/v1/model"),
        httpx.get(f"{server.url}/v1/model", headers={"Authorization": f"Bearer {TOKEN}"}),
        httpx.get(f"{server.url}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}),
    ]
    assert [answer.status_code for answer in answers] == [401, 200, 200]
    arguments = Path(f"/proc/{server.process.pid}/cmdline")
    title = arguments.read_text() if arguments.exists() else ""
    out, err = server.end()
    assert TOKEN not in out + err + title + "".join(answer.text for answer in answers)


def test_killed_in_the_middle_of_a_refresh_it_leaves_nothing_broken(
    start: Callable[..., Server], growing: Path, add_orders: Callable[..., Any]
) -> None:
    server = start(source=growing)
    first = httpx.post(f"{server.url}/v1/predictions", json=json.loads(body(server))).json()
    add_orders(growing)
    refresh = threading.Thread(
        target=lambda: _quiet(lambda: httpx.post(f"{server.url}/v1/refresh", timeout=60))
    )
    refresh.start()
    time.sleep(0.15)
    server.process.send_signal(signal.SIGKILL)
    refresh.join(60)
    again = start(source=growing)
    answer = httpx.post(f"{again.url}/v1/predictions", json=json.loads(body(again)))
    assert answer.status_code == 200
    assert answer.json()["data"]["newest_row"] > first["data"]["newest_row"]
    again.end()


def _quiet(call: Callable[[], Any]) -> None:
    with suppress(httpx.HTTPError):
        call()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--host", "0.0.0.0"), "no_token"),
        (("--token-env", "NOT_SET_ANYWHERE"), "no_token"),
        (("--refresh", "often"), "bad_duration"),
        (("--host", "no.such.host.invalid"), "no_token"),
    ],
)
def test_options_that_cannot_be(
    options: tuple[str, ...], expected: str, run_of: Callable[[str], Run], shop_file: Path
) -> None:
    with Forked("serve", run_of("binary").folder, "--source", shop_file, *options) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"error ({expected})" in err


def test_a_port_that_is_taken_is_said(
    server: Server, run_of: Callable[[str], Run], shop_file: Path
) -> None:
    words = ("serve", run_of("binary").folder, "--source", shop_file, "--port", server.port)
    with Forked(*words) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "error (port_taken)" in err
