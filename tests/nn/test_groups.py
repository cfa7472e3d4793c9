"""Attention over rows sorted by age, whose groups share their Gaussians: equal to the formula, and
to the kernels that take every pair, whatever the ages."""

import math

import numpy as np
import pytest
import torch
from interpreter import DEVICE, IS_INTERPRETED, LOW, beyond_paths, on_device, one_thread
from test_kernels import Case, assert_close
from torch import Tensor

from gelgt.nn.kernels import FAR

GROUP = 16 if IS_INTERPRETED else 64
MOST = {torch.float16: 3e-3, torch.bfloat16: 2e-2}[LOW]  # of a relative error


def grouped(monkeypatch: pytest.MonkeyPatch, rows: int = GROUP) -> None:
    """Sort rows whatever their number; 0 for never."""
    from gelgt.nn.kernels import op, problem

    for module in (problem, op):
        monkeypatch.setattr(module, "choose_group", lambda *a: rows)


def smooth_groups(case: Case) -> list[int]:
    """How many each subgraph has."""
    from gelgt.nn.kernels.problem import Problem

    time = torch.where(case.known, case.age, FAR)
    assert case.kernels is not None
    problem = Problem(
        case.qkv, time, case.lengths, *case.kernels, None, time.shape[1], case.is_log, 0.0
    )
    groups = problem.sorted(problem.by_age()).groups()
    assert groups is not None
    return [int(count) for count in groups.lists[:, 2, -1]]


def case_of(rows: int, spread: float = 0.15) -> Case:
    """Three subgraphs: of so many rows, of few, and of more; ages within `spread` · 50 days."""
    case = Case.of([rows, 5, rows + GROUP + 7], dtype=LOW)
    case.age *= spread
    return case


@pytest.mark.parametrize("power", [0, 1, 2])
def test_a_gaussian_is_read_off_within_its_bound(power: int) -> None:
    """d^power · exp(-d²) from 16 Chebyshev nodes of a range of 2 s: the bounds of groups.py."""
    n = 16
    nodes = np.cos((2 * np.arange(n) + 1) * math.pi / (2 * n))
    x = np.linspace(-1, 1, 501)
    shares = np.stack([np.ones(n) / n] * len(x))
    for k in range(1, n):
        shares += 2 / n * np.cos(k * np.arccos(x))[:, None] * np.cos(k * np.arccos(nodes))
    worst = 0.0
    for centre in np.linspace(-6, 6, 241):
        exact, at_nodes = ((centre + t) ** power * np.exp(-((centre + t) ** 2)) for t in (x, nodes))
        worst = max(worst, float(np.abs(shares @ at_nodes - exact).max()))
    bound = 1.09 * math.sqrt(2) ** n / (math.sqrt(math.factorial(n)) * 2 ** (n - 1))
    assert bound < 2**-28
    assert worst < (bound if power == 0 else 2**-25)


