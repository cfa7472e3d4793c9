"""Linear layers with what follows them in one kernel: the same as PyTorch's operations one after
the other."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from interpreter import DEVICE, beyond_paths, on_device
from test_static import PLACES, World, model_of, sampled, static, world
from torch import Tensor, nn
from torch.nn import functional

from gelgt.nn import ModelInput, linear, norms
from gelgt.nn.dropout import Dropout
from gelgt.nn.linear import FeedForward, Linear, bent
from gelgt.nn.norms import LayerNorm, side_by_side
from gelgt.nn.static import ops, rows

__all__ = ["world"]  # a fixture
Values = list[Tensor]


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels in float32, so that what they compute can be compared."""
    monkeypatch.setattr(linear, "is_fused", lambda x: True)
    for module in (linear, ops):
        monkeypatch.setattr(module, "has_kernels", lambda x: True)
    for module in (norms, rows):
        monkeypatch.setattr(module, "is_low", lambda x: True)
    monkeypatch.setattr(norms, "_low_type", lambda: torch.float32)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def slopes(out: Tensor, leaves: Values) -> Values:
    given = draw(*out.shape, seed=9)
    return [out, *torch.autograd.grad((out * given).sum(), leaves, retain_graph=True)]


def are_alike(found: Values, expected: Values) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.is_contiguous()
        torch.testing.assert_close(one, other, atol=2e-4, rtol=1e-4)


@on_device
@pytest.mark.usefixtures("fused")
def test_products_and_their_gradients() -> None:
    torch.manual_seed(0)
    layer, network = Linear(24, 40).to(DEVICE), FeedForward(24, 48, 40, 0.0).to(DEVICE)
    x = draw(3, 100, 24).requires_grad_()
    residual, none = draw(3, 100, 40, seed=1).requires_grad_(), Dropout(0.3).eval()

    def plain(layer: nn.Linear, x: Tensor) -> Tensor:
        return functional.linear(x, layer.weight, layer.bias)

    leaves = [x, *layer.parameters()]
    are_alike(slopes(layer(x), leaves), slopes(plain(layer, x), leaves))
    are_alike(
        slopes(layer.added(residual, x, none), [*leaves, residual]),
        slopes(residual + plain(layer, x), [*leaves, residual]),
    )
    leaves = [x, *network.parameters()]
    expected = plain(network[3], functional.gelu(plain(network[0], x)))
    are_alike(slopes(network(x), leaves), slopes(expected, leaves))
    without = Linear(24, 40, bias=False).to(DEVICE)
    leaves = [without.weight]
    fixed = x.detach()  # no gradient is asked of it
    are_alike(slopes(without(fixed), leaves), slopes(plain(without, fixed), leaves))


@on_device
@pytest.mark.usefixtures("fused")
def test_residuals_and_norms() -> None:
    torch.manual_seed(0)
    norm = LayerNorm(40).to(DEVICE)
    with torch.no_grad():
        norm.weight.copy_(draw(40, seed=3))
    y, x = draw(70, 40).requires_grad_(), draw(70, 40, seed=1).requires_grad_()
    none = Dropout(0.3).eval()
    are_alike(slopes(bent(y, x, none), [y, x]), slopes(x + functional.gelu(y), [y, x]))
    same, normed = norm.beside(x)
    leaves = [x, norm.weight, norm.bias]
    expected = functional.layer_norm(x, (40,), norm.weight, norm.bias)
    are_alike(slopes(same + 2 * normed, leaves), slopes(x + 2 * expected, leaves))
    are_alike(slopes(norm(x), leaves), slopes(expected, leaves))
    both = torch.cat([functional.layer_norm(y, (40,), norm.weight, norm.bias), expected], dim=1)
    are_alike(slopes(side_by_side([norm, norm], [y, x]), [y, *leaves]), slopes(both, [y, *leaves]))


@on_device
@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("name", ["product", "feed-forward", "bent"])
def test_dropout_drops_the_same_backward(name: str) -> None:
    torch.manual_seed(0)
    layer, network = Linear(24, 64).to(DEVICE), FeedForward(24, 64, 64, 0.4).to(DEVICE)
    x, drop = draw(300, 24), Dropout(0.4)
    residual = torch.zeros(300, 64, device=DEVICE)
    given = draw(300, 64, seed=4).requires_grad_()
    made: dict[str, Callable[[], Tensor]] = {
        "product": lambda: layer.added(given * 0.0, x, drop),
        "feed-forward": lambda: network.hidden(x),
        "bent": lambda: bent(given, residual, drop),
    }
    out = made[name]()
    kept = out.detach() != 0
    assert float(kept.float().mean()) == pytest.approx(0.6, abs=0.02)
    torch.manual_seed(5)
    first = made[name]()
    torch.manual_seed(5)
    assert torch.equal(first, made[name]())
    assert not torch.equal(first != 0, kept)
    if name == "bent":
        (slope,) = torch.autograd.grad(out.sum(), given)
        assert torch.equal(slope != 0, kept)
        wide = given.detach().double().requires_grad_()
        (exact,) = torch.autograd.grad((functional.gelu(wide) * kept / 0.6).sum(), wide)
    else:
        first_layer = layer if name == "product" else network[0]
        (slope,) = torch.autograd.grad(out.sum(), first_layer.bias)
        y = functional.linear(x, first_layer.weight, first_layer.bias).double().detach()
        wide = y.requires_grad_()
        made_of = functional.gelu(wide) if name == "feed-forward" else wide
        (by_row,) = torch.autograd.grad((made_of * kept / 0.6).sum(), wide)
        exact = by_row.sum(0)
    torch.testing.assert_close(slope.double(), exact, atol=1e-3, rtol=1e-4)


@on_device
@pytest.mark.parametrize(
    "changes",
    [
        {"encoders": ("table", "hop", "age", "row", "recency"), "row_layers": 2},
        beyond_paths({"norm": "batch"}),
    ],
    ids=str,
)
def test_a_model_has_the_gradients_that_it_has_without(
    world: World, changes: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    places = PLACES[:2]  # the interpreter takes seconds for each
    batch = sampled(world, places)
    plain, fixed = (model_of(world, backend="sdpa", **changes).to(DEVICE) for _ in range(2))
    target = torch.linspace(-1, 1, len(places), device=DEVICE)[:, None]
    expected = plain(ModelInput.of(batch, world[1]).to(DEVICE))
    (expected - target).square().sum().backward()
    request.getfixturevalue("fused")
    found = static(world, fixed, batch)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    (found - target).square().sum().backward()
    for (name, own), other in zip(plain.named_parameters(), fixed.parameters()):
        given = torch.zeros_like(own) if own.grad is None else own.grad
        taken = torch.zeros_like(own) if other.grad is None else other.grad
        torch.testing.assert_close(
            taken, given, atol=1e-4, rtol=1e-3, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_without_a_device_all_is_as_pytorch_does_it() -> None:
    torch.manual_seed(0)
    layer, network, drop = Linear(8, 8), FeedForward(8, 16, 8, 0.5), Dropout(0.5)
    x = torch.randn(5, 8)
    torch.manual_seed(1)
    found = layer.added(x, network(x), drop)
    torch.manual_seed(1)
    hidden = functional.dropout(functional.gelu(network[0](x)), 0.5)
    expected = x + functional.dropout(layer(network[3](hidden)), 0.5)
    assert torch.equal(found, expected)
    assert list(network.state_dict()) == ["0.weight", "0.bias", "3.weight", "3.bias"]
