"""Kill: a command that is killed, or whose disk, memory or files run out, at a random moment.

It ends in an error that says so, or in nothing at all; what was there before is whole. Started
again it ends as one that nothing happened to, and leaves no temporary file behind.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from campaigns import commands, running, serving
from campaigns.child import Start
from campaigns.commands import ASIDE, COMMANDS, Command, is_left
from campaigns.frame import Campaign
from campaigns.running import HUNG, Ended, Unbroken
from campaigns.serving import SERVE
from campaigns.world import cached_in
from gelgt.sources.cache import scratch_folder

DAY = 86_400
DISK = 24 << 20  # bytes of the disk that fills up
FAULTS = {
    "kill": 8,
    "moment": 6,
    "full disk": 3,
    "quota": 2,
    "handles": 2,
    "memory": 2,
    "read-only": 3,
    "failing disk": 3,
}
KILLED = (*COMMANDS, SERVE)
_SHARES = np.array(list(FAULTS.values())) / sum(FAULTS.values())
STARTED = re.compile(r'threading.py", line \d+ in start')  # a thread that got no memory to begin
# How a process ends whose memory is refused, beside an error: libraries in C++ give up, or do not
# look whether they got any.
REFUSED_MEMORY = (-signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV)
NO_THREAD = (127, "cannot allocate memory for thread-local data: ABORT")  # by the C library itself


@dataclass(frozen=True)
class World:
    """Folders of the cases, and whether this user may mount a small disk there."""

    folder: Path
    can_mount: bool
    measured: dict[str, list[Unbroken]] = field(default_factory=dict)

    def unbroken(self, command: Command, is_cold: bool = False) -> Unbroken:
        """What a command does when nothing happens to it; with a cold cache it does more."""
        if command.name not in self.measured:
            if command.name == "task anew":
                running.make_state(self.folder, "older")
            measure = serving.measure if command is SERVE else running.measure
            self.measured[command.name] = measure(self.folder, command)
        return self.measured[command.name][is_cold]


def prepare(folder: Path, measured: tuple[Command, ...] = KILLED) -> World:
    _unmount(folder / "case")
    world = World(folder, _mount(folder / "case") and _unmount(folder / "case"))
    if folder.suffix == ".world":  # the long form; the short one measures what it needs
        for command in measured:
            world.unbroken(command)
    return world


def case(world: World, number: int, random: np.random.Generator) -> str:
    command = KILLED[number % len(KILLED)]
    fault = str(random.choice(list(FAULTS), p=_SHARES))
    if fault == "full disk" and not world.can_mount:
        fault = "quota"
    world.unbroken(command)  # before its disk is a small one
    with _disk(world.folder / "case", fault == "full disk"):
        tried = _try_server if command is SERVE else _try
        return f"{command.name}: {tried(world, command, fault, random)}"


def _try(world: World, command: Command, fault: str, random: np.random.Generator) -> str:
    is_cold = bool(random.random() < 0.5)
    whole = world.unbroken(command, is_cold)
    folder = running.fresh(world.folder, command.state, is_cold)
    if command.older is not None and random.random() < 0.7:
        command.older(folder)
    before = world.folder / "before"
    shutil.rmtree(before, ignore_errors=True)
    shutil.copytree(folder, before)
    start = _start(command, folder, fault, whole, random)
    moment = random.uniform(0, whole.seconds) if fault == "moment" else None
    what = f"{fault} at {start.at}, {start.amount}, {start.place}"
    first = running.run(start, moment)
    mend(folder)
    ending = _ending(first, fault, what)
    unchanged = commands.untouched(command, before)
    for_cache = world.folder / "case" / "cache"
    wrong = commands.half_written(command, folder, before)
    assert not wrong, f"half-written after {what}: {wrong}; {first}"
    # It may lack handles to remove things, and writes a task to the cache where its own folder is
    # read-only.
    is_done = first.code == 0 and fault != "read-only" and not left(command, folder)
    last = first if is_done else again(command, Start(command.arguments, folder), what)
    found = commands.result(command, folder, last.out)
    other = {name for name, _ in found.items() ^ whole.result.items()}
    assert not other, f"another result after {what}: {sorted(other)}; {first}; {last}"
    assert commands.untouched(command, folder) == unchanged, f"something else changed: {what}"
    _sweep(for_cache)
    assert not (stray := left(command, folder)), f"left behind after {what}: {stray}"
    return ending


def _try_server(world: World, command: Command, fault: str, random: np.random.Generator) -> str:
    whole = world.unbroken(command)
    folder = running.fresh(world.folder, command.state, is_cold=bool(random.random() < 0.5))
    serving.lay_out(folder)
    before = serving.unchanged(folder)
    start = _start(command, folder, fault, whole, random)
    what = f"{fault} at {start.at}, {start.amount}, {start.place}"
    first, phase, has_grown = serving.attempt(folder, start, whole, random)
    mend(folder)
    ending = _ending(first, fault, f"{what} while {phase or 'it ran'}")
    assert serving.unchanged(folder) == before, f"run or import changed: {what}; {first}"
    serving.check_again(folder, whole, has_grown, what)
    assert serving.unchanged(folder) == before, f"run or import changed after {what}"
    _sweep(folder / "cache")
    assert not (stray := left(command, folder)), f"left behind after {what}: {stray}"
    return f"{ending} while {phase}" if phase else ending


def _start(
    command: Command, folder: Path, fault: str, whole: Unbroken, random: np.random.Generator
) -> Start:
    """Where, when and how much."""
    at = int(random.integers(1, whole.operations + 1))
    start = Start(command.arguments, folder, fault, at)
    if fault == "moment":
        return replace(start, at=0)
    if fault in ("full disk", "quota"):
        at = at if random.random() < 0.5 else 0
        return replace(start, at=at, amount=int(random.integers(0, whole.bytes_)))
    if fault == "handles":
        return replace(start, amount=int(random.integers(0, 12)))
    if fault == "memory":
        return replace(start, amount=int(random.integers(0, 64 << 20)))
    if fault == "read-only":
        places = [
            folder,
            folder / "cache",
            folder / command.leaves[0] if command.leaves else folder,
        ]
        place = places[random.integers(len(places))]
        return replace(start, place=place if place.is_dir() else folder)
    return start


def _ending(first: Ended, fault: str, what: str) -> str:
    """How the process ended, which has to be one of the few good ways."""
    if first.code == 0:
        return "unharmed"
    if first.code == -signal.SIGKILL and fault in ("kill", "moment"):
        return "killed"
    if first.code in REFUSED_MEMORY and (fault == "memory" or _is_duckdb(first, fault)):
        return "ended by the system"
    if first.code == NO_THREAD[0] and fault == "memory" and NO_THREAD[1] in first.err:
        return "ended by the system"
    if first.code == HUNG and fault == "memory" and STARTED.search(first.err):
        return "hung in Python"
    assert first.code == 2, f"exit code {first.code} after {what}: {first.err[-3000:]}"
    assert "Traceback" not in first.err, f"a traceback after {what}: {first.err[-3000:]}"
    assert first.error, f"no error was told after {what}: {first}"
    return "refused"


def _is_duckdb(first: Ended, fault: str) -> bool:
    """DuckDB ends the process where it gets no handle, which is among the known limits."""
    return fault == "handles" and "duckdb::InternalException" in first.err


def again(command: Command, start: Start, what: str) -> Ended:
    """The same command, without what happened to it."""
    second = running.run(start)
    if second.code == 2 and second.error in command.more:
        more = command.more[second.error]
        if not more:
            return second  # all was done; the result is compared
        is_done = "a finished run" in second.err
        assert is_done or more in second.err, f"the repair is not named: {second.err}"
        second = running.run(replace(start, arguments=(*start.arguments, more)))
    assert second.code == 0, f"not the second time, after {what}: {second}"
    return second


def mend(folder: Path) -> None:
    """The disk has room again and may be written; what is left over is a day old."""
    (folder / "ballast").unlink(missing_ok=True)
    for place, folders, names in os.walk(folder):
        for name in (".", *folders, *names):
            path = Path(place) / name
            path.chmod(0o755 if path.is_dir() else 0o644)
            if is_left(path.relative_to(folder)) or Path(place).name == "tmp":
                os.utime(path, (time.time() - 2 * DAY,) * 2)


def _sweep(cache: Path) -> None:
    """The next build in a folder of the cache removes what a killed one left there."""
    for folder in {path.parent for path in cache.rglob(".*") if is_left(Path(path.name))}:
        with cached_in(cache), scratch_folder(folder, "probe"):
            pass


def left(command: Command, folder: Path) -> list[str]:
    known = {*ASIDE, *(name.split("/")[0] for name in command.leaves)}
    known |= {path.name for path in (folder.parent / "states" / command.state).iterdir()}
    found = [path for path in folder.iterdir() if path.name not in known]
    found += [path for path in folder.rglob(".*") if is_left(Path(path.name))]
    # Python tries out a folder for temporary files by a tiny one, and may then not remove it
    found += [path for path in (folder / "tmp").iterdir() if path.is_dir() or not _is_probe(path)]
    return sorted({str(path.relative_to(folder)) for path in found})


def _is_probe(path: Path) -> bool:
    return path.read_bytes() in (b"", b"blat")


@contextmanager
def _disk(case: Path, is_small: bool) -> Iterator[None]:
    """A small disk of its own in the place of the folder."""
    if is_small:
        assert _mount(case)
    try:
        yield
    finally:
        if is_small:
            _unmount(case)


def _mount(place: Path) -> bool:
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "gelgt-campaign", str(place)]
    return _is_done(words)


def _unmount(place: Path) -> bool:
    return os.path.ismount(place) and _is_done(["umount", "-l", str(place)])


def _is_done(words: list[str]) -> bool:
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


CAMPAIGN = Campaign("kill", prepare, case, long=3_600, short=2)
