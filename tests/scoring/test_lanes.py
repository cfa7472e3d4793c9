import threading

import pytest
import torch

from gelgt.scoring.lanes import Lanes


@pytest.mark.parametrize("count", [1, 2, 3])
def test_results_keep_the_order_and_threads_come_back(count: int) -> None:
    before = torch.get_num_threads()
    with Lanes(count) as lanes:
        assert list(lanes.map(lambda n: n * n, range(20))) == [n * n for n in range(20)]
        assert list(lanes.map(lambda n: n, [])) == []
    assert torch.get_num_threads() == before


def test_each_lane_has_one_core_and_they_run_at_once() -> None:
    gate = threading.Barrier(2, timeout=20)

    def work(_: int) -> int:
        gate.wait()  # would time out if one lane did everything
        return torch.get_num_threads()

    with Lanes(2) as lanes:
        assert list(lanes.map(work, range(4))) == [1] * 4


def test_an_error_reaches_the_caller_and_ends_the_work() -> None:
    def work(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        return number

    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="two"), Lanes(2) as lanes:
        list(lanes.map(work, range(100)))
    assert torch.get_num_threads() == before


def test_items_are_taken_as_they_are_needed() -> None:
    taken: list[int] = []

    def items() -> object:
        for number in range(50):
            taken.append(number)
            yield number

    with Lanes(2) as lanes:
        results = lanes.map(lambda n: n, items())  # type: ignore[arg-type]
        assert next(results) == 0
        assert len(taken) == 3
        results.close()  # type: ignore[attr-defined]
