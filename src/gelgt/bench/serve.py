"""`gelgt bench serve`: how many requests a second `gelgt serve` answers, beside the same
predictions in process.

A server is started as a process, and wrk (a load generator of its own, written in C) asks it for
one random entity at a time. The peer is the same `Predictor` in this process, in turn with the
load: as many entities at a time as there are clients, one at a time, and all at once. As many
requests may wait as there are clients, so that four times as many are too many.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

import numpy as np

from gelgt.bench.machine import machine
from gelgt.errors import GelgtError
from gelgt.inference import Predictor
from gelgt.runs.folder import load_run
from gelgt.scoring.table import key_table

ROUNDS = 3
ALL = 2_000  # entities at once
LOAD = """
local keys = {}
for line in io.lines("%(keys)s") do keys[#keys + 1] = line end
math.randomseed(%(seed)d)
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init(args) statuses = {} end
function request()
  local body = '{"entities":[' .. keys[math.random(#keys)] .. ']}'
  return wrk.format("POST", "/v1/predictions", {["Content-Type"] = "application/json"}, body)
end
function response(status)
  statuses[status] = (statuses[status] or 0) + 1
end
function done(summary, latency, requests)
  local all = {}
  for _, thread in ipairs(threads) do
    for status, count in pairs(thread:get("statuses")) do
      all[#all + 1] = string.format('"%%d": %%d', status, count)
    end
  end
  local e = summary.errors
  print(string.format(
    'RESULT {"statuses": {%%s}, "p50": %%f, "p99": %%f, "seconds": %%f, "errors": %%d}',
    table.concat(all, ", "), latency:percentile(50) / 1e6, latency:percentile(99) / 1e6,
    summary.duration / 1e6, e.connect + e.read + e.write + e.timeout))
end
"""


@dataclass(frozen=True)
class Load:
    """What a load generator saw."""

    statuses: dict[str, int]
    p50: float
    p99: float
    seconds: float
    errors: int

    @property
    def rate(self) -> float:
        """Requests that were answered a second, refusals left out."""
        return self.statuses.get("200", 0) / self.seconds


def bench_serve(
    folder: Path,
    source: str | None = None,
    seconds: float = 5.0,
    clients: int = 32,
    minutes: float = 0.0,
    progress: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Ask a server for predictions.

    Args:
        folder: A run; its source is where it was trained unless another is given.
        seconds: Of each round, a request for one entity after the other.
        clients: That ask at the same time.
        minutes: For which the load goes on afterwards, to see whether memory grows.

    Raises:
        GelgtError: ``no_wrk``.
    """
    wrk = shutil.which("wrk")
    if wrk is None:
        raise GelgtError(
            "no_wrk", "wrk, which makes the load, is not installed.", hint="apt install wrk"
        )
    predictor = Predictor(load_run(folder), source, "cpu")
    keys = _keys(predictor)
    with (
        tempfile.TemporaryDirectory() as home,
        _server(folder, source, clients) as (process, address),
    ):
        path = Path(home) / "keys.txt"
        path.write_text("\n".join(json.dumps(key) for key in keys), encoding="utf-8")

        def load(at_once: int, seed: int) -> Load:
            return _load(wrk, address, path, seconds, at_once, seed)

        load(clients, 0)  # what is loaded at first use
        peers: dict[str, list[float]] = {"one": [], "batch": [], "all": []}
        loads = []
        for number in range(ROUNDS):
            progress(f"round {number + 1} of {ROUNDS}")
            peers["batch"].append(_in_process(predictor, clients, max(4, 640 // clients), number))
            loads.append(load(clients, number + 1))
            peers["one"].append(_in_process(predictor, 1, 20, number))
            peers["all"].append(_in_process(predictor, ALL, 1, number))
        before = _memory(process.pid)
        crowd = load(4 * clients, 9)
        again = load(clients, 10)
        grown = [before, _memory(process.pid)]
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            load(clients, 11)
            grown.append(_memory(process.pid))
            progress(f"{grown[-1] / 2**20:,.0f} MiB")
    rate = median(one.rate for one in loads)
    results = [
        {"name": f"{clients} clients", **_facts(loads, rate)},
        {"name": f"{4 * clients} clients", **_facts([crowd], crowd.rate)},
        {"name": f"{clients} clients again", **_facts([again], again.rate)},
        *({"name": f"in process, {n}", "rate": median(v)} for n, v in peers.items()),
        {"name": "memory, MiB", "first": grown[0] / 2**20, "last": grown[-1] / 2**20},
    ]
    ratios = {
        f"over {clients} at a time in process": rate / median(peers["batch"]),
        "over one at a time in process": rate / median(peers["one"]),
        "over all at once in process": rate / median(peers["all"]),
    }
    return {"machine": machine(), "run": folder.name, "results": results, "ratios": ratios}


def _facts(loads: list[Load], rate: float) -> dict[str, Any]:
    statuses: dict[str, int] = {}
    for one in loads:
        for status, count in one.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    return {
        "rate": rate,
        "p50_ms": 1e3 * median(one.p50 for one in loads),
        "p99_ms": 1e3 * median(one.p99 for one in loads),
        "statuses": statuses,
        "errors": sum(one.errors for one in loads),
    }


def _keys(predictor: Predictor) -> list[Any]:
    chosen = predictor.seeds()
    table = key_table(predictor.db, predictor.task.entity_table, chosen.rows[:100_000])
    columns = [column.to_pylist() for column in table.columns]
    return columns[0] if len(columns) == 1 else [list(parts) for parts in zip(*columns)]


def _in_process(predictor: Predictor, size: int, calls: int, seed: int) -> float:
    """Entities a second, so many at a time."""
    chosen, rng = predictor.seeds(), np.random.default_rng(seed)
    times = np.asarray(chosen.times)
    seconds = []
    for _ in range(calls):
        places = rng.integers(0, len(chosen), size)
        start = time.perf_counter()
        list(predictor.predict_table(chosen.rows[places], times[places]))
        seconds.append(time.perf_counter() - start)
    return size / median(seconds)


def _load(wrk: str, address: str, keys: Path, seconds: float, clients: int, seed: int) -> Load:
    script = keys.with_name("load.lua")
    values = {"keys": keys, "seed": seed}
    script.write_text(LOAD % values, encoding="utf-8")
    command = [wrk, "-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "--timeout", "60s"]
    command += ["-s", str(script), address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
    if found is None:
        raise GelgtError("no_wrk", f"wrk failed: {done.stdout[-200:]}{done.stderr[-200:]}")
    return Load(**json.loads(found[1]))


@contextmanager
def _server(
    folder: Path, source: str | None, queue: int
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", "from gelgt.cli import main; main()", "serve", str(folder)]
    command += ["--port", "0", "--device", "cpu", "--queue", str(queue)]
    command += [] if source is None else ["--source", source]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if found is None:
            raise GelgtError("not_served", f"The server did not start: {line.strip()}")
        with urlopen(Request(f"{found[0]}/v1/health/ready"), timeout=60):
            yield process, found[0]
    finally:
        process.terminate()
        process.wait(60)


def _memory(pid: int) -> int:
    """Bytes of main memory that a process holds."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
