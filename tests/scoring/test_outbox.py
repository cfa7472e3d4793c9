"""Outputs on their way to the host: in order, through a few buffers, and unharmed by what comes
after them in the same place."""

import pytest
import torch

from gelgt.scoring.outbox import LAG, Outbox


@pytest.mark.parametrize("sizes", [[4] * 9 + [3], [2], [4, 4]])
def test_all_outputs_through_a_few_buffers(sizes: list[int]) -> None:
    box, place = Outbox(sum(sizes), 4, torch.device("cpu")), torch.zeros(4, 2)
    expected = torch.arange(2.0 * sum(sizes)).view(-1, 2)
    for part in expected.split(sizes):
        place[: len(part)] = part  # where every batch puts its outputs
        box.add(place[: len(part)])
    assert torch.equal(box.all(), expected)
    assert box.buffers == min(len(sizes), LAG + 1)


def test_outputs_come_late() -> None:
    box = Outbox(6, 1, torch.device("cpu"))
    for number in range(6):
        box.add(torch.full((1, 1), float(number)))
        assert len(box._waiting) == min(number + 1, LAG)
    assert box.all().flatten().tolist() == list(range(6))
