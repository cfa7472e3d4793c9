"""Workers of one training as processes of this machine, for tests."""

import multiprocessing
import os
import socket
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from tiny import small

import gelgt
from gelgt.baselines import boosting
from gelgt.history import choose
from gelgt.presets import RunConfig
from gelgt.training import Options, columns_fit, fit, train_run, trees
from gelgt.training.progress import Progress
from gelgt.training.run import follow_run
from gelgt.training.workers import joined, led

PRELOADED = ["gelgt.training.run", "gelgt.nn", "lightgbm", "numba"]


class Told(Progress):
    """Writes the mean loss so far of every step to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def step(self, epoch: int, step: int, steps: int, loss: float, seconds: float) -> None:
        with self.path.open("a") as file:
            file.write(f"{epoch} {step} {loss!r}\n")


def work(job: Mapping[str, Any], rank: int, size: int, port: int) -> None:
    """One worker; size 0 trains alone, without workers."""
    # the fixtures do not reach this process
    trees.ROUNDS = choose.ROUNDS = boosting.ROUNDS = 15
    columns_fit.EPOCH = 4
    fit.CHECKPOINT_SECONDS = job.get("checkpoint_seconds", 60.0)
    fit.PARTS = job.get("parts", 2 * max(1, size)) // max(1, size)
    torch.set_num_threads(1)
    if size:
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
    out, options = (
        Path(job["out"]),
        Options(resume=job.get("resume", False), baselines=False, device=job.get("device", "cpu")),
    )

    def enter() -> tuple[gelgt.Database, gelgt.Task, RunConfig, Options]:
        db = gelgt.open(job["sources"][rank] if "sources" in job else job["source"])
        task = db.task(Path(job["task"]) if "task" in job else job["named"])
        settings = job.get("settings", {})
        config = (
            small(task.task_type, **settings)
            if "named" not in job
            else RunConfig.of("cpu", task.task_type, settings)
        )
        return db, task, config, options

    if rank and "version" in job:
        gelgt.__version__ = job["version"]
    with joined(job.get("device", "cpu")) as workers:
        if workers is not None and not workers.is_leader:
            follow_run(enter, workers)
            return
        try:
            with led(workers):
                told = Told(out.with_suffix(".txt"))
                db, task, config, options = enter()
                train_run(db, task, out, config, options, progress=told, workers=workers)
        except gelgt.GelgtError as error:
            out.with_suffix(".error").write_text(f"{error.code} {error}")
            raise SystemExit(1) from None


def free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


def start(job: Mapping[str, Any], size: int) -> list[BaseProcess]:
    """Start the workers; one that trains alone for size 0."""
    # A GPU cannot be used by forks of a process that has looked for one.
    is_forked = job.get("device", "cpu") == "cpu"
    context = multiprocessing.get_context("forkserver" if is_forked else "spawn")
    context.set_forkserver_preload(PRELOADED)  # torch is imported once
    port = free_port()
    processes = [
        context.Process(target=work, args=(dict(job), rank, size, port))
        for rank in range(max(1, size))
    ]
    for process in processes:
        process.start()
    return list(processes)


def run(job: Mapping[str, Any], size: int) -> list[int]:
    """The same until all have ended: their exit codes."""
    processes = start(job, size)
    for process in processes:
        process.join(300)
    return [process.exitcode if process.exitcode is not None else -1 for process in processes]


def losses(out: Path) -> list[tuple[int, int, float]]:
    """Epoch, step and mean loss so far, of every step."""
    lines = out.with_suffix(".txt").read_text().splitlines()
    return [(int(e), int(s), float(loss)) for e, s, loss in (line.split() for line in lines)]
