"""A run that is killed at any moment and resumed ends as one that was not; no moment leaves a
folder that only looks whole."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from crew import PRELOADED
from tiny import small

import gelgt
from gelgt import Database, GelgtError, Task
from gelgt.baselines import boosting
from gelgt.history import choose
from gelgt.runs.folder import CHECKPOINT, SUCCESS
from gelgt.training import Options, columns_fit, fit, load_run, train_run, trees


def work(folder: str, task_folder: str, out: str) -> None:
    """One process: train, or go on."""
    fit.CHECKPOINT_SECONDS = 1e-3
    # the fixtures do not reach this process
    trees.ROUNDS = choose.ROUNDS = boosting.ROUNDS = 15
    columns_fit.EPOCH = 4
    torch.set_num_threads(1)
    db = gelgt.open(folder)
    train_run(
        db,
        db.task(Path(task_folder)),
        Path(out),
        small("binary_classification"),
        Options(resume=True),
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_run(run).weights()


@pytest.mark.parametrize("most", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_kill_at_random_moments(most: int, db: Database, few: Task, tmp_path: Path) -> None:
    task_folder = few.save(tmp_path / "task")
    # torch is imported once, every process starts at once
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)

    def start(out: Path) -> "multiprocessing.process.BaseProcess":
        process = context.Process(target=work, args=(str(db.folder), str(task_folder), str(out)))
        process.start()
        return process

    first = context.Process(target=int)  # the first one also starts the server
    first.start()
    first.join()
    began = time.perf_counter()
    whole = start(tmp_path / "whole")
    whole.join()
    assert whole.exitcode == 0
    length = time.perf_counter() - began
    expected = weights(tmp_path / "whole")

    moments, kills, runs, resumed = random.Random(0), 0, 0, 0
    # on a busy machine training may begin late in a run: then more moments are tried
    while kills < most or (not resumed and kills < 6 * most):
        out = tmp_path / f"run-{runs}"
        process = start(out)
        time.sleep(moments.uniform(0.05, 1.0) * length)
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            kills += 1
        process.join()
        resumed += (out / CHECKPOINT).exists()
        if (out / SUCCESS).exists():
            assert weights(out).keys() == expected.keys()  # whole, so it loads
            runs += 1
        else:
            with pytest.raises(GelgtError) as caught:
                load_run(out)
            assert caught.value.code in ("incomplete_run", "no_run")
    assert resumed > 0, "some moments lie within training"
    last = start(tmp_path / f"run-{runs}")
    last.join()
    for number in range(runs + 1):
        out = tmp_path / f"run-{number}"
        found = weights(out)
        assert all(torch.equal(expected[name], value) for name, value in found.items())
        if list(out.glob(".progress.json.*.tmp")):  # killed when its run was whole already
            start(out).join()
        assert not list(out.glob("**/.*.tmp")), "what a killed process left half-written is gone"
