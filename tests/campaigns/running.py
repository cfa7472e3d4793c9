"""Runs the commands of `commands.py`, in processes that are forked for each (`zygote.py`).

All of them run in one folder, `case`, which is made anew for each: run folders remember where their
source was. What an unbroken run leaves is measured twice, so that only what is the same then is
asked for.
"""

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from campaigns.child import Start
from campaigns.commands import OLDER, TASK, TRAIN, Command, files_of, result
from campaigns.world import SENTENCE, small_shop
from campaigns.zygote import SECONDS, zygote

HUNG = -999  # in the place of an exit code
FIRST = 300.0  # seconds for a command that may be the first to compile something


@dataclass(frozen=True)
class Unbroken:
    """What a command does when nothing happens."""

    seconds: float
    operations: int
    result: dict[str, str]
    bytes_: int


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code, or minus the signal, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The code of a user's error."""
        if self.out.startswith('{"error"'):
            return str(json.loads(self.out)["error"]["code"])
        first = self.err.rpartition("error (")[2]
        return first.partition(")")[0] if "error (" in self.err else ""


@dataclass(frozen=True)
class Running:
    """A process that was started, and the pipes that take what it prints."""

    start: Start
    kind: str
    pid: int
    pipes: tuple[int, ...]

    def kill(self) -> None:
        """One that has ended is still there until it is waited for."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self, seconds: float = SECONDS) -> Ended:
        code = zygote(self.kind).wait(self.pid, seconds)
        if code is None:
            self.kill()
            zygote(self.kind).wait(self.pid)
        return Ended(HUNG if code is None else code, *(_said(pipe) for pipe in self.pipes))


def launch(start: Start) -> Running:
    """Start a command."""
    said = start.folder.parent / "said"
    said.mkdir(exist_ok=True)
    start = replace(start, said=f"{said}/{start.said}")
    kind = kind_of(start.arguments)
    pipes = tuple(_pipe(Path(f"{start.said}{name}")) for name in ("out", "err"))
    return Running(start, kind, zygote(kind).start(start), pipes)


def kind_of(arguments: tuple[str, ...]) -> str:
    """The server that forks a command."""
    return "light" if arguments[0] in ("import", "inspect", "task") else "heavy"


def _pipe(path: Path) -> int:
    """A pipe that holds what is printed until it is read."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(handle, fcntl.F_SETPIPE_SZ, 1 << 20)
    return handle


def _said(pipe: int) -> str:
    text = b""
    with suppress(BlockingIOError):
        while block := os.read(pipe, 1 << 16):
            text += block
    os.close(pipe)
    return text.decode(errors="replace")


def run(start: Start, kill_after: float | None = None, seconds: float = SECONDS) -> Ended:
    """A command from its start to its end, whoever ends it; one that takes longer hangs."""
    running = launch(start)
    if kill_after is not None:
        time.sleep(kill_after)
        running.kill()
    return running.wait(seconds)


def fresh(world: Path, state: str, is_cold: bool = False) -> Path:
    """The folder of a case as a command finds it."""
    made, case = make_state(world, state), world / "case"
    empty(case)
    shutil.copytree(made, case, dirs_exist_ok=True)
    if is_cold and state != "grown":
        shutil.rmtree(case / "cache", ignore_errors=True)
    return case


def empty(case: Path) -> None:
    """Remove what is in a folder; the folder itself may be a disk."""
    case.mkdir(parents=True, exist_ok=True)
    for path in case.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _new_rows(case: Path) -> None:
    """The database has grown since it was imported."""
    con = sqlite3.connect(case / "shop.db")
    columns = [row[1] for row in con.execute("PRAGMA table_info(orders)")]
    values = ", ".join("max(id) + 1" if name == "id" else name for name in columns)
    con.execute(f"INSERT INTO orders SELECT {values} FROM orders")
    con.commit()
    con.close()


def measure(world: Path, command: Command) -> list[Unbroken]:
    """A command that nothing happens to, with a warm cache and with a cold one."""
    found = []
    for is_cold in (False, True):
        case = fresh(world, command.state, is_cold)
        zygote(kind_of(command.arguments)).warm_up()
        if command.older is not None:  # to replace it takes more operations
            command.older(case)
        before = sum(p.stat().st_size for p in files_of(case))
        began = time.perf_counter()
        done = run(Start(command.arguments, case), seconds=FIRST)
        seconds = time.perf_counter() - began
        assert done.code == 0, f"{command.name}: {done}"
        size = max(4096, sum(p.stat().st_size for p in files_of(case)) - before)
        operations = int((world / "said" / "count").read_text())
        found.append(Unbroken(seconds, operations, result(command, case, done.out), size))
    kept = world / "unbroken" / command.name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(case, kept)
    assert found[0].result == found[1].result, f"{command.name} is not the same twice"
    return found


BEFORE: dict[str, tuple[str, tuple[str, ...]]] = {
    "cached": ("source", ("inspect", "shop.db")),
    "imported": ("cached", ("import", "shop.db", "import")),
    "task": ("imported", ("task", "import", SENTENCE, *TASK)),
    "older": ("imported", ("task", "import", OLDER, *TASK)),
    "run": ("task", TRAIN),
}


def make_state(world: Path, name: str) -> Path:
    """What is there before a command, made by the commands before it."""
    kept = world / "states" / name
    if kept.exists():
        return kept
    if name == "source":
        empty(world / "case")
        small_shop(world / "case" / "shop.db", 25, 140)
    elif name == "grown":
        _new_rows(fresh(world, "cached"))
    else:
        state, arguments = BEFORE[name]
        done = run(Start(arguments, fresh(world, state)), seconds=FIRST)
        assert done.code == 0, done
    hidden = world / "states" / f".{name}"
    shutil.copytree(
        world / "case", hidden, ignore=shutil.ignore_patterns("tmp"), dirs_exist_ok=True
    )
    return hidden.rename(kept)
