"""Commands of gelgt in processes of their own that have loaded everything already.

    with Forked("train", source, sentence, "--out", folder) as process:
        process.send_signal(signal.SIGINT)

A server that has run nothing forks for each command. The fork is a process like any other, with
streams, signals and an exit code of its own; it only saves the seconds in which Python reads torch.
Tests of what happens in those seconds start Python itself.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import IO, Any, Self

LOADED = (
    "gelgt.cli.app",
    "gelgt.inference.part_scorer",
    "gelgt.live",
    "gelgt.report",
    "gelgt.sources.sql",
    "gelgt.tasks.engine",
    "gelgt.training.run",
    "lightgbm",
    "numba",
)
OPTIONAL = ("gelgt.serve.server",)
LONGEST = 1 << 17  # bytes of a question
PR_SET_PDEATHSIG = 1


class Server:
    """Whoever forks, as seen by whoever asks."""

    def __init__(self) -> None:
        self._own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        words = [sys.executable, str(Path(__file__)), str(other.fileno())]
        self._process = subprocess.Popen(words, pass_fds=[other.fileno()])  # ends with this one
        other.close()
        self._turn = Lock()

    def ask(self, question: dict[str, Any], streams: tuple[int, ...] = ()) -> Any:
        with self._turn:
            socket.send_fds(self._own, [json.dumps(question).encode()], streams)
            return json.loads(self._own.recv(LONGEST))


@cache
def server() -> Server:
    return Server()


class Forked:
    """A command with both streams as pipes, killed at the end if it still runs; what tests use of
    `subprocess.Popen`."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        (out, out_end), (err, err_end) = os.pipe(), os.pipe()
        question = {"run": [*map(str, arguments)], "environment": {**os.environ, **environment}}
        self.pid: int = server().ask(question | {"folder": os.getcwd()}, (out_end, err_end))
        os.close(out_end)
        os.close(err_end)
        self.stdout: IO[str] = os.fdopen(out, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(err, encoding="utf-8")
        self.returncode: int | None = None
        self._turn = Lock()

    def poll(self) -> int | None:
        with self._turn:  # a process is buried once
            if self.returncode is None:
                self.returncode = server().ask({"poll": self.pid})
            return self.returncode

    def wait(self, timeout: float = 300) -> int:
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < until, "the command does not end"
            time.sleep(0.005)
        return code

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """What it prints from now on, when it has ended."""
        with ThreadPoolExecutor(2) as pool:
            said = [pool.submit(stream.read) for stream in (self.stdout, self.stderr)]
        self.wait(timeout)
        return said[0].result(), said[1].result()

    def send_signal(self, number: signal.Signals) -> None:
        """Its server alone can bury it, when it is polled: until then the id is nobody else's."""
        with self._turn:
            if self.returncode is None:
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.wait()
        for stream in (self.stdout, self.stderr):
            stream.close()


def serve(own: socket.socket) -> None:
    """Answer until the other side is gone; in a fork, run the command."""
    for name in LOADED:
        import_module(name)
    for name in OPTIONAL:
        with suppress(ImportError):
            import_module(name)
    gc.freeze()  # of what is shared by all forks, none has to go through it when it ends
    while True:
        content, streams, _, _ = socket.recv_fds(own, LONGEST, 2)
        if not content:
            os._exit(0)
        question = json.loads(content)
        answer: int | None
        if "poll" in question:
            found, status = os.waitpid(question["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if found else None
        else:
            answer = os.fork()
            if answer == 0:
                own.close()
                run(question, streams)
        for stream in streams:
            os.close(stream)
        own.send(json.dumps(answer).encode())


def run(question: dict[str, Any], streams: list[int]) -> None:
    """The command, in this process, which ends with the server at the latest."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for place, stream in zip((1, 2), streams, strict=True):
        os.dup2(stream, place)
        os.close(stream)
    os.chdir(question["folder"])
    os.environ.clear()
    os.environ.update(question["environment"])
    # Whoever runs in the background of a shell ignores Ctrl-C, and would hand that down.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["gelgt", *question["run"]]
    from gelgt.cli import main

    main()
    raise AssertionError("main ends the process")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for whoever asks
    serve(socket.socket(fileno=int(sys.argv[1])))
