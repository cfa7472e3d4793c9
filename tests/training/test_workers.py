"""Several workers train what one does: the same losses, weights and scores, whoever dies."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import crew
import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import gelgt
from gelgt import Database, Task
from gelgt.demo import Shop
from gelgt.runs.folder import load_run
from gelgt.sampling import Seeds
from gelgt.training.team import stretches
from gelgt.training.workers import tree_sum

# What is not shared between workers is left out.
BARE = {"model__trees": False, "model__history": 0, "model__calendar": False}


@pytest.fixture
def job(db: Database, few: Task, tmp_path: Path) -> dict[str, Any]:
    task = str(few.save(tmp_path / "task"))
    return {"source": str(db.folder), "task": task, "parts": 8, "settings": dict(BARE)}


def same_weights(one: Path, other: Path) -> bool:
    first, second = load_run(one).weights(), load_run(other).weights()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def test_any_number_of_workers(job: dict[str, Any], few: Task, tmp_path: Path) -> None:
    """A batch in eight parts has the same sums on one worker or four, and without any, with
    dropout, bit for bit: the same losses, weights and scores. The last batch of an epoch has fewer
    parts than there are workers."""
    assert few.rows["train"] == 2 * 8 * 24 + 16
    job["settings"] |= {"train__batch_size": 8 * 24}
    for size in (0, 1, 4):
        assert crew.run(job | {"out": str(tmp_path / f"of-{size}")}, size) == [0] * max(1, size)
    expected, record = crew.losses(tmp_path / "of-0"), load_run(tmp_path / "of-0").record
    assert [step for _, step, _ in expected] == [1, 2, 3] * 2
    for size in (1, 4):
        out = tmp_path / f"of-{size}"
        assert crew.losses(out) == expected
        assert same_weights(tmp_path / "of-0", out)
        assert load_run(out).record.metrics == record.metrics


def test_columns_trees_and_retraining(job: dict[str, Any], tmp_path: Path) -> None:
    """The leader alone chooses columns, grows trees and trains the columns network."""
    job["settings"] = {"train__retrain": True}
    for size in (0, 2):
        assert crew.run(job | {"out": str(tmp_path / f"of-{size}")}, size) == [0] * max(1, size)
    assert crew.losses(tmp_path / "of-2") == crew.losses(tmp_path / "of-0")
    assert same_weights(tmp_path / "of-0", tmp_path / "of-2")


def test_whole_networks_for_each_worker(job: dict[str, Any], tmp_path: Path) -> None:
    """Three networks on two workers: the leader trains the first and the third. They are those of a
    single process, and each has left its checkpoint when one of the workers dies."""
    del job["parts"]
    job["settings"] |= {"train__ensemble": 3, "train__retrain": True}
    assert crew.run(job | {"out": str(tmp_path / "alone")}, 0) == [0]
    job |= {"out": str(tmp_path / "run"), "resume": True, "checkpoint_seconds": 1e-3}
    processes = crew.start(job, 2)
    while not (tmp_path / "run" / "checkpoint-1.safetensors").exists():
        time.sleep(0.002)
    os.kill(processes[1].pid or 0, signal.SIGKILL)
    for process in processes:
        process.join(60)
    assert processes[0].exitcode == 1
    assert "worker_lost" in (tmp_path / "run.error").read_text()
    (tmp_path / "run.txt").unlink()
    assert crew.run(job, 2) == [0, 0]
    assert same_weights(tmp_path / "alone", tmp_path / "run")
    one, other = (load_run(tmp_path / name).record for name in ("alone", "run"))
    assert one.members == other.members
    assert one.metrics == other.metrics


@pytest.fixture(scope="module")
def links(db: Database, small_shop: Shop) -> Task:
    return db.task(
        "PREDICT LIST_DISTINCT(order_items.product_sku, 0, 30, days) FOR EACH customers.id",
        name="links",
        val=small_shop.val_timestamp,
        test=small_shop.test_timestamp,
        eval_timestamps=1,
        max_rows=200,
    )


@pytest.mark.slow
def test_recommendations(job: dict[str, Any], links: Task, tmp_path: Path) -> None:
    job |= {"task": str(links.save(tmp_path / "links")), "settings": {"model__trees": False}}
    for size in (0, 2):
        assert crew.run(job | {"out": str(tmp_path / f"of-{size}")}, size) == [0] * max(1, size)
    assert crew.losses(tmp_path / "of-2") == crew.losses(tmp_path / "of-0")
    assert same_weights(tmp_path / "of-0", tmp_path / "of-2")


def test_a_worker_that_dies(job: dict[str, Any], tmp_path: Path) -> None:
    """Of four one is killed; two go on, of which the leader is killed; one ends it, as if nothing
    had happened."""
    job |= {"checkpoint_seconds": 1e-3, "resume": True, "out": str(tmp_path / "run")}
    job["settings"] |= {"train__steps_per_epoch": 6}
    assert crew.run(job | {"out": str(tmp_path / "whole")}, 0) == [0]
    expected = crew.losses(tmp_path / "whole")

    def killed(size: int, victim: int, steps: int) -> list[int]:
        processes = crew.start(job, size)
        while not (tmp_path / "run.txt").exists() or len(crew.losses(tmp_path / "run")) < steps:
            time.sleep(0.002)
        os.kill(processes[victim].pid or 0, signal.SIGKILL)
        for process in processes:
            process.join(60)
        return [process.exitcode or 0 for process in processes]

    codes = killed(4, 2, 3)
    assert codes[2] == -signal.SIGKILL
    assert codes[0] == 1
    assert "worker_lost" in (tmp_path / "run.error").read_text()
    codes = killed(2, 0, 8)
    assert codes[0] == -signal.SIGKILL
    assert codes[1] != 0
    assert crew.run(job, 1) == [0]
    assert same_weights(tmp_path / "whole", tmp_path / "run")
    found = {(epoch, step): loss for epoch, step, loss in crew.losses(tmp_path / "run")}
    assert found == {(epoch, step): loss for epoch, step, loss in expected}


def test_a_worker_with_other_rows(job: dict[str, Any], small_shop: Shop, tmp_path: Path) -> None:
    """It is refused, and named; nothing is left behind."""
    other = gelgt.open(small_shop.url, out=tmp_path / "other")
    table = next(path for path in other.all_paths() if path.stem == "customers")
    rows = pq.read_table(table)
    pq.write_table(rows.slice(1), table)
    job |= {"out": str(tmp_path / "run"), "sources": [job["source"], str(other.folder)]}
    assert crew.run(job, 2) == [1, 0]
    said = (tmp_path / "run.error").read_text()
    assert said.startswith("worker_differs Worker 1 on ")
    assert not (tmp_path / "run").exists()


def test_a_worker_of_another_version(job: dict[str, Any], tmp_path: Path) -> None:
    job |= {"out": str(tmp_path / "run"), "version": "0.0.1"}
    assert crew.run(job, 2) == [1, 0]
    said = (tmp_path / "run.error").read_text()
    assert said.startswith("version_mismatch Worker 1 on ")
    assert "0.0.1" in said


@pytest.mark.slow
@pytest.mark.parametrize("name", ["driver-dnf", "driver-position"])
def test_fifty_steps_of_a_real_task(
    relbench_data: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    """The preset `cpu` as it is, its dropout included: one process with a batch of 4b, four
    workers with b each."""
    settings = {"model.trees": False, "train.ensemble": 1, "train.epochs": 1}
    settings |= {"train.steps_per_epoch": 50, "train.time_limit": None}
    job = {"source": str(relbench_data("rel-f1")), "named": name, "parts": 8, "settings": settings}
    for size in (0, 4):
        assert crew.run(job | {"out": str(tmp_path / f"of-{size}")}, size) == [0] * max(1, size)
    expected, found = (crew.losses(tmp_path / f"of-{size}") for size in (0, 4))
    assert len(expected) >= 50
    assert [place[:2] for place in found] == [place[:2] for place in expected]
    largest = max(abs(one[2] - other[2]) for one, other in zip(found, expected))
    print(f"{name}: {len(expected)} steps, largest difference {largest:.2g}")
    assert largest < 1e-5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_one_gpu(job: dict[str, Any], tmp_path: Path) -> None:
    """Recorded steps alone, with the sum switched on, and by two workers that share the GPU: the
    same losses over fifty steps."""
    dry = {"model__dropout": 0.0, "model__gnn_dropout": 0.0, "train__precision": "float32"}
    job["settings"] |= dry | {"train__epochs": 5, "train__steps_per_epoch": 10}
    job |= {"device": "cuda"}
    for size in (0, 1, 2):
        assert crew.run(job | {"out": str(tmp_path / f"of-{size}")}, size) == [0] * max(1, size)
    expected = [loss for _, _, loss in crew.losses(tmp_path / "of-0")]
    assert len(expected) == 50
    for size in (1, 2):
        found = [loss for _, _, loss in crew.losses(tmp_path / f"of-{size}")]
        assert found == pytest.approx(expected, abs=1e-5)


def test_a_worker_without_the_source(job: dict[str, Any], tmp_path: Path) -> None:
    """Its own error is the leader's; and a leader that cannot begin lets the others go."""
    missing = str(tmp_path / "nothing")
    job |= {"out": str(tmp_path / "run"), "sources": [job["source"], missing]}
    assert crew.run(job, 2) == [1, 0]
    said = (tmp_path / "run.error").read_text()
    assert "Worker 1 on " in said
    assert missing in said
    assert crew.run(job | {"sources": job["sources"][::-1]}, 2) == [1, 0]
    assert "Worker" not in (tmp_path / "run.error").read_text()


def test_stretches_are_whole_batches() -> None:
    """Rows that do not exist are nobody's, and whatever the number of workers, those that exist are
    in the same batches."""
    data = SimpleNamespace(exists=lambda seeds: seeds.node % 3 > 0)
    trainer: Any = SimpleNamespace(data=data, scorer=SimpleNamespace(batch_size=4))
    for count in (0, 1, 5, 29, 60):
        nodes = np.arange(count)
        seeds = Seeds(nodes, nodes, nodes)
        for size in (1, 2, 3, 7):
            found = stretches(trainer, seeds, size)
            assert len(found) == size
            np.testing.assert_array_equal(np.concatenate(found), nodes)
            for part in found[:-1]:
                assert np.count_nonzero(part % 3 > 0) % 4 == 0


def test_sums_of_halves() -> None:
    parts = [torch.randn(1000) * 10.0**place for place in range(8)]
    halves = [tree_sum(parts[:4]), tree_sum(parts[4:])]
    assert torch.equal(tree_sum(halves), tree_sum(parts))
    quarters = [tree_sum(parts[place : place + 2]) for place in range(0, 8, 2)]
    assert torch.equal(tree_sum(quarters), tree_sum(parts))
