"""Parts on Ray: the bytes of one process, whoever dies; and clear errors where there is no cluster.

The clusters are processes on this machine, with nothing but loopback between them.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from gelgt import GelgtError
from gelgt.engines import cluster as clusters
from gelgt.engines import ray as engine
from gelgt.engines.cluster import ALONE, QUIET, connected, load_ray
from gelgt.engines.ray import RayScoring, Reports
from gelgt.inference.part_scorer import PartScorer, Question
from gelgt.inference.plan import Plan, agree
from gelgt.inference.shards import finish, is_finished, missing

SHARDS = 12
pytestmark = pytest.mark.skipif(
    find_spec("ray") is None, reason="needs Ray: pip install 'gelgt[ray]'"
)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (QUIET | ALONE).items():
            patch.setenv(name, value)
        yield load_ray(is_alone=True)


@pytest.fixture(scope="module")
def local(ray: Any, place: Path) -> Iterator[Any]:
    """Ray in this process, with room for two workers."""
    with connected(None, 4) as found:
        yield found


@pytest.fixture(scope="module")
def alone(scorer: PartScorer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The parts as one process makes them."""
    folder = tmp_path_factory.mktemp("alone")
    plan = scorer.plan(SHARDS)
    agree(folder, plan)
    for number in range(SHARDS):
        scorer.write(folder, plan, number)
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


def scoring(
    ray: Any,
    question: Question,
    plan: Plan,
    folder: Path,
    done: Callable[[Any], None] = lambda commit: None,
    notes: list[str] | None = None,
) -> RayScoring:
    reports = Reports(done, (notes if notes is not None else []).append)
    return RayScoring(ray, question, plan, folder, {"num_cpus": 1}, reports)


def workers() -> list[psutil.Process]:
    """The processes of our own workers."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "ray::PartWorker" in " ".join(process.cmdline()):
                found.append(process)
    return found


def test_parts_on_ray_are_those_of_one_process(
    local: Any, question: Question, scorer: PartScorer, alone: dict[str, bytes], tmp_path: Path
) -> None:
    """A worker is killed on the way; there are two."""
    plan, commits, notes = scorer.plan(SHARDS), [], []
    agree(tmp_path, plan)

    def done(commit: Any) -> None:
        commits.append(commit)
        if len(commits) == 2:
            os.kill(workers()[0].pid, signal.SIGKILL)

    scoring(local, question, plan, tmp_path, done, notes).write(range(SHARDS), 2)
    assert finish(tmp_path, plan)
    assert files(tmp_path) == alone
    assert sorted({commit.part for commit in commits}) == list(range(SHARDS))
    assert any("a worker was lost" in line for line in notes)


LISTENING = """
import psutil
from gelgt.engines.cluster import connected
found = []
with connected(None, 1):
    mine = psutil.Process()
    for process in [mine, *mine.children(recursive=True)]:
        for connection in process.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                found.append(connection.laddr.ip)
print(*found)
"""


def test_a_cluster_of_this_machine_listens_to_nobody_else() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTENING], capture_output=True, text=True, check=True, timeout=120
    )
    addresses = set(done.stdout.split())
    assert addresses
    assert addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def test_errors_of_workers_reach_the_driver(
    local: Any,
    question: Question,
    scorer: PartScorer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = scorer.plan(2)
    agree(tmp_path, plan)
    other = plan.model_copy(update={"data": "0" * 32})
    with pytest.raises(GelgtError) as caught:
        scoring(local, question, other, tmp_path).write([0, 1], 1)
    assert caught.value.code == "data_mismatch"
    assert socket.gethostname() in caught.value.message
    monkeypatch.setattr(engine, "probe_name", lambda token: "elsewhere")
    with pytest.raises(GelgtError) as caught:
        scoring(local, question, plan, tmp_path).write([0, 1], 1)
    assert caught.value.code == "not_shared"


def test_a_part_that_always_kills_its_worker(
    local: Any,
    question: Question,
    scorer: PartScorer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "LOSSES", 2)
    plan = scorer.plan(1)
    agree(tmp_path, plan)
    killer = threading.Thread(target=_kill_all, args=(stop := threading.Event(),))
    killer.start()
    try:
        with pytest.raises(GelgtError) as caught:
            scoring(local, question, plan, tmp_path).write([0], 1)
    finally:
        stop.set()
        killer.join()
    assert caught.value.code == "worker_lost"
    assert missing(tmp_path, plan) == [0]


def _kill_all(stop: threading.Event) -> None:
    while not stop.wait(0.05):
        for process in workers():
            with suppress(psutil.NoSuchProcess):
                process.kill()


# No cluster.
def test_nobody_answers(ray: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"  # bound, and nobody listens
        with pytest.raises(GelgtError) as caught, connected(address, None):
            pass
    assert caught.value.code == "no_cluster"
    assert address in caught.value.message


def test_somebody_else_answers(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CONNECT_SECONDS", 3.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(GelgtError) as caught:
            connected(f"127.0.0.1:{silent.getsockname()[1]}", None).__enter__()
    assert caught.value.code == "no_cluster"


def test_no_address(ray: Any) -> None:
    with pytest.raises(GelgtError) as caught:
        connected("nonsense", None).__enter__()
    assert caught.value.code == "bad_option"


def test_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(GelgtError) as caught:
        load_ray()
    assert (caught.value.code, "gelgt[ray]" in caught.value.hint) == ("missing_extra", True)


def test_the_command(question: Question, ray: Any, place: Path, tmp_path: Path) -> None:
    """Ctrl-C leaves what is committed, and the command goes on from it, with or without Ray."""
    words = ["predict", question.run, "--all", "--source", str(question.source)]
    words += ["--at", str(question.at), "--device", "cpu", "--out", str(tmp_path)]
    words += ["--shards", "40"]
    on_ray = [sys.executable, "-m", "gelgt", *words, "--engine", "ray", "--workers", "1"]
    process = subprocess.Popen(on_ray, stderr=subprocess.PIPE)
    while process.poll() is None and not list(tmp_path.glob("_part-*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    before = len(list(tmp_path.glob("_part-*")))
    assert 0 < before < 40
    assert b"the same command goes on" in said
    subprocess.run([sys.executable, "-m", "gelgt", *words], check=True, timeout=300)
    assert is_finished(tmp_path)
