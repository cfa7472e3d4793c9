"""The commands that are killed: where each begins, what it leaves, and what has to be the same.

All of them run in one folder, `case`, which is made anew for each: run folders remember where their
source was. What an unbroken run leaves is measured twice, so that only what is the same then is
asked for.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

from campaigns.child import Start
from campaigns.files import digest
from campaigns.world import SENTENCE, TINY
from campaigns.zygote import zygote
from gelgt.demo import shop
from gelgt.runs.tensors import load_tensors

OLDER = "PREDICT COUNT(orders.*, 0, 20, days) > 0 FOR EACH customers.id"
LEFT = re.compile(r"\..*\.(tmp|old)")
HUNG = -999  # in the place of an exit code
AT = "2024-05-20"
SETTINGS = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
TASK = ("--name", "orders", "--eval-timestamps", "1")
TRAIN = ("train", "import", "orders", "--out", "run", "--device", "cpu", *SETTINGS)
PREDICT = ("predict", "run", "--all", "--at", AT, "--device", "cpu")
ASIDE = ("tmp", "cache")
TIMED = ("seconds", "training_seconds", "phases", "machine", "time", "key", "command")


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: In outcomes.
        state: What is there before, a folder of states.
        arguments: Of `gelgt`.
        leaves: Files and folders that it writes; nothing else may change.
        older: Puts an older result in its place, which stays whole until it is replaced.
        whole: Patterns of files and folders that are there whole or not at all, at any moment.
        more: Arguments without which a second start is refused, by the code of that error; ""
            where it is refused because all is done.
    """

    name: str
    state: str
    arguments: tuple[str, ...]
    leaves: tuple[str, ...]
    whole: tuple[str, ...] = ()
    older: Callable[[Path], None] | None = None
    more: dict[str, str] = field(default_factory=dict)


def _older_task(case: Path) -> None:
    folder = Path("import") / "tasks" / "orders"
    shutil.copytree(case.parent / "states" / "older" / folder, case / folder)


def _older_file(name: str) -> Callable[[Path], None]:
    return lambda case: (case / name).write_bytes(b"older " * 500) and None


def _new_rows(case: Path) -> None:
    """The database has grown since it was imported."""
    con = sqlite3.connect(case / "shop.db")
    columns = [row[1] for row in con.execute("PRAGMA table_info(orders)")]
    values = ", ".join("max(id) + 1" if name == "id" else name for name in columns)
    con.execute(f"INSERT INTO orders SELECT {values} FROM orders")
    con.commit()
    con.close()


RESUMED = {"run_exists": "--resume"}
RUN_FILES = ("run/*.json", "run/*.yaml", "run/model.safetensors", "run/*/*.parquet")
WHY = ("explain", "run", "--entity", "10105", "--at", AT, "--device", "cpu", "--out", "why.json")

COMMANDS = (
    Command(
        "import",
        "source",
        ("import", "shop.db", "import"),
        ("import",),
        ("import",),
        more={"exists": ""},
    ),
    Command("inspect", "source", ("inspect", "shop.db", "--json"), ()),
    Command("grow", "grown", ("inspect", "shop.db", "--json"), ()),
    Command(
        "task",
        "imported",
        ("task", "import", SENTENCE, *TASK),
        ("import",),
        ("import/db", "import/tasks/orders"),
    ),
    Command(
        "task anew",
        "imported",
        ("task", "import", SENTENCE, *TASK, "--overwrite"),
        ("import",),
        ("import/db", "import/tasks/orders"),
        _older_task,
    ),
    Command("train", "task", TRAIN, ("run",), RUN_FILES, more=RESUMED),
    Command("retrain", "task", (*TRAIN, "--retrain-all"), ("run",), RUN_FILES, more=RESUMED),
    Command(
        "predict",
        "run",
        (*PREDICT, "--out", "new.csv"),
        ("new.csv",),
        ("new.csv",),
        _older_file("new.csv"),
    ),
    Command(
        "parts",
        "run",
        (*PREDICT, "--out", "parts", "--shards", "3"),
        ("parts",),
        ("parts/*.parquet", "parts/_*.json"),
    ),
    Command(
        "report",
        "run",
        ("report", "run", "--out", "new.html"),
        ("new.html",),
        ("new.html",),
        _older_file("new.html"),
    ),
    Command("explain", "run", WHY, ("why.json",), ("why.json",), _older_file("why.json")),
)


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

    def wait(self) -> Ended:
        code = zygote(self.kind).wait(self.pid)
        if code is None:
            self.kill()
            zygote(self.kind).wait(self.pid)
        return Ended(HUNG if code is None else code, *(_said(pipe) for pipe in self.pipes))


