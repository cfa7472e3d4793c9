"""Parts on a Ray cluster of three nodes, each with a raylet of its own, whose nodes are killed.

pytest tests/engines/test_ray_nodes.py -m slow
"""

import os
import random
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from nodes import kill_node

from gelgt import GelgtError
from gelgt.engines.cluster import QUIET, connected, load_ray, resources
from gelgt.engines.ray import RayScoring, Reports
from gelgt.inference.part_scorer import PartScorer, Question
from gelgt.inference.plan import agree
from gelgt.inference.shards import finish, is_finished


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'gelgt[ray]'")
@pytest.mark.slow
def test_nodes_are_killed(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    """A node is killed at each of five random moments, and another one joins."""
    load_ray()
    from ray.cluster_utils import Cluster

    plan = scorer.plan(120)
    for folder in (tmp_path / "alone", tmp_path / "out"):
        agree(folder, plan)
    for number in range(plan.shards):
        scorer.write(tmp_path / "alone", plan, number)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    rng, kills = random.Random(3), 0
    moments = sorted(rng.sample(range(2, 100), 5))

    def done(commit: Any) -> None:
        nonlocal kills
        made = len(list((tmp_path / "out").glob("part-*")))
        if kills < 5 and made >= moments[kills]:
            kills += 1
            victim = nodes.pop(rng.randrange(len(nodes)))
            kill_node(victim)
            nodes.append(cluster.add_node(num_cpus=1))

    try:
        with connected(cluster.address, None) as found:
            assert resources(found, "cpu")[0] == 2
            reports = Reports(done, lambda line: None)
            scoring = RayScoring(found, question, plan, tmp_path / "out", {"num_cpus": 1}, reports)
            scoring.write(range(plan.shards), 2)
    finally:
        cluster.shutdown()
    assert kills == 5
    assert finish(tmp_path / "out", plan)
    assert is_finished(tmp_path / "out")
    assert files(tmp_path / "out") == files(tmp_path / "alone")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'gelgt[ray]'")
@pytest.mark.slow
def test_a_node_that_cannot_write(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    """One of two nodes has no place for its cache: the other one makes all parts; with that node
    alone its error is the driver's."""
    load_ray()
    from ray.cluster_utils import Cluster

    plan, notes = scorer.plan(6), []
    (tmp_path / "file").touch()
    for folder in ("both", "one"):
        agree(tmp_path / folder, plan)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    cluster.add_node(num_cpus=1, env_vars={"GELGT_CACHE": str(tmp_path / "file" / "cache")})

    def write(found: Any, name: str, workers: int) -> None:
        reports = Reports(lambda commit: None, notes.append)
        asks = {"num_cpus": 1}
        scoring = RayScoring(found, question, plan, tmp_path / name, asks, reports)
        scoring.write(range(plan.shards), workers)

    try:
        with connected(cluster.address, None) as found:
            with pytest.raises(GelgtError) as caught:
                write(found, "one", 1)
            cluster.add_node(num_cpus=1)
            write(found, "both", 2)
    finally:
        cluster.shutdown()
    assert caught.value.code == "cannot_write"
    assert "On the node" in caught.value.message
    assert finish(tmp_path / "both", plan)
    assert any("does no more" in line for line in notes)


@contextmanager
def node_with_full_disk(address: str, out: Path, place: Path) -> Iterator[None]:
    """A node of another name that sees a folder, and has 4 KiB of its own to write there."""
    (place / "small").mkdir()
    mounted = "lowerdir={0},upperdir={1}/upper,workdir={1}/work".format(out, place / "small")
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
    script = f"""
        hostname full-disk
        mount -t tmpfs -o size=4k tmpfs {place / "small"}
        mkdir {place / "small"}/upper {place / "small"}/work
        mount -t overlay overlay -o {mounted} {out}
        exec {shlex.join([*ray, f"--address={address}"])}"""
    process = subprocess.Popen(
        ["unshare", "-m", "-u", "sh", "-ec", script],
        env={**os.environ, **QUIET},
        stdout=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()


def can_mount(place: Path) -> bool:
    script = f"mount -t tmpfs tmpfs {place} && mkdir {place}/a {place}/b {place}/c && mount -t "
    script += (
        f"overlay overlay -o lowerdir={place}/a,upperdir={place}/b,workdir={place}/c {place}/a"
    )
    done = subprocess.run(["unshare", "-m", "-u", "sh", "-c", script], capture_output=True)
    return done.returncode == 0


@pytest.mark.skipif(find_spec("ray") is None, reason="needs Ray: pip install 'gelgt[ray]'")
@pytest.mark.slow
def test_a_node_whose_disk_is_full(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    """A small file system under the folder of one node: alone it ends the command with an error
    that names it, and beside another one it does no more."""
    if sys.platform != "linux" or not can_mount(tmp_path):
        pytest.skip("needs the right to mount file systems")
    load_ray()
    from ray.cluster_utils import Cluster

    plan, notes, out = scorer.plan(6), [], tmp_path / "out"
    agree(out, plan)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})

    def write(found: Any, workers: int) -> None:
        reports = Reports(lambda commit: None, notes.append)
        scoring = RayScoring(found, question, plan, out, {"num_cpus": 1}, reports)
        scoring.write(range(plan.shards), workers)

    try:
        with (
            node_with_full_disk(cluster.address, out, tmp_path),
            connected(cluster.address, None) as found,
        ):
            end = time.monotonic() + 60
            while sum(node["Alive"] for node in found.nodes()) < 2:
                assert time.monotonic() < end
                time.sleep(0.2)
            with pytest.raises(GelgtError) as caught:
                write(found, 1)
            cluster.add_node(num_cpus=1)
            write(found, 2)
    finally:
        cluster.shutdown()
    assert caught.value.code == "cannot_write"
    assert caught.value.message.startswith("On the node full-disk: ")
    assert "No space left" in caught.value.message
    assert any("the node full-disk does no more" in line for line in notes)
    assert finish(out, plan)
    assert len(list(out.glob("part-*"))) == 6
