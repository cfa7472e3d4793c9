"""Serve: `gelgt serve` that is killed, or whose disk, handles or memory run out, while it starts,
answers, or reads its source again.

Each answer that came is that of the rows before or of those after. The port is free afterwards, run
and import are as they were, and a server that is started there again answers the same.
"""

import http.client
import json
import os
import resource
import shutil
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from campaigns import commands, running
from campaigns.child import Start
from campaigns.commands import AT, Command
from campaigns.running import Ended, Running, Unbroken
from campaigns.zygote import zygote
from database_servers import free_port

SERVE = Command("serve", "run", ("serve", "run", "--source", "shop.db", "--device", "cpu"), ())
PHASES = ("starting", "answering", "reading again")
KEYS = [10_000, 10_021, 10_035, 10_042, 10_063, 10_077, 10_140, 10_168]
ASKERS = 3
SECONDS = 20.0  # for a server to start
GONE = (OSError, http.client.HTTPException)  # what who asks sees of a server that has ended
LIMITS = {"quota": resource.RLIMIT_FSIZE, "handles": resource.RLIMIT_NOFILE}


def ask(port: int, path: str = "/v1/predictions", body: Any = None) -> tuple[int, Any]:
    """The status and what a server answers to a POST."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        asked = {"entities": KEYS, "at": AT} if body is None else body
        connection.request("POST", path, json.dumps(asked), {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def predicted(port: int) -> str:
    status, answer = ask(port)
    assert status == 200, answer
    return json.dumps(answer["predictions"])


@dataclass
class Server:
    """A server of a case, and what it has answered."""

    process: Running
    port: int
    answers: set[str] = field(default_factory=set)
    refused: dict[int, Any] = field(default_factory=dict)
    ended: Ended | None = None

    @property
    def has_ended(self) -> bool:
        stat = Path(f"/proc/{self.process.pid}/stat")
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"

    def is_listening(self) -> bool:
        """Wait until it is, or has ended."""
        until = time.monotonic() + SECONDS
        while not self.has_ended:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            assert time.monotonic() < until, f"it does not listen: {self.end()}"
            time.sleep(0.01)
        return False

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Ask all the time, from several threads."""
        stopped = threading.Event()

        def work() -> None:
            while not stopped.is_set():
                try:
                    status, answer = ask(self.port)
                except GONE:
                    stopped.wait(0.02)
                    continue
                if status == 200:
                    self.answers.add(json.dumps(answer["predictions"]))
                else:
                    self.refused[status] = answer

        askers = [threading.Thread(target=work) for _ in range(ASKERS)]
        for asker in askers:
            asker.start()
        try:
            yield
        finally:
            stopped.set()
            for asker in askers:
                asker.join(30)

    def end(self) -> Ended:
        """As by whoever stops a service."""
        if self.ended is None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGTERM)
            self.ended = self.process.wait()
        return self.ended


@contextmanager
def started(folder: Path, port: int, fault: Start | None = None) -> Iterator[Server]:
    """A server, which has ended behind this."""
    command = Start(SERVE.arguments, folder) if fault is None else fault
    words = (*command.arguments, "--port", str(port))
    server = Server(running.launch(replace(command, arguments=words)), port)
    try:
        yield server
    finally:
        if server.ended is None:
            server.process.kill()
            server.end()


def read_again(port: int) -> Any:
    """Have a server look at its source; it may end meanwhile."""
    with suppress(*GONE):
        return ask(port, "/v1/refresh", {})
    return None


def lay_out(folder: Path) -> None:
    """The source as it will be, where a disk that is full has it already."""
    shutil.copy(folder.parent / "grown.db", folder / "grown.db")


def grow(folder: Path) -> None:
    """The source gets new rows."""
    (folder / "grown.db").replace(folder / "shop.db")


