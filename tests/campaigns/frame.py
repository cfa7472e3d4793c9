"""The frame of a campaign: numbered cases, what is done already, and what went wrong.

    OUT/NAME.json            seed, finished stretches of case numbers, outcomes, seconds
    OUT/NAME.failures.jsonl  one line for each case that broke the promise, with its trace
    PLACE/NAME.now           the case that runs, so that one that ends the process is known too
    PLACE/NAME.world/        what the campaign prepared

Cases run in a process of their own: one that crashes or hangs it is written down, and the campaign
goes on behind it. PLACE is a folder in memory where there is room, else OUT.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

STRETCH, RECORDED = 100, 10.0  # cases and seconds between two records of what is done, at most
HANGS = 60.0  # seconds after which a case counts as hanging
MEMORY = Path("/dev/shm")
ROOM = 6 << 30  # bytes there, for two campaigns with a server each


@dataclass(frozen=True)
class Campaign:
    """One promise and the cases that try it.

    Attributes:
        name: Of its command and files.
        prepare: What all cases share, built in an empty folder.
        case: One case: its outcome in a word. Whatever it raises is a finding.
        long: Cases of the long form.
        short: Cases of the short form.
    """

    name: str
    prepare: Callable[[Path], Any]
    case: Callable[[Any, int, np.random.Generator], str]
    long: int
    short: int


@dataclass
class Record:
    """What is done of a campaign."""

    path: Path
    seed: int
    done: list[list[int]] = field(default_factory=list)  # [first, stop), rising, apart
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[int] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def read(cls, out: Path, name: str, seed: int) -> "Record":
        """The record of an earlier start with the same seed, or an empty one."""
        path = out / f"{name}.json"
        if path.is_file() and (content := json.loads(path.read_text()))["seed"] == seed:
            counts = Counter(content["outcomes"])
            failed = content["failed"]
            return cls(path, seed, content["done"], counts, failed, content["seconds"])
        (out / f"{name}.failures.jsonl").unlink(missing_ok=True)
        return cls(path, seed)

    @property
    def cases(self) -> int:
        return sum(stop - first for first, stop in self.done)

    def todo(self, cases: int) -> list[range]:
        """Stretches of case numbers below `cases` that are not done."""
        is_done = np.zeros(cases, bool)
        for first, stop in self.done:
            is_done[first:stop] = True
        left = np.flatnonzero(~is_done)
        ends = np.flatnonzero(np.diff(left) != 1) + 1
        parts = [part for part in np.split(left, ends) if len(part)]
        return [
            range(start, min(start + STRETCH, int(part[-1]) + 1))
            for part in parts
            for start in range(int(part[0]), int(part[-1]) + 1, STRETCH)
        ]

    def add(self, numbers: range, outcomes: Counter[str], failed: list[int], s: float) -> None:
        self.outcomes.update(outcomes)
        self.failed = sorted({*self.failed, *failed})
        self.seconds = round(self.seconds + s, 2)
        spans = sorted([*self.done, [numbers.start, numbers.stop]])
        self.done = [spans[0]]
        for first, stop in spans[1:]:
            if first <= self.done[-1][1]:
                self.done[-1][1] = max(stop, self.done[-1][1])
            else:
                self.done.append([first, stop])
        content = {
            "seed": self.seed,
            "cases": self.cases,
            "seconds": self.seconds,
            "outcomes": dict(sorted(self.outcomes.items())),
            "failed": self.failed,
            "done": self.done,
        }
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=1))
        os.replace(temporary, self.path)


def random_of(seed: int, number: int) -> np.random.Generator:
    """The random numbers of a case."""
    return np.random.default_rng([seed, number])


def run_cases(
    campaign: Campaign,
    world: Any,
    seed: int,
    numbers: Iterable[int],
    now: Path | None = None,
    until: float = np.inf,
) -> tuple[Counter[str], dict[int, str]]:
    """Run some cases, the first of them or more by a time; outcomes, and the traces of those that
    broke the promise."""
    outcomes: Counter[str] = Counter()
    traces: dict[int, str] = {}
    for number in numbers:
        if outcomes and time.time() > until:
            break
        if now is not None:
            now.write_text(str(number))
        try:
            outcomes[campaign.case(world, number, random_of(seed, number))] += 1
        except Exception:
            traces[number] = traceback.format_exc()
            outcomes["broken"] += 1
    return outcomes, traces


def work(
    campaign: Campaign, cases: int, seed: int, out: Path, until: float, place: Path | None = None
) -> None:
    """Run what is not done, in this process, until a time or later by as long as it prepared."""
    record = Record.read(out, campaign.name, seed)
    place = out if place is None else place
    folder, now = place / f"{campaign.name}.world", place / f"{campaign.name}.now"
    folder.mkdir(parents=True, exist_ok=True)
    began = time.time()
    world = campaign.prepare(folder)
    until += time.time() - began
    left = list(reversed(record.todo(cases)))
    while left and time.time() < until:
        numbers, start = left.pop(), time.perf_counter()
        stop = min(until, time.time() + RECORDED)
        outcomes, traces = run_cases(campaign, world, seed, numbers, now, stop)
        note(out, campaign.name, seed, traces)
        done, rest = numbers[: outcomes.total()], numbers[outcomes.total() :]
        record.add(done, outcomes, list(traces), time.perf_counter() - start)
        now.unlink(missing_ok=True)
        left += [rest] if rest else []


def note(out: Path, name: str, seed: int, traces: dict[int, str]) -> None:
    with (out / f"{name}.failures.jsonl").open("a") as file:
        for number, trace in traces.items():
            line = {"campaign": name, "seed": seed, "case": number, "trace": trace}
            file.write(json.dumps(line) + "\n")


def supervise(name: str, cases: int, seed: int, out: Path, seconds: float) -> Record:
    """Run a campaign in processes of its own, until it is done or its time is over."""
    out.mkdir(parents=True, exist_ok=True)
    until = time.time() + seconds
    with workplace(out) as place:
        now = place / f"{name}.now"
        command = [sys.executable, "-m", "campaigns", name, "--worker", str(until)]
        command += ["--cases", str(cases), "--seed", str(seed)]
        command += ["--out", str(out), "--place", str(place)]
        environment = os.environ | ({} if place == out else {"TMPDIR": str(place)})
        while True:
            now.unlink(missing_ok=True)
            with (out / f"{name}.log").open("a") as log:
                worker = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
                hung = _wait(worker, now)
            if worker.returncode == 0:
                return Record.read(out, name, seed)
            if not now.exists():
                ending = f"{worker.returncode}): see {out / name}.log"
                raise RuntimeError(f"{name} cannot start ({ending}")
            _skip(name, seed, out, int(now.read_text()), f"{worker.returncode}{hung}")


@contextmanager
def workplace(out: Path) -> Iterator[Path]:
    """Where cases work: thousands of small files that are made, flushed and removed, which a disk
    takes several times as long for. Servers keep their rows there too."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        yield out
        return
    for left in MEMORY.glob("gelgt-campaign-*"):  # by a supervisor that was killed
        if not Path("/proc", left.name.split("-")[2]).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"gelgt-campaign-{os.getpid()}-", dir=MEMORY))
    folder.chmod(0o1777)  # servers run as users of their own, and some cases as nobody
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(worker: "subprocess.Popen[bytes]", now: Path) -> str:
    while worker.poll() is None:
        time.sleep(0.2)
        if time.time() - _since(now) > HANGS:
            worker.kill()
            worker.wait()
            return " (hung)"
    return ""


def _since(now: Path) -> float:
    """When the case that runs began; now where none does."""
    try:
        return now.stat().st_mtime
    except FileNotFoundError:
        return time.time()


def _skip(name: str, seed: int, out: Path, number: int, ending: str) -> None:
    """Write a case down that ended its process; what ran before it in its stretch runs again."""
    note(out, name, seed, {number: f"the process ended with {ending}"})
    record = Record.read(out, name, seed)
    record.add(range(number, number + 1), Counter({"crashed": 1}), [number], 0.0)
