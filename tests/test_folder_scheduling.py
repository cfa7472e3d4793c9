"""Workers stay in folders, help each other at the end, and run every test once."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("xdist")
from folder_scheduling import FolderScheduling, folder_of

FILES = {
    "src/gelgt/metrics.py": 1,
    "tests/bench/suite/test_task.py": 4,
    "tests/bench/test_run.py": 3,
    "tests/graph/test_build.py": 9,
    "tests/graph/test_grow.py": 5,
    "tests/nn/test_groups.py": 3,
    "tests/nn/test_interpreted.py": 1,
}
TESTS = [f"{file}::test_{number}" for file, count in FILES.items() for number in range(count)]


class Worker:
    """Takes tests, and runs the next one when it is told to."""

    def __init__(self, name: str) -> None:
        self.gateway, self.shutting_down = SimpleNamespace(id=name), False
        self.waiting: list[int] = []
        self.ran: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.waiting += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def shared(paces: list[int]) -> list[Worker]:
    """Workers that have run everything, each so many tests in its turn."""
    workers: list[Any] = [Worker(f"gw{number}") for number in range(len(paces))]
    option = SimpleNamespace(loadscopereorder=True, tx=["popen"] * len(paces))
    made: Any = SimpleNamespace(option=option, getvalue=lambda name: getattr(option, name))
    scheduling = FolderScheduling(made)
    for worker in workers:
        scheduling.add_node(worker)
    for worker in workers:
        scheduling.add_node_collection(worker, TESTS)
    scheduling.schedule()
    while any(worker.waiting for worker in workers):
        for worker, pace in zip(workers, paces):
            for index in worker.waiting[:pace]:
                worker.waiting.pop(0)
                worker.ran.append(TESTS[index])
                scheduling.mark_test_complete(worker, index)
    assert not scheduling.has_pending
    return workers


@pytest.mark.parametrize("paces", [[1], [1, 1], [1, 4], [3, 2, 1], [1] * 5])
def test_every_test_runs_once(paces: list[int]) -> None:
    workers = shared(paces)
    assert sorted(test for worker in workers for test in worker.ran) == sorted(TESTS)


def folders(worker: Worker) -> list[str]:
    """Where a worker was, in order, each stay once."""
    found = [folder_of(test.split("::")[0]) for test in worker.ran]
    return [one for one, before in zip(found, [None, *found]) if one != before]


def test_each_stays_in_a_folder() -> None:
    alone, both = shared([1]), shared([1, 1])
    assert folders(alone[0]) == ["tests/nn", "tests/graph", "tests/bench", "src/gelgt"]
    assert [folders(worker) for worker in both] == [
        ["tests/nn", "tests/bench", "src/gelgt"],
        ["tests/graph"],
    ]


def test_whoever_is_done_helps() -> None:
    slow, quick = shared([1, 9])
    assert folders(slow)[0] == "tests/nn"
    assert len(quick.ran) > len(slow.ran)
    assert {file.split("::")[0] for file in slow.ran}.isdisjoint(
        file.split("::")[0] for file in quick.ran
    )
