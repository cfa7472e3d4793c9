"""RGP: latents gather rows that no key leads to, at a cost that is linear in the rows, and a query
reads them."""

from dataclasses import replace

import pytest
import torch
from planted import Outcome, Planted, unlinked

from gelgt.nn import ModelContext, ModelInput
from gelgt.nn.bias import GaussianBias
from gelgt.presets import RunConfig
from gelgt.zoo.rgp import RGP, CrossAttention, RGPConfig, is_linked

SETTINGS = {"sampling__budget": 20, "train__epochs": 10, "model__latents": 4}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return unlinked(tmp_path_factory.mktemp("rgp") / "db")


@pytest.fixture(scope="module")
def trained(world: Planted) -> Outcome:
    return world.train("rgp", **SETTINGS)


@pytest.fixture
def inputs(trained: Outcome) -> ModelInput:
    return next(iter(trained.data.loader(trained.data.seeds["test"], 6)))


def test_the_temporal_context_holds_what_no_key_leads_to(trained: Outcome) -> None:
    assert trained.auc > 0.75
    assert trained.auc > trained.entity_mean + 0.2


def test_the_structural_context_alone_says_nothing(world: Planted) -> None:
    assert (
        world.train("rgp", **SETTINGS | {"sampling__strategy": "bfs", "train__epochs": 3}).auc
        < 0.65
    )


@pytest.mark.slow
def test_the_bias_over_time_helps_the_latents(world: Planted) -> None:
    found = world.train("rgp", **SETTINGS | {"model__bias": "gaussian"})
    assert found.auc > 0.85
    (bias,) = found.model.biases
    assert isinstance(bias, GaussianBias)


def test_contexts_are_told_apart(trained: Outcome, inputs: ModelInput) -> None:
    batch = inputs.batch
    news = batch.table == list(batch.graph.tables).index("news")
    assert news.any()
    assert (~news).any()
    assert torch.equal(is_linked(inputs), ~news), "users and events are linked, news are not"


def test_a_row_without_a_time_gets_no_bias(trained: Outcome, inputs: ModelInput) -> None:
    torch.manual_seed(0)
    model = RGP(
        RGPConfig(width=32, bias="linear-decay", latents=4),
        ModelContext(trained.data.graph, trained.data.features, hide=trained.data.hide),
    )
    timeless = replace(inputs.batch, has_time=torch.zeros_like(inputs.batch.has_time))
    for batch, is_flat in ((timeless, True), (inputs.batch, False)):
        tokens = ModelInput(batch, inputs.rows).tokens(torch.zeros(len(batch.node), 32))
        mask, added = tokens.mask, model.closed(tokens)
        assert bool((added.masked_fill(~mask[:, None, None], 0) == 0).all()) == is_flat
        assert torch.isneginf(added[:, 0, 0][~mask]).all(), "padding stays closed"


def test_attention_is_the_written_formula() -> None:
    torch.manual_seed(0)
    block = CrossAttention(RGPConfig(width=8, heads=2, dropout=0.0)).double()
    x, context, bias = (
        torch.randn(2, 3, 8).double(),
        torch.randn(2, 5, 8).double(),
        torch.randn(2, 2, 1, 5).double(),
    )
    q = block.q(block.norm_x(x)).view(2, 3, 2, 4)
    k, v = block.kv(block.norm_context(context)).view(2, 5, 2, 2, 4).unbind(2)
    weights = torch.softmax(torch.einsum("bihd,bjhd->bhij", q, k) / 2 + bias, dim=-1)
    expected = x + block.out(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(2, 3, 8))
    expected = expected + block.ffn(block.norm_ffn(expected))
    torch.testing.assert_close(block(x, context, bias), expected)


def test_presets_ask_for_recent_rows() -> None:
    for preset in ("cpu", "gpu", "paper"):
        assert RunConfig.of(preset, kind="rgp").sampling.strategy == "recent"
