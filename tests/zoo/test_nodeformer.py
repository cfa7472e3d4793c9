"""NodeFormer: rows of one subgraph are compared pair by pair without forming the pairs, and keys
add what comes along them."""

from dataclasses import replace

import pytest
import torch
from planted import Outcome, matching
from test_parts import rows_of
from torch import Tensor

from gelgt.errors import GelgtError
from gelgt.nn import ModelContext, ModelInput
from gelgt.nn.dropout import own_dropout
from gelgt.zoo.nodeformer import NodeFormer, NodeFormerConfig, NodeFormerLayer, random_directions

SETTINGS = {"sampling__budget": 8, "train__epochs": 8}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """Without links: attention is all that brings two rows together."""
    return matching(tmp_path_factory.mktemp("nodeformer") / "db").train(
        "nodeformer", **SETTINGS, model__has_links=False
    )


@pytest.fixture
def inputs(trained: Outcome) -> ModelInput:
    return next(iter(trained.data.loader(trained.data.seeds["test"], 6)))


def fresh(trained: Outcome, **changes: object) -> NodeFormer:
    torch.manual_seed(0)
    values = {"width": 32, "row_width": 16, "dropout": 0.0} | changes
    return NodeFormer(
        NodeFormerConfig(**values),
        ModelContext(trained.data.graph, trained.data.features, hide=trained.data.hide),
    ).eval()


def test_attention_compares_rows_in_pairs(trained: Outcome) -> None:
    """Either row says nothing alone, and so does any sum of what each says."""
    assert trained.auc > 0.8
    assert trained.auc > trained.entity_mean + 0.25


def layer(**changes: object) -> NodeFormerLayer:
    torch.manual_seed(0)
    return NodeFormerLayer(
        NodeFormerConfig(**{"width": 16, "heads": 2, "temperature": 1.0} | changes), 1
    ).eval()


def test_many_random_features_are_softmax() -> None:
    q, k, v = (
        0.5 * torch.randn(11, 2, 8, generator=torch.Generator().manual_seed(n)) for n in range(3)
    )
    expected = torch.cat(
        [
            torch.einsum(
                "hij,jhd->ihd",
                torch.softmax(torch.einsum("ihd,jhd->hij", q[part], k[part]) / 8**0.5, dim=-1),
                v[part],
            )
            for part in (slice(0, 4), slice(4, 11))
        ]
    )
    few, many = (layer(directions=m).all_pairs(q, k, v, rows_of([4, 7])) for m in (8, 65_536))
    torch.testing.assert_close(many, expected, atol=0.01, rtol=0)
    assert (few - expected).abs().max() > (many - expected).abs().max()


def test_large_scores_stay_finite() -> None:
    q, k, v = (
        60.0 * torch.randn(5, 2, 8, generator=torch.Generator().manual_seed(n)) for n in range(3)
    )
    for mode in (True, False):
        assert torch.isfinite(
            layer(temperature=0.1).train(mode).all_pairs(q, k, v, rows_of([5]))
        ).all()


def test_padding_spoils_no_gradient() -> None:
    q, k, v = (
        torch.randn(5, 2, 8, generator=torch.Generator().manual_seed(n)).requires_grad_()
        for n in range(3)
    )
    layer().train().all_pairs(q, k, v, rows_of([1, 4])).square().sum().backward()
    assert all(x.grad is not None and torch.isfinite(x.grad).all() for x in (q, k, v))


def test_draws_are_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three draws at once are the mean of three alone."""
    random = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(5, 2, 8, generator=random) for _ in range(3))
    noise = torch.randn(2, 2, 4, 3, generator=random)

    def attended(*draws: int) -> Tensor:
        monkeypatch.setattr("gelgt.zoo.nodeformer.gumbel_like", lambda x: noise[..., draws])
        return layer(samples=len(draws)).train().all_pairs(q, k, v, rows_of([1, 4]))

    alone = torch.stack([attended(0), attended(1), attended(2)])
    assert alone.std(0).max() > 0.01
    torch.testing.assert_close(attended(0, 1, 2), alone.mean(0))


def test_noise_is_there_in_training_alone_and_repeats(trained: Outcome, inputs: ModelInput) -> None:
    model = fresh(trained)
    assert torch.equal(model(inputs), model(inputs))
    model.train()
    draws = []
    for seed in (1, 1, 2):
        with own_dropout(seed):
            draws.append(model(inputs))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_keys_add_what_comes_along_them(trained: Outcome, inputs: ModelInput) -> None:
    with_links, without = fresh(trained), fresh(trained, has_links=False)
    without.load_state_dict(
        {name: tensor for name, tensor in with_links.state_dict().items() if "strength" not in name}
    )
    assert not torch.allclose(with_links(inputs), without(inputs), atol=1e-4)
    for block in with_links.layers:
        assert isinstance(block, NodeFormerLayer)
        assert block.strength is not None
        block.strength.data.fill_(-40.0)  # sigmoid: nothing comes through
    torch.testing.assert_close(with_links(inputs), without(inputs), atol=1e-6, rtol=0)


def test_a_row_is_seen_by_its_own_subgraph_alone(trained: Outcome, inputs: ModelInput) -> None:
    """The first subgraph's rows change nothing in the second's, and change the first's through
    attention, without any link."""
    model = fresh(trained, has_links=False)
    tokens = model.encoder(inputs)
    changed = tokens.h.detach().clone()
    changed[1] += 1.0  # a row of the first subgraph
    before = model.layers[0](tokens, None)
    after = model.layers[0](replace(tokens, h=changed), None)
    border = int(tokens.offsets[1])
    assert not torch.allclose(before[0], after[0], atol=1e-5)
    torch.testing.assert_close(before[border:], after[border:], atol=1e-6, rtol=0)


def test_directions_are_orthogonal_in_blocks() -> None:
    torch.manual_seed(0)
    found = torch.nn.functional.normalize(random_directions(6, 4), dim=1)
    torch.testing.assert_close(found[:4] @ found[:4].T, torch.eye(4), atol=1e-5, rtol=0)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(GelgtError, match="heads"):
        NodeFormerConfig(width=30, heads=4)
