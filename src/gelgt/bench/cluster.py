"""`gelgt bench cluster`: what a second core, a second worker and Ray make of training and scoring.

    python -c "import json; from gelgt.bench.cluster import bench_cluster;
    print(json.dumps(bench_cluster(1_000_000), indent=1))"

A database is generated, and a model trained on it that looks at subgraphs alone. Then the whole
commands run, each once a round, in turn: predictions for all entities by one process on one core,
by two processes on a core each, by one process on two cores, and by Ray with one worker on these;
training by one process and by two workers under torchrun. Rates are those of the work itself, as
the commit records and the run folder tell them, and beside them are the seconds of the whole
command.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from gelgt.bench.machine import machine
from gelgt.bench.measure import over, run_phase
from gelgt.bench.phases import TASK, Work
from gelgt.errors import GelgtError

PARTS = 2
LABELS = 4_000  # of each split, at most


@dataclass
class _Bench:
    """The commands, and where they work."""

    work: Work
    epochs: int
    cores: list[int]
    say: Callable[[str], None]
    made: int = 0
    run_folder: Path = Path()
    environment: dict[str, str] = field(default_factory=dict)

    def folder(self) -> Path:
        self.made += 1
        return Path(self.work.folder) / f"out-{self.made}"

    # Predictions.
    def predict(self, out: Path, *options: str) -> list[str]:
        run, source = self.run_folder, self.work.out
        words = ["predict", str(run), "--all", "--source", str(source), "--device", "cpu"]
        return [sys.executable, "-m", "gelgt", *words, "--out", str(out), *options]

    def one_core(self) -> dict[str, Any]:
        out = self.folder()
        seconds = self.run([self.predict(out, "--shards", "1")], [self.cores[:1]])
        return _rates(out, seconds)

    def two_processes(self) -> dict[str, Any]:
        """A part each, pinned to a core each."""
        out = self.folder()
        at = ["--at", self.at]
        commands = [self.predict(out, *at, "--shard", f"{part}/{PARTS}") for part in range(PARTS)]
        seconds = self.run(commands, [[core] for core in self.cores[:PARTS]])
        return _rates(out, seconds)

    def two_cores(self) -> dict[str, Any]:
        out = self.folder()
        seconds = self.run([self.predict(out, "--shards", str(PARTS))], [self.cores[:PARTS]])
        return _rates(out, seconds)

    def ray(self) -> dict[str, Any]:
        out = self.folder()
        options = ["--shards", str(PARTS), "--engine", "ray", "--workers", "1"]
        seconds = self.run([self.predict(out, *options)], [self.cores[:PARTS]])
        return _rates(out, seconds)

    @property
    def at(self) -> str:
        """The time that the first predictions were made for."""
        plan = next(Path(self.work.folder).glob("out-*/_plan.json"))
        return str(json.loads(plan.read_text())["at"])

    # Training.
    def train(self, *launcher: str) -> dict[str, Any]:
        out = self.folder()
        settings = {
            "train.epochs": self.epochs,
            "train.patience": self.epochs,
            "train.ensemble": 1,
            "train.windows": 1,
            "model.history": 0,
            "model.trees": "false",
        }
        words = ["train", str(self.work.out), str(Path(self.work.folder) / "few")]
        words += ["--out", str(out), "--no-report"]
        for name, value in settings.items():
            words += ["--set", f"{name}={value}"]
        command = [sys.executable, *launcher, "-m", "gelgt", *words, "--device", "cpu"]
        cores = self.cores[:PARTS] if launcher else self.cores[:1]
        seconds = self.run([command], [cores])
        self.run_folder = out
        record = json.loads((out / "metrics.json").read_text())
        rows, spent = self.epochs * record["task"]["rows"]["train"], record["training_seconds"]
        return {
            "count": rows,
            "rate": round(rows / spent, 1),
            "command_seconds": round(seconds, 2),
        }

    def two_workers(self) -> dict[str, Any]:
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(PARTS)]
        return self.train(*launcher, "--master-port", str(_free_port()))

    def run(self, commands: Sequence[list[str]], cores: Sequence[Sequence[int]]) -> float:
        """Seconds until the last of some commands has ended, each kept to its cores."""
        began = time.perf_counter()
        started = [
            subprocess.Popen(
                command,
                env=self.environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                preexec_fn=_kept_to(kept),
            )
            for command, kept in zip(commands, cores)
        ]
        for process in started:
            _, said = process.communicate()
            if process.returncode:
                raise RuntimeError(f"{process.args!r} failed:\n{said[-4000:]}")
        return time.perf_counter() - began


def bench_cluster(
    rows: int = 10_000_000,
    rounds: int = 2,
    epochs: int = 3,
    folder: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure prediction and training on one core and two.

    Args:
        rows: Of the generated database, a tenth of which are entities.
        rounds: How often each command runs; medians count.
        epochs: Of training.
        folder: Where the files go while it is measured; a temporary folder by default.

    Returns:
        ``machine``; ``results``: for each command entities or labels a second while it works, and
        the seconds of the whole command; ``ratios``: of rates, where more is better.

    Raises:
        GelgtError: there is one core, or a number is too small.
    """
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < PARTS:
        raise GelgtError(
            "bad_option",
            "gelgt bench cluster compares one core with two, and needs two that processes can be "
            "kept to.",
            hint="Run it on Linux, on a machine with more cores.",
        )
    if rows < 10_000 or rounds < 1 or epochs < 1:
        raise GelgtError(
            "bad_option",
            f"rows must be at least 10,000, rounds and epochs at least 1; got {rows:,}, {rounds} "
            f"and {epochs}.",
            hint="Give larger numbers.",
        )
    say = progress or (lambda line: None)
    with tempfile.TemporaryDirectory(prefix="gelgt-cluster-", dir=folder) as base:
        work = Work(base, rows, True, LABELS, 3)
        for phase in ("generate", "import", "graph", "features", "task"):
            say(f"{rows:,} rows: {phase}")
            run_phase(phase, work)
        _save_few(work)
        environment = os.environ | {"GELGT_CACHE": str(Path(base) / "cache")}
        bench = _Bench(work, epochs, cores, say, environment=environment)
        say("training the model that predicts")
        bench.train()
        results = list(_measured(bench, rounds))
    rates = {result["command"]: result["rate"] for result in results}
    return {"machine": machine(), "results": results, "ratios": _ratios(rates)}