def launch(start: Start) -> Running:
    """Start a command."""
    said = start.folder.parent / "said"
    said.mkdir(exist_ok=True)
    start = replace(start, said=f"{said}/{start.said}")
    kind = "light" if start.arguments[0] in ("import", "inspect", "task") else "heavy"
    pipes = tuple(_pipe(Path(f"{start.said}{name}")) for name in ("out", "err"))
    return Running(start, kind, zygote(kind).start(start), pipes)


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


def run(start: Start, kill_after: float | None = None) -> Ended:
    """A command from its start to its end, whoever ends it."""
    running = launch(start)
    if kill_after is not None:
        time.sleep(kill_after)
        running.kill()
    return running.wait()


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


def result(command: Command, case: Path, said: str) -> dict[str, str]:
    """Hashes of what a command left, without the times that it took."""
    found = {"standard output": digest(said)} if "--json" in command.arguments else {}
    paths = [path.relative_to(case) for name in command.leaves for path in files_of(case / name)]
    return found | {str(p): digest(_content(case / p)) for p in paths if not is_left(p)}


def is_left(path: Path) -> bool:
    """Whether gelgt calls something so that it has not finished."""
    return any(LEFT.fullmatch(name) for name in path.parts)


def half_written(command: Command, case: Path, before: Path) -> list[str]:
    """What is neither as it was before, nor as an unbroken command leaves it."""
    after = case.parent / "unbroken" / command.name
    wrong = []
    for pattern in command.whole:
        for path in sorted({p.relative_to(f) for f in (case, before) for p in f.glob(pattern)}):
            now = tree(case / path)
            if path.name != "progress.json" and now not in (
                tree(before / path),
                tree(after / path),
            ):
                wrong.append(str(path))
    return wrong


def tree(path: Path) -> str | None:
    """A hash of a file or of what a folder holds; None where it is not there."""
    if not path.exists():
        return None
    return digest(*((str(p.relative_to(path)), _content(p)) for p in files_of(path)))


def files_of(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _content(path: Path) -> object:
    in_run = path.parent.name == "run"
    if in_run and path.name in ("progress.json", "report.html", "_SUCCESS"):
        # they tell how long it took, and `gelgt report` writes the same again
        return path.name == "report.html" or "…"
    if in_run and path.name == "metrics.json":
        record = json.loads(path.read_text())
        epochs = [{**epoch, "seconds": 0} for epoch in record.pop("epochs")]
        return [epochs, {k: v for k, v in sorted(record.items()) if k not in TIMED}]
    if path.name.endswith(".commit.json"):
        record = json.loads(path.read_text())
        return {k: v for k, v in sorted(record.items()) if k not in ("seconds", "finished")}
    if path.suffix == ".safetensors":  # its header has no order
        tensors, meta = load_tensors(path)
        return digest(sorted(meta.items()), [(k, v.numpy().tobytes()) for k, v in tensors.items()])
    if path.suffix == ".parquet" and in_run:
        return digest(pq.read_table(path))
    return path.read_bytes()


def untouched(command: Command, case: Path) -> str:
    """Everything that a command has no business to change."""
    parts = []
    for path in files_of(case):
        name = str(path.relative_to(case))
        is_written = any(name == own or name.startswith(f"{own}/") for own in command.leaves)
        if not is_written and not is_left(Path(name)) and name.split("/")[0] not in ASIDE:
            parts.append((name, path.read_bytes()))
    return digest(*parts)


def measure(world: Path, command: Command) -> Unbroken:
    """A command that nothing happens to, twice."""
    seconds, results = [], []
    for _ in range(2):
        case = fresh(world, command.state)
        before = sum(p.stat().st_size for p in files_of(case))
        began = time.perf_counter()
        done = run(Start(command.arguments, case))
        seconds.append(time.perf_counter() - began)
        assert done.code == 0, f"{command.name}: {done}"
        results.append(result(command, case, done.out))
        size = sum(p.stat().st_size for p in files_of(case)) - before
        operations = int((world / "said" / "count").read_text())
    kept = world / "unbroken" / command.name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(case, kept)
    assert results[0] == results[1], f"{command.name} is not the same twice"
    return Unbroken(min(seconds), operations, results[0], size)


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
        shop(world / "case" / "shop.db", customers=25, days=140, seed=3)
    elif name == "grown":
        _new_rows(fresh(world, "cached"))
    else:
        state, arguments = BEFORE[name]
        done = run(Start(arguments, fresh(world, state)))
        assert done.code == 0, done
    hidden = world / "states" / f".{name}"
    shutil.copytree(
        world / "case", hidden, ignore=shutil.ignore_patterns("tmp"), dirs_exist_ok=True
    )
    return hidden.rename(kept)
