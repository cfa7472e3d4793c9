"""The end of a step in one pass: the same as PyTorch's clipping, Adam, conversion and average one
after the other."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from interpreter import DEVICE, IS_INTERPRETED, beyond_paths, on_device
from torch import Tensor

from gelgt.nn.kernels.adam_launch import Moved, Rule, Tables, launch_adam
from gelgt.nn.recording import recording

SIZES = (1, 7, 1_023, 4_097, 2_048)
STEPS = 12 if IS_INTERPRETED else 50  # the interpreter takes a second for four
MISSING = 2  # the place of a parameter without a gradient
Optimiser = torch.optim.Adam | torch.optim.AdamW


def drawn(seed: int) -> list[Tensor]:
    """Tensors of all sizes, each of its own scale."""
    random = torch.Generator().manual_seed(seed)
    values = (torch.randn(n, generator=random) * 10.0**-k for k, n in enumerate(SIZES))
    return [value.to(DEVICE) for value in values]


def optimiser_of(parameters: list[Tensor], is_decoupled: bool) -> Optimiser:
    """Two groups with rates and decays of their own."""
    groups = [
        {"params": parameters[:3], "lr": 1e-2, "weight_decay": 0.1},
        {"params": parameters[3:], "lr": 1e-1, "weight_decay": 0.0},
    ]
    kind = torch.optim.AdamW if is_decoupled else torch.optim.Adam
    return kind(groups)


def gradients_of(step: int, is_low: bool) -> list[Tensor]:
    """Some in bf16, or all behind each other, so that they begin anywhere."""
    gradients = drawn(100 + step)
    if is_low:
        return [g.to(torch.bfloat16) if k % 2 else g for k, g in enumerate(gradients)]
    return list(torch.cat(gradients).split(SIZES))


class Twin:
    """A step by PyTorch, and the same by the kernels."""

    def __init__(self, is_decoupled: bool, clip: float | None) -> None:
        self.expected, self.found = ([p.requires_grad_() for p in drawn(0)] for _ in range(2))
        self.torch = optimiser_of(self.expected, is_decoupled)
        self.rule = Rule((0.9, 0.999), 1e-8, is_decoupled, clip)
        self.rates = [torch.zeros((), device=DEVICE) for _ in range(2)]
        self.state = [
            [torch.zeros_like(p), torch.zeros_like(p), torch.zeros((), device=DEVICE)]
            for p in self.found
        ]
        self.copies = [
            p.detach().to(torch.bfloat16) if k % 2 else None for k, p in enumerate(self.found)
        ]
        self.averages = [[p.detach().clone() for p in ps] for ps in (self.expected, self.found)]
        self.share, self.tables = torch.zeros((), device=DEVICE), Tables()

    def step(self, number: int, gradients: list[Tensor], is_there: Callable[[int], bool]) -> None:
        share, factor = 1 - number / (number + 9), 1 / (1 + number)
        self.share.fill_(share)
        self._by_torch(gradients, is_there, share, factor)
        moved = []
        for k, (p, g) in enumerate(zip(self.found, gradients, strict=True)):
            group = k >= 3
            self.rates[group].fill_((1e-1 if group else 1e-2) * factor)
            if is_there(k):
                first, second, step = self.state[k]
                moved.append(
                    Moved(
                        p.detach(), g, first, second, step, self.rates[group],
                        0.0 if group else 0.1, self.copies[k], self.averages[1][k],
                    )
                )  # fmt: skip
        launch_adam(moved, self.rule, self.tables, self.share)

    def _by_torch(
        self, gradients: list[Tensor], is_there: Callable[[int], bool], share: float, factor: float
    ) -> None:
        for group, rate in zip(self.torch.param_groups, (1e-2, 1e-1), strict=True):
            group["lr"] = rate * factor
        for k, (p, g) in enumerate(zip(self.expected, gradients, strict=True)):
            p.grad = g.float().clone() if is_there(k) else None
        if self.rule.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.expected, self.rule.clip)
        self.torch.step()
        with torch.no_grad():
            torch._foreach_lerp_(self.averages[0], self.expected, share)

    def pairs(self) -> Iterator[tuple[Any, Tensor, Tensor]]:
        """What has a name, by the kernels, by PyTorch."""
        for k, (found, expected) in enumerate(zip(self.found, self.expected, strict=True)):
            yield (k, "parameter"), found, expected
            yield (k, "average"), self.averages[1][k], self.averages[0][k]
            if state := self.torch.state.get(expected):
                for own, name in zip(self.state[k], ("exp_avg", "exp_avg_sq", "step")):
                    yield (k, name), own, state[name].to(own.device)


def assert_same(twin: Twin) -> None:
    for name, found, expected in twin.pairs():
        error = (found - expected).detach().norm() / expected.detach().norm().clamp_min(1e-30)
        assert error < 1e-6, name


@on_device
@pytest.mark.parametrize(
    ("is_decoupled", "clip", "is_low"),
    [
        (True, 0.5, True),
        (False, None, False),
        beyond_paths(True, None, False),
        beyond_paths(False, 0.5, True),
    ],
)
def test_many_steps(is_decoupled: bool, clip: float | None, is_low: bool) -> None:
    """Odd sizes, groups, a rate that changes, gradients of both precisions or parts of one tensor,
    a parameter without a gradient."""
    twin = Twin(is_decoupled, clip)
    before = twin.found[MISSING].detach().clone()
    for number in range(1, STEPS + 1):
        twin.step(number, gradients_of(number, is_low), lambda k: k != MISSING)
    assert_same(twin)
    assert torch.equal(twin.found[MISSING], before)
    assert float(twin.state[MISSING][2]) == 0.0
    for copy, parameter in zip(twin.copies, twin.found, strict=True):
        if copy is not None:
            rounded = parameter.detach().to(torch.bfloat16)
            # the interpreter cuts off where a device rounds
            torch.testing.assert_close(copy, rounded, atol=0, rtol=2**-7 if IS_INTERPRETED else 0)


def test_a_recording_keeps_its_addresses() -> None:
    """Each has a table that was there before it, is filled after it, and which no later step
    writes to."""
    tables, read = Tables(), []
    for _ in range(3):
        tried, _ = tables.of(moved_anywhere())
        moved = moved_anywhere()
        with recording():
            table, chunks = tables.of(moved)
            assert table is tried
            assert table[:, 1].tolist() != [each.gradient.data_ptr() for each in moved]
        assert chunks.tolist() == [[0, 0], [1, 0], [2, 0], [3, 0], [3, 1], [3, 2], [4, 0]]
        read.append((table, moved))
    tables.of(moved_anywhere())
    for table, moved in read:
        assert table[:, 1].tolist() == [each.gradient.data_ptr() for each in moved]
    with recording():
        tables.of(moved_anywhere())
        with pytest.raises(AssertionError, match="trial run comes first"):
            tables.of(moved_anywhere())


def test_recordings_without_a_trial_run_of_their_own() -> None:
    """After one of another network, and after the first recording."""
    tried, tables, read = Tables(), Tables(), []
    tried.of(moved_anywhere())
    tables.begin_like(tried)
    for _ in range(3):
        moved = moved_anywhere()
        with recording():
            table, chunks = tables.of(moved)
        assert chunks.tolist() == tried.of(moved)[1].tolist()
        read.append((table, moved))
    for table, moved in read:
        assert table[:, 1].tolist() == [each.gradient.data_ptr() for each in moved]
    assert len({table.data_ptr() for table, _ in read}) == 3


def moved_anywhere() -> list[Moved]:
    number = torch.zeros(())
    return [Moved(*(torch.zeros(n) for _ in range(4)), number, number, 0.0) for n in SIZES]