def measure(world: Path, command: Command) -> list[Unbroken]:
    """A server that nothing happens to: how long it starts, its changes of files, and its answers
    before and after its source has grown."""
    folder, port = running.fresh(world, command.state, is_cold=True), free_port()
    _write_grown(folder / "shop.db", world / "grown.db")
    lay_out(folder)
    zygote("heavy").warm_up()
    began = time.perf_counter()
    with started(folder, port) as server:
        assert server.is_listening(), server.end()
        seconds = time.perf_counter() - began
        answers = {"before": predicted(port)}
        grow(folder)
        said = read_again(port)
        answers["after"] = predicted(port)
        ended = server.end()
    assert ended.code == 0, ended
    assert answers["before"] != answers["after"], f"new rows change nothing: {answers}, {said}"
    operations = int((world / "said" / "count").read_text())
    return [Unbroken(seconds, operations, answers, 1 << 20)] * 2


def _write_grown(source: Path, path: Path) -> None:
    """The shop with all that its customers did, twice."""
    shutil.copy(source, path)
    with closing(sqlite3.connect(path)) as con, con:
        for table in ("orders", "order_items"):
            columns = [row[1] for row in con.execute(f"PRAGMA table_info({table})")]
            values = ", ".join("id + 1000000" if name == "id" else name for name in columns)
            con.execute(f"INSERT INTO {table} SELECT {values} FROM {table}")


def attempt(
    folder: Path, fault: Start, whole: Unbroken, random: np.random.Generator
) -> tuple[Ended, str, bool]:
    """A server that something happens to: how it ended, in which phase it was killed (in none where
    it was not), and whether its source had grown."""
    phase = str(random.choice(PHASES))
    is_killed = fault.fault == "moment"
    with started(folder, free_port(), fault) as server:
        if is_killed and phase == "starting":
            time.sleep(random.uniform(0, whole.seconds))
        elif server.is_listening():
            _disturb(server, folder, phase if is_killed else "", whole, random)
        if is_killed:
            server.process.kill()
        elif not server.has_ended:
            _recovers(server, folder, fault, whole)
        ended = server.end()
    has_grown = not (folder / "grown.db").exists()
    (folder / "grown.db").unlink(missing_ok=True)
    for answer in server.answers:
        assert answer in whole.result.values(), f"an answer of neither state: {answer}"
    for status, said in server.refused.items():
        assert status < 500 or status == 503, f"{status}: {said}, {ended}"
    with socket.socket() as probe:  # as `gelgt serve` does it
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", server.port))
    return ended, phase if is_killed else "", has_grown


def _disturb(
    server: Server, folder: Path, killed: str, whole: Unbroken, random: np.random.Generator
) -> None:
    """Ask it, and let it read its source again; killed in a phase, or left alone."""
    with server.asked():
        time.sleep(random.uniform(0, 0.3))
        if killed != "answering":
            grow(folder)
            again = threading.Thread(target=read_again, args=(server.port,))
            again.start()
            again.join(random.uniform(0, whole.seconds) if killed else 30)
        if killed:
            server.process.kill()


def _recovers(server: Server, folder: Path, fault: Start, whole: Unbroken) -> None:
    """A server that goes on answers; once what was missing is there again, with the new rows."""
    from campaigns.kill import mend

    if fault.fault in LIMITS:
        pid, limit = server.process.pid, LIMITS[fault.fault]
        most = resource.prlimit(pid, limit)[1]
        resource.prlimit(pid, limit, (most, most))
    mend(folder)
    if fault.fault == "memory":  # what it could not get may have ended one of its threads
        return
    for _ in range(2):  # a connection of before may have waited for handles
        read_again(server.port)
    assert predicted(server.port) == whole.result["after"], "the new rows do not answer"


def check_again(folder: Path, whole: Unbroken, has_grown: bool, what: str) -> Ended:
    """A server that is started afterwards answers as one that nothing happened to."""
    port = free_port()
    with started(folder, port) as server:
        assert server.is_listening(), f"not the second time, after {what}: {server.end()}"
        answer = predicted(port)
        ended = server.end()
    assert ended.code == 0, f"after {what}: {ended}"
    assert "Traceback" not in ended.err, f"after {what}: {ended.err}"
    right = whole.result["after" if has_grown else "before"]
    assert answer == right, f"another answer after {what}: {answer}"
    return ended


def unchanged(folder: Path) -> str:
    """What a server only reads: run and import."""
    parts = [(p, (folder / p)) for p in ("run", "import")]
    return commands.digest(*((name, commands.tree(path)) for name, path in parts))