@on_device
@pytest.mark.parametrize("is_packed", [True, beyond_paths(False)])
def test_values_and_gradients(is_packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Smooth groups, groups without times, groups with some, and those that are not full."""
    # at 0.15, of all things, the gradients of σ cancel, and rounded outputs alone cost 16 % of them
    case = case_of(5 * GROUP, 0.12)
    case.known[2, : 3 * GROUP] = False
    grouped(monkeypatch)
    first, few, more = smooth_groups(case)
    assert min(first, more) >= 2
    assert few == 0
    assert_close(case.found(is_packed), case.expected(), MOST)


@on_device
@pytest.mark.parametrize(
    "ages", ["two times", *map(beyond_paths, ("tied", "wide", "untimed", "large weights"))]
)
def test_whatever_the_ages(ages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(3 * GROUP, 100.0 if ages == "wide" else 0.15)
    assert case.kernels is not None
    if ages == "tied":
        case.age = case.age.round().clamp(max=3)
    elif ages == "two times":  # a group between them is not smooth, those beyond are
        case.age = case.age / 5 + 4_000 * (torch.arange(case.age.shape[1]) % 2).to(DEVICE)
    elif ages == "untimed":
        case.known[0] = False
    elif ages == "large weights":  # of which fp16 has no numbers
        case.kernels[3].fill_(3e3)
    grouped(monkeypatch)
    smooth = torch.tensor(smooth_groups(case))
    if ages in ("wide", "large weights"):  # those without any time at the most
        assert (smooth <= (case.mask & ~case.known).sum(1).cpu() // GROUP).all()
    else:
        assert smooth.max() >= 2
    found, expected = case.found(True), case.expected()
    assert_close(found[:4], expected[:4], MOST)
    if ages != "large weights":
        assert_close(found[4:], expected[4:], MOST)


def levels(case: Case) -> Tensor:
    """log Σ exp of the scores, (H, rows), in the order in which rows are given."""
    from gelgt.nn.kernels.op import forward

    assert case.kernels is not None
    time = torch.where(case.known, case.age, FAR)
    _, level, order = forward(
        case.qkv, time, case.lengths, *case.kernels, None, time.shape[1], False, 0.0
    )
    if len(order):
        level = torch.empty_like(level).index_copy_(1, order.long(), level)
    return level.view(-1, *time.shape)[:, case.mask]


@on_device
def test_the_bias_is_that_of_every_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """To float32's rounding, whatever the precision of queries and keys."""
    case = case_of(3 * GROUP)
    grouped(monkeypatch, 0)
    exact = levels(case)
    grouped(monkeypatch)
    found = levels(case)
    assert not torch.equal(found, exact)
    torch.testing.assert_close(found, exact, rtol=1e-6, atol=3e-6)


@on_device
def test_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients are those of the weights that were kept."""
    rows, rate = max(64, 2 * GROUP), 0.3
    case = Case.of([rows], dtype=LOW, size=rows)
    case.age *= 0.1
    grouped(monkeypatch)
    assert smooth_groups(case)[0] >= 1
    values = case.qkv[:, :, 2].clone()
    case.qkv[:, :, 2] = torch.eye(rows, device=DEVICE)[None, :, None]
    torch.manual_seed(1)
    weights = case.found(True, rate)[0].view(1, rows, 2, rows).permute(0, 2, 1, 3)
    assert float((weights == 0).double().mean()) == pytest.approx(rate, abs=0.03)
    case.qkv[:, :, 2] = values
    torch.manual_seed(1)
    kept = (weights != 0).double() / (1 - rate)
    assert_close(case.found(True, rate), case.expected(kept), 2 * MOST)


@on_device
@one_thread
def test_two_runs_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of(2 * GROUP)
    grouped(monkeypatch)
    assert all(torch.equal(a, b) for a, b in zip(case.found(True), case.found(True), strict=True))


@on_device
def test_rows_are_sorted_within_their_subgraph() -> None:
    """Equal ages as they come, negative ones first, padding where it is."""
    from gelgt.nn.kernels.groups import sort_rows

    time = torch.tensor(
        [[3.0, FAR, -2.0, 3.0, -0.0, -7.0, 0.0], [1.0, 0.5, 9.0, 9.0, 9.0, 0.0, 0.0]]
    )
    time, lengths = time.to(DEVICE), torch.tensor([7, 3], device=DEVICE)
    rows = [5, 2, 4, 6, 0, 3, 1]
    assert sort_rows(time, lengths, 7, False).tolist() == [*rows, 8, 7, 9, 10, 11, 12, 13]
    packed = torch.cat([time[0], time[1]])
    offsets = torch.tensor([0, 7, 10], device=DEVICE)
    beyond = [12, 13, 10, 11]  # rows of no subgraph
    assert sort_rows(packed, offsets, 7, True).tolist() == [*rows, 8, 7, 9, *beyond]
