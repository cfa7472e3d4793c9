"""The optimiser takes the steps of PyTorch's, bit by bit, without what that loads."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor

from gelgt.training.optimiser import Adam

SIZES = (1, 7, 1_023)
THEIRS = {True: torch.optim.AdamW, False: torch.optim.Adam}


def drawn(seed: int) -> list[Tensor]:
    random = torch.Generator().manual_seed(seed)
    return [torch.randn(size, generator=random) for size in SIZES]


def groups(parameters: list[Tensor]) -> list[dict[str, object]]:
    return [
        {"params": parameters[:2], "lr": 1e-2, "weight_decay": 0.1},
        {"params": parameters[2:], "lr": 1e-1, "weight_decay": 0.0},
    ]


def take(step: int, parameters: list[Tensor]) -> None:
    """Give gradients; the second parameter has none at first."""
    for number, (parameter, gradient) in enumerate(zip(parameters, drawn(100 + step))):
        parameter.grad = None if number == 1 and step < 3 else gradient


@pytest.mark.parametrize("is_decoupled", [True, False])
def test_steps_are_those_of_pytorch(is_decoupled: bool) -> None:
    one, other = ([p.requires_grad_() for p in drawn(0)] for _ in range(2))
    own = Adam(groups(one), is_decoupled=is_decoupled)
    theirs = THEIRS[is_decoupled](groups(other), fused=True)
    for step in range(8):
        take(step, one)
        take(step, other)
        own.step()
        theirs.step()
    for a, b in zip(one, other):
        assert torch.equal(a, b)
    state = theirs.state_dict()["state"]
    assert own.moments().keys() == state.keys()
    for number, moments in own.moments().items():
        assert moments.keys() == state[number].keys()
        assert all(torch.equal(moments[name], state[number][name]) for name in moments)


def test_it_goes_on_from_its_moments() -> None:
    whole, first, second = ([p.requires_grad_() for p in drawn(0)] for _ in range(3))
    through, until = Adam(groups(whole)), Adam(groups(first))
    for step in range(4):
        take(step, whole)
        through.step()
        if step < 2:
            take(step, first)
            until.step()
    assert until.moments().keys() == {0, 2}  # nothing of a parameter without a step
    with torch.no_grad():
        for old, new in zip(first, second):
            new.copy_(old)
    after = Adam(groups(second))
    after.load_moments(until.moments())
    for step in (2, 3):
        take(step, second)
        after.step()
    assert all(torch.equal(a, b) for a, b in zip(whole, second))


def test_no_compiler_is_loaded() -> None:
    code = """
import sys, torch
from gelgt.training.optimiser import Adam, limit_gradients
weight = torch.ones(3, requires_grad=True)
weight.square().sum().backward()
limit_gradients([weight], 1.0)
Adam([{"params": [weight], "lr": 0.1, "weight_decay": 0.0}]).step()
assert weight[0] < 1
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr
