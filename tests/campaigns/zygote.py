"""Starts processes that have loaded gelgt already: a server that has run nothing forks for each.

    python -m campaigns.zygote light|heavy      reads one JSON object a line, answers with another

A fork is a process like any other, with files, limits and an end of its own, and may be killed like
any other; it only saves the seconds in which Python reads torch. "heavy" has what networks need.
"""

import gc
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from campaigns import warm
from campaigns.child import Start, run

SECONDS = 30.0  # a command that takes longer hangs


class Zygote:
    """The server, as seen by whoever starts processes."""

    def __init__(self, kind: str) -> None:
        words = [sys.executable, "-m", "campaigns.zygote", kind]
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        self._server = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )

    def start(self, start: Start) -> int:
        """The id of a new process."""
        return int(self._ask(asdict(start))["pid"])

    def wait(self, pid: int, seconds: float = SECONDS) -> int | None:
        """The exit code of a process, or minus its signal; None while it goes on."""
        code: int | None = self._ask({"wait": pid, "seconds": seconds})["code"]
        return code

    def warm_up(self) -> None:
        """Take what earlier processes have compiled. Whoever measures one does not measure that."""
        self._ask({"warm": True})

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(question, default=str) + "\n")
        self._server.stdin.flush()
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer


@cache
def zygote(kind: str) -> Zygote:
    """The server of a kind; it ends with this process."""
    return Zygote(kind)


def serve(kind: str) -> Start | None:
    """Answer until the other side is gone; in a fork, what it has to run."""
    warm.load(kind)
    gc.collect()
    gc.freeze()  # or each process would copy what it looks through
    for line in sys.stdin:
        question = json.loads(line)
        if "wait" in question:
            answer: dict[str, Any] = {"code": _wait(question["wait"], question["seconds"])}
        elif "warm" in question:
            if kind == "heavy":
                warm.compiled()
            answer = {}
        elif (pid := os.fork()) == 0:
            place = question.pop("place")
            folder = Path(question.pop("folder"))
            arguments = tuple(question.pop("arguments"))
            return Start(
                arguments, folder, place=None if place is None else Path(place), **question
            )
        else:
            answer = {"pid": pid}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return None


def _wait(pid: int, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            return None
        time.sleep(0.002)


if __name__ == "__main__":
    command = serve(sys.argv[1])
    if command is not None:
        run(command)
