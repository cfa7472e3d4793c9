"""Gaussian attention: the written formula in float64, exact gradients, exact padding, one compiled
graph."""

import math
from typing import Any

import pytest
import torch
from configs import kernel_form, plain_config
from torch import Tensor
from torch.func import functional_call

from gelgt.nn.attention import BACKENDS, AttentionBlock, ReadOut, choose_backend, mask_bias
from gelgt.nn.bias import GaussianBias

NAMES = sorted(BACKENDS)
FORMS = [(form, parameters) for form in ("published", "lemma") for parameters in ("log", "direct")]


def gaussian(heads: int, dtype: torch.dtype = torch.float64, **changes: Any) -> GaussianBias:
    torch.manual_seed(3)
    bias = GaussianBias(plain_config(width=8 * heads, heads=heads), kernel_form(**changes))
    bias.start(torch.linspace(4.0, 40.0, heads), torch.linspace(5.0, 12.0, heads))
    torch.nn.init.normal_(bias.mix.weight)
    torch.nn.init.normal_(bias.mix.bias)
    return bias.to(dtype)


def problem(
    seed: int, seeds: int = 2, heads: int = 2, rows: int = 5, width: int = 4
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """q, k, v (B, H, N, d/H), ages, has-time flags and a mask with padding at the end, all in
    float64."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, seeds, heads, rows, width, dtype=torch.float64, generator=generator)
    age = 50 * torch.rand(seeds, rows, dtype=torch.float64, generator=generator)
    lengths = torch.randint(1, rows, (seeds,), generator=generator)
    lengths[0] = rows
    mask = torch.arange(rows)[None, :] < lengths[:, None]
    known = (torch.rand(seeds, rows, generator=generator) < 0.7) & mask
    known[:, 0] = True  # the seed always has a time
    known[0, 1:3] = torch.tensor([False, True])  # without a row of each kind b would cancel
    return q, k, v, age, known, mask


def written(
    q: Tensor, k: Tensor, v: Tensor, age: Tensor, known: Tensor, mask: Tensor, bias: GaussianBias
) -> Tensor:
    """softmax(QKᵀ/√(d/H) + bias) V by loops over plain numbers; μ, σ, W, b are read off the
    bias."""
    mu, sigma = bias.mu.tolist(), bias.sigma.tolist()
    mix, shift = bias.weight.tolist(), bias.mix.bias.tolist()
    out = torch.zeros_like(v)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                scores = {}
                for j in range(q.shape[2]):
                    if not mask[b, j]:
                        continue
                    score = sum(
                        float(q[b, h, i, c]) * float(k[b, h, j, c]) for c in range(q.shape[3])
                    ) / math.sqrt(q.shape[3])
                    if known[b, i] and known[b, j]:
                        time = abs(float(age[b, i]) - float(age[b, j]))
                        score += (
                            sum(
                                mix[h][g]
                                * math.exp(-((time - mu[g]) ** 2) / (bias.factor * sigma[g] ** 2))
                                for g in range(len(mu))
                            )
                            + shift[h]
                        )
                    scores[j] = score
                total = sum(math.exp(s) for s in scores.values())
                for c in range(v.shape[3]):
                    out[b, h, i, c] = sum(
                        math.exp(s) / total * float(v[b, h, j, c]) for j, s in scores.items()
                    )
    return out


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["published", "lemma"])
def test_attention_is_the_written_formula(name: str, form: str) -> None:
    """Float64 to 1e-10; float32 as close as float32 is."""
    for seed in range(4):
        bias = gaussian(2, form=form)
        assert bias.factor == (1.0 if form == "published" else 2.0)
        q, k, v, age, known, mask = problem(seed)
        expected = written(q, k, v, age, known, mask, bias)
        with torch.no_grad():
            found = BACKENDS[name](q, k, v, mask_bias(bias(age, known), mask, torch.float64), 0.0)
            single = gaussian(2, torch.float32, form=form)
            low = BACKENDS[name](
                q.float(),
                k.float(),
                v.float(),
                mask_bias(single(age.float(), known), mask, torch.float32),
                0.0,
            )
        assert (found - expected).abs().max() < 1e-10
        torch.testing.assert_close(low.double(), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("weights", ["positive", "free"])
@pytest.mark.parametrize(("form", "parameters"), FORMS)
def test_gradients_are_finite_differences(
    name: str, weights: str, form: str, parameters: str
) -> None:
    """Of q, k, v, μ, σ, W and b, through bias and attention together."""
    bias = gaussian(2, form=form, parameters=parameters, weights=weights)
    q, k, v, age, known, mask = problem(1, rows=4, width=3)
    inputs = [
        t.detach().clone().requires_grad_()
        for t in (q, k, v, bias.centre, bias.width, bias.mix.weight, bias.mix.bias)
    ]

    def attend(
        q: Tensor, k: Tensor, v: Tensor, centre: Tensor, width: Tensor, mix: Tensor, shift: Tensor
    ) -> Tensor:
        values = {"centre": centre, "width": width, "mix.weight": mix, "mix.bias": shift}
        added = functional_call(bias, values, (age, known))
        return BACKENDS[name](q, k, v, mask_bias(added, mask, torch.float64), 0.0)

    assert torch.autograd.gradcheck(attend, inputs, eps=1e-6, atol=1e-7, rtol=1e-5)
    attend(*inputs).square().sum().backward()
    assert all(t.grad is not None and t.grad.abs().max() > 1e-8 for t in inputs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("has_bias", [True, False])
def test_padded_keys_have_no_weight_at_all(name: str, has_bias: bool) -> None:
    q, k, _, age, known, mask = problem(2, rows=6, width=6)
    assert not mask.all()
    added = mask_bias(gaussian(2)(age, known).detach() if has_bias else None, mask, torch.float64)
    weights = BACKENDS[name](
        q, k, torch.eye(6, dtype=torch.float64).expand(2, 2, 6, 6).contiguous(), added, 0.0
    )
    padded = ~mask[:, None, None, :].expand_as(weights)
    assert (weights[padded] == 0).all()
    assert (weights[~padded] > 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 6, dtype=torch.float64))
    wild = torch.where(mask[:, None, :, None], k, 1e6)
    again = BACKENDS[name](
        q, wild, torch.eye(6, dtype=torch.float64).expand(2, 2, 6, 6).contiguous(), added, 0.0
    )
    assert torch.equal(weights, again), "whatever the padding holds"


def block_of(
    name: str, **changes: Any
) -> tuple[AttentionBlock, GaussianBias, Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    config = plain_config(width=32, heads=4, dropout=0.0, backend=name, **changes)
    bias = GaussianBias(config)
    age, mask = 90 * torch.rand(3, 7), torch.arange(7)[None, :] < torch.tensor([7, 4, 1])[:, None]
    return (
        AttentionBlock(config),
        bias,
        torch.randn(3, 7, 32),
        age,
        mask,
        mask & (torch.rand(3, 7) < 0.8),
    )


def test_backends_agree_in_a_block() -> None:
    """Values and gradients of all parameters, in float64."""
    found = {}
    for name in NAMES:
        block, bias, x, age, mask, known = block_of(name)
        block, bias = block.double(), bias.double()
        out = block(x.double(), mask_bias(bias(age.double(), known), mask, torch.float64))
        (out[mask] ** 2).sum().backward()
        found[name] = [out[mask], *(p.grad for p in (*block.parameters(), *bias.parameters()))]
    for name in NAMES[1:]:
        for one, other in zip(found[NAMES[0]], found[name], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_no_row(name: str) -> None:
    block, bias, x, age, mask, known = block_of(name)
    with torch.no_grad():
        together = block(x, mask_bias(bias(age, known), mask, x.dtype))
        for b, rows in enumerate(mask.sum(1).tolist()):
            own = slice(b, b + 1), slice(0, rows)
            alone = block(x[own], mask_bias(bias(age[own], known[own]), mask[own], x.dtype))
            torch.testing.assert_close(alone[0], together[own][0], rtol=1e-5, atol=1e-6)
        other = block(
            torch.where(mask[:, :, None], x, 77.0), mask_bias(bias(age, known), mask, x.dtype)
        )
    assert torch.equal(together[mask], other[mask])


@pytest.mark.parametrize("name", NAMES)
def test_a_block_compiles_without_graph_breaks(name: str) -> None:
    """Bias, mask and block as one graph (fullgraph raises at the first break), in evaluation and
    with gradients."""
    block, bias, x, age, mask, known = block_of(name)

    def run(x: Tensor, age: Tensor, known: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = block(x, mask_bias(bias(age, known), mask, x.dtype))
        return out

    torch._dynamo.reset()
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    results = []
    for function in (run, compiled):
        block.zero_grad()
        bias.zero_grad()
        out = function(x, age, known, mask)
        out[mask].square().mean().backward()
        results.append(
            [
                out[mask].detach(),
                *(
                    p.grad.clone()
                    for p in (*block.parameters(), *bias.parameters())
                    if p.grad is not None
                ),
            ]
        )
    assert len(results[0]) == 1 + len([*block.parameters(), *bias.parameters()])
    for eager, other in zip(*results, strict=True):
        torch.testing.assert_close(eager, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_bf16_autocast_stays_close(name: str) -> None:
    block, bias, x, age, mask, known = block_of(name)
    with torch.no_grad():
        exact = block(x, mask_bias(bias(age, known), mask, x.dtype))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rounded = block(x, mask_bias(bias(age, known), mask, x.dtype))
    assert torch.isfinite(rounded).all()
    assert not torch.equal(rounded.float(), exact)
    assert (rounded.float() - exact)[mask].abs().max() < 0.05
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = block(x, mask_bias(bias(age, known), mask, x.dtype))
    out[mask].float().square().mean().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in bias.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_dropout_acts_in_training_only(name: str) -> None:
    torch.manual_seed(0)
    block = AttentionBlock(plain_config(width=32, heads=4, dropout=0.5, backend=name))
    x, open_ = torch.randn(1, 6, 32), torch.zeros(1, 1, 6, 6)
    assert not torch.equal(block(x, open_), block(x, open_))
    block.eval()
    assert torch.equal(block(x, open_), block(x, open_))
    ones = torch.ones(1, 1, 2000, 4)
    kept = BACKENDS[name](
        torch.zeros(1, 1, 2000, 4),
        torch.zeros(1, 1, 2000, 4),
        ones,
        torch.zeros(1, 1, 2000, 2000),
        0.5,
    )
    assert float(kept.mean()) == pytest.approx(1.0, abs=0.02), "what is left is scaled up"


def test_read_out_adds_neighbours_to_the_seed() -> None:
    torch.manual_seed(0)
    read_out, x = ReadOut(8), torch.randn(3, 5, 8)
    mask = torch.arange(5)[None, :] < torch.tensor([5, 2, 1])[:, None]
    found = read_out(x, mask).detach()
    scores = [float(read_out.score(torch.cat([x[0, 0], x[0, j]])).detach()) for j in range(1, 5)]
    total = sum(math.exp(s) for s in scores)
    expected = x[0, 0] + sum(math.exp(s) / total * x[0, j + 1] for j, s in enumerate(scores))
    torch.testing.assert_close(found[0], expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found[1], x[1, 0] + x[1, 1])
    assert torch.equal(found[2], x[2, 0]), "a seed without neighbours stays as it is"
    assert torch.equal(read_out(x[:, :1], mask[:, :1]), x[:, 0])
    read_out(x, mask).sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in read_out.parameters())


def test_the_backend_and_its_reason() -> None:
    assert choose_backend(plain_config())[0] in BACKENDS
    assert choose_backend(plain_config(backend="reference")) == (
        "reference",
        "named by the configuration",
    )
