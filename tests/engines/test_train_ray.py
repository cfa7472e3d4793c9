"""A training on Ray whose workers and nodes are killed: it ends with the weights of one under
torchrun that nothing happened to.

pytest tests/engines/test_train_ray.py -m slow
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from nodes import kill_node

from gelgt.engines.cluster import load_ray
from gelgt.inference.part_scorer import Question
from gelgt.runs.folder import CHECKPOINT, load_run
from gelgt.runs.progress import PROGRESS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'gelgt[ray]'"),
]
SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
SETTINGS = {
    "train.epochs": 6,
    "train.patience": 6,
    "train.steps_per_epoch": 40,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.batch_size": 64,
    "model.width": 16,
    "model.heads": 2,
    "model.row_width": 8,
    "model.history": 0,
    "model.trees": False,
    "sampling.budget": 24,
}


def command(question: Question, out: Path, *more: str) -> list[str]:
    words = ["gelgt", "train", str(question.source), SENTENCE, "--out", str(out), "--no-report"]
    for name, value in SETTINGS.items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    return ["-m", *words, "--device", "cpu", "--json", *more]


@pytest.fixture(scope="module")
def expected(question: Question, place: Path) -> Path:
    """Two workers under torchrun."""
    out = place / "expected"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*torchrun, *command(question, out)], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["run"] == str(out)
    return out


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Three nodes with room for a worker each, and a head without any."""
    load_ray()
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield made
    made.shutdown()


def same_weights(one: Path, other: Path) -> bool:
    first, second = load_run(one).weights(), load_run(other).weights()
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def trained_with(
    question: Question, out: Path, harm: Callable[[list[int]], None], *more: str
) -> str:
    """What a training on two workers says, to which harm is done once there is a checkpoint."""
    asked = command(question, out, "--engine", "ray", "--workers", "2", *more)
    process = subprocess.Popen([sys.executable, *asked], stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (out / CHECKPOINT).exists():
        time.sleep(0.05)
    assert process.poll() is None
    record = json.loads((out / PROGRESS).read_text())
    harm([worker["process"] for worker in record["workers"]])
    _, said = process.communicate(timeout=500)
    assert process.returncode == 0, said
    return said


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_is_killed(question: Question, expected: Path, tmp_path: Path, rank: int) -> None:
    def harm(processes: list[int]) -> None:
        psutil.Process(processes[rank]).kill()

    said = trained_with(question, tmp_path / "run", harm)
    assert "a worker was lost" in said
    assert same_weights(expected, tmp_path / "run")
    left = [path.name for path in tmp_path.iterdir()]
    assert left == ["run"]


def test_a_node_is_killed(question: Question, expected: Path, cluster: Any, tmp_path: Path) -> None:
    """The node of a worker; its place is taken by the third."""
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]

    def harm(processes: list[int]) -> None:
        theirs = {
            node: psutil.Process(raylet.pid).children(recursive=True)
            for node in nodes
            for name, raylet in node.live_processes()
            if name == "raylet"
        }
        victim = next(
            node for node, of_node in theirs.items() if processes[1] in {p.pid for p in of_node}
        )
        kill_node(victim)

    trained_with(question, tmp_path / "run", harm, "--address", cluster.address)
    assert same_weights(expected, tmp_path / "run")


def test_too_many_workers(question: Question, cluster: Any, tmp_path: Path) -> None:
    cluster.add_node(num_cpus=1)
    asked = command(question, tmp_path / "run", "--engine", "ray", "--workers", "9")
    done = subprocess.run(
        [sys.executable, *asked, "--address", cluster.address], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "no_room"