def _save_few(work: Work) -> None:
    """The task with few labels of each split, for training: its time goes to the networks."""
    import gelgt

    task = gelgt.open(work.out).task(TASK)
    labels = {
        split: table.take(np.linspace(0, len(table) - 1, min(len(table), LABELS), dtype=int))
        for split, table in task.labels.items()
    }
    replace(task, labels=labels).save(Path(work.folder) / "few")


def _measured(bench: _Bench, rounds: int) -> Iterator[dict[str, Any]]:
    commands: dict[str, Callable[[], dict[str, Any]]] = {
        "predict, one core": bench.one_core,
        "predict, two processes": bench.two_processes,
        "predict, two cores": bench.two_cores,
        "train, one core": bench.train,
        "train, two workers": bench.two_workers,
    }
    if find_spec("ray") is not None:
        commands["predict, Ray on two cores"] = bench.ray
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            bench.say(f"round {number + 1} of {rounds}: {name}")
            found[name].append(command())
    for name, each in found.items():
        rates = [one["rate"] for one in each]
        yield {
            "command": name,
            "count": each[0]["count"],
            "rate": round(median(rates), 1),
            "spread": f"{min(rates):,.0f} to {max(rates):,.0f}",
            "command_seconds": round(median(one["command_seconds"] for one in each), 1),
        }


def _ratios(rates: dict[str, float]) -> dict[str, float]:
    pairs = {
        "predict_two_processes_vs_one_core": ("predict, two processes", "predict, one core"),
        "predict_two_cores_vs_one_core": ("predict, two cores", "predict, one core"),
        "predict_ray_vs_two_cores": ("predict, Ray on two cores", "predict, two cores"),
        "train_two_workers_vs_one_core": ("train, two workers", "train, one core"),
    }
    return {
        name: over(rates[one], rates[other]) for name, (one, other) in pairs.items() if one in rates
    }


def _rates(folder: Path, seconds: float) -> dict[str, Any]:
    """Entities a second from the beginning of the first part to the end of the last."""
    commits = [json.loads(path.read_text()) for path in folder.glob("_part-*.commit.json")]
    entities = sum(commit["entities"] for commit in commits)
    span = max(c["finished"] for c in commits) - min(c["finished"] - c["seconds"] for c in commits)
    return {
        "count": entities,
        "rate": round(entities / span, 1),
        "command_seconds": round(seconds, 2),
    }


def _kept_to(cores: Sequence[int]) -> Callable[[], None]:
    return lambda: os.sched_setaffinity(0, cores)


def _free_port() -> int:
    import socket

    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])
