"""Runs a phase of a benchmark in a child process and watches its memory, if need be under a hard
limit."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gelgt.bench.phases import Work

_EVERY = 0.02  # seconds between two looks at the memory of a child
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryLimit:
    """A hard limit of memory for child processes.

    Attributes:
        size: Bytes.
        cgroup: The cgroup that counts them, file pages included; without one the limit is
            RLIMIT_DATA, which counts anonymous memory only.
    """

    size: int
    cgroup: Path | None = None

    @property
    def kind(self) -> str:
        return "RLIMIT_DATA" if self.cgroup is None else "memory cgroup"

    def enter(self) -> None:
        """Put the calling process under the limit."""
        if self.cgroup is None:
            resource.setrlimit(resource.RLIMIT_DATA, (self.size, self.size))
        else:
            (self.cgroup / "cgroup.procs").write_text("0")


@contextmanager
def memory_limit(size: int) -> Iterator[MemoryLimit]:
    """A limit in a cgroup below that of this process where one can be created, else by
    RLIMIT_DATA."""
    cgroup = None
    with suppress(OSError):
        cgroup = _create_cgroup(size)
    try:
        yield MemoryLimit(size, cgroup)
    finally:
        if cgroup is not None:
            with suppress(OSError):
                cgroup.rmdir()


def _create_cgroup(size: int) -> Path:
    """A cgroup of version 1 or 2 with a limit, or an OSError where this process may create none."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    paths = {name: path for _, name, path in (line.split(":", 2) for line in lines)}
    is_first = any("memory" in names.split(",") for names in paths)
    file = "memory.limit_in_bytes" if is_first else "memory.max"
    base = _CGROUPS / "memory" if is_first else _CGROUPS
    inside = paths["memory"] if is_first else paths.get("", "/")
    folder = base / inside.lstrip("/") / f"gelgt-bench-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / file).write_text(str(size))
    except OSError:  # the memory controller is not given to this cgroup
        folder.rmdir()
        raise
    return folder


def run_phase(phase: str, work: Work, limit: MemoryLimit | None = None) -> dict[str, Any]:
    """Run one phase in a fresh process with a cache of its own.

    Returns:
        What the phase prints, and ``anonymous_mib``: the most anonymous memory that it held, from
        samples; not on systems without /proc.
    """
    command = [sys.executable, "-m", "gelgt.bench.phases", phase, work.to_json()]
    environment = {**os.environ, "GELGT_CACHE": str(Path(work.folder) / "cache")}
    enter: Callable[[], None] | None = limit.enter if limit else None
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, env=environment, stdout=out, stderr=errors, preexec_fn=enter, text=True
        )
        try:
            anonymous, resident = _watch(child)
        except BaseException:
            child.kill()
            child.wait()
            raise
        out.seek(0)
        errors.seek(0)
        if child.returncode:
            raise RuntimeError(
                f"The phase '{phase}' ended with status {child.returncode}:\n"
                f"{errors.read()[-4000:]}"
            )
        measured: dict[str, Any] = json.loads(out.read().splitlines()[-1])
    if not anonymous:
        return measured
    measured["peak_mib"] = max(measured["peak_mib"], round(resident / 1024, 1))
    return measured | {"anonymous_mib": round(anonymous / 1024, 1)}


def _watch(child: "subprocess.Popen[str]") -> tuple[int, int]:
    """The most anonymous and the most resident memory in KiB of a process and those that it
    started, once it has ended; pages that several map count several times as resident."""
    most = (0, 0)
    while child.poll() is None:
        sizes = [_memory(process) for process in _family(child.pid)]
        anonymous, resident = (sum(size) for size in zip(*sizes))
        most = (max(most[0], anonymous), max(most[1], resident))
        time.sleep(_EVERY)
    return most


def _family(process: int) -> list[int]:
    """A process and those that it started, and so on; itself alone where nobody tells."""
    found = [process]
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                found += _family(int(child))
    return found


def _memory(process: int) -> tuple[int, int]:
    """Anonymous and resident memory of a process in KiB."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0, 0
    sizes = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if "kB" in line}
    return int(sizes.get("RssAnon", 0)), int(sizes.get("VmRSS", 0))


def over(above: float, below: float) -> float:
    """A ratio with three digits."""
    return round(above / max(below, 1e-9), 3)


def short(rows: int) -> str:
    """14000000 → 14M, 3000 → 3k."""
    return f"{rows / 1e6:g}M" if rows >= 1_000_000 else f"{rows / 1e3:g}k"
