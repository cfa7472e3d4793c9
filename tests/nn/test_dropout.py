from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from gelgt.nn.dropout import LENGTH, Dropout, _Draws, draw_seed, dropout, own_dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_the_share_that_is_dropped_and_the_mean(rate: float) -> None:
    x = torch.ones(400, 300)
    with own_dropout(7):
        out = dropout(x, rate)
    assert abs(float((out == 0).float().mean()) - rate) < 0.005
    assert abs(float(out.mean()) - 1) < 0.01
    assert len(out.unique()) == 2


def test_layers_draw_different_masks_and_a_seed_repeats_them() -> None:
    x = torch.ones(64, 64)
    with own_dropout(1):
        first, second = dropout(x, 0.5), dropout(x, 0.5)
    with own_dropout(1):
        again = dropout(x, 0.5)
    with own_dropout(2):
        other = dropout(x, 0.5)
    assert torch.equal(first, again)
    for mask in (second, other):
        assert 0.4 < float((first == mask).float().mean()) < 0.6


def test_a_tensor_longer_than_the_mask() -> None:
    with own_dropout(0):
        out = dropout(torch.ones(LENGTH + 3), 0.25)
    assert abs(float((out == 0).float().mean()) - 0.25) < 0.005


def test_threads_do_not_disturb_each_other() -> None:
    def draw(seed: int) -> torch.Tensor:
        with own_dropout(seed):
            return torch.stack([dropout(torch.ones(1000), 0.5) for _ in range(20)])

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(draw, range(8)))
    assert all(torch.equal(found, draw(seed)) for seed, found in enumerate(together))


def test_gradients_follow_the_mask_and_evaluation_drops_nothing() -> None:
    x = torch.ones(1000, requires_grad=True)
    layer = Dropout(0.5)
    with own_dropout(3):
        out = layer(x)
    out.sum().backward()
    assert torch.equal(x.grad, out.detach())  # type: ignore[arg-type]
    assert layer.eval()(x) is x


def test_outside_of_it_pytorchs_own_generator_decides() -> None:
    torch.manual_seed(0)
    first = dropout(torch.ones(100), 0.5)
    torch.manual_seed(0)
    assert torch.equal(first, torch.nn.functional.dropout(torch.ones(100), 0.5))


def test_numbers_of_one_seed_differ_and_repeat() -> None:
    """What kernels on a device draw by: many at once, and more where they are not enough."""
    drawn = []
    for seed in (3, 3, 4):
        draws = _Draws(torch.tensor([seed]))
        drawn.append([int(draws.number()) for _ in range(150)])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 150
    assert not set(drawn[0]) & set(drawn[2])
    alone = [int(draw_seed(torch.device("cpu"))) for _ in range(2)]
    assert alone[0] != alone[1]
