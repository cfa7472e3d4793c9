"""RelGT: attention over five-element tokens finds a row by its age, the codebook follows training
alone, gelgt's parts can be added."""

from dataclasses import replace

import pytest
import torch
from planted import Outcome, Planted, lagged

from gelgt.nn import ModelContext, ModelInput
from gelgt.nn.bias import GaussianBias
from gelgt.presets import RunConfig
from gelgt.zoo.relgt import RelGT, RelGTConfig

SETTINGS = {
    "sampling__strategy": "bfs",
    "sampling__budget": 12,
    "train__epochs": 8,
    "model__centroids": 64,
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return lagged(tmp_path_factory.mktemp("relgt") / "db")


@pytest.fixture(scope="module")
def trained(world: Planted) -> Outcome:
    return world.train("relgt", **SETTINGS)


@pytest.fixture
def inputs(trained: Outcome) -> ModelInput:
    return next(iter(trained.data.loader(trained.data.seeds["test"], 6)))


def fresh(trained: Outcome, **changes: object) -> RelGT:
    torch.manual_seed(0)
    values = {"width": 32, "layers": 1, "row_width": 16, "centroids": 16} | changes
    context = ModelContext(trained.data.graph, trained.data.features, hide=trained.data.hide)
    return RelGT(
        RelGTConfig(**values),
        context,
    )


def test_attention_finds_the_lagged_row(trained: Outcome) -> None:
    """The mean of the eleven events has correlation 0.3 with the right one: an AUC of 0.6 is all
    that counting and averaging give."""
    assert trained.auc > 0.85
    assert trained.auc > trained.entity_mean + 0.25


@pytest.mark.slow
def test_gelgts_bias_and_refinement_can_be_switched_on(world: Planted) -> None:
    found = world.train("relgt", **SETTINGS | {"model__bias": "gaussian", "model__keep": 8})
    assert found.auc > 0.85
    (bias,) = found.model.biases
    assert isinstance(bias, GaussianBias)
    assert len(found.model.temporal_profile()[0]) == bias.heads
    assert len(found.model.parameter_groups(1e-3)) == 2, "μ and σ have their own rate"


def test_refinement_cuts_what_attention_sees(trained: Outcome, inputs: ModelInput) -> None:
    model, kept = fresh(trained).eval(), fresh(trained, keep=4).eval()
    kept.load_state_dict(model.state_dict())
    with torch.no_grad():
        assert not torch.allclose(model(inputs), kept(inputs), atol=1e-4)
        everything = fresh(trained, keep=12).eval()
        everything.load_state_dict(model.state_dict())
        torch.testing.assert_close(model(inputs), everything(inputs), atol=1e-6, rtol=0)


def test_centroids_follow_training_alone(trained: Outcome, inputs: ModelInput) -> None:
    model = fresh(trained)
    assert model.everyone is not None
    start = model.everyone.centroids.clone()
    model.eval()(inputs)
    assert torch.equal(model.everyone.centroids, start)
    model.train()(inputs)
    assert not torch.equal(model.everyone.centroids, start)
    model.eval()
    before = model(inputs)
    model.everyone.centroids.neg_()
    assert not torch.allclose(model(inputs), before, atol=1e-4), (
        "the global side reaches the prediction"
    )


def test_without_centroids_the_seeds_of_a_step_are_apart(trained: Outcome) -> None:
    assert fresh(trained).is_coupled
    model = fresh(trained, centroids=0)
    assert not model.is_coupled
    assert model.everyone is None


def test_the_fifth_element_knows_the_keys(trained: Outcome, inputs: ModelInput) -> None:
    """The same rows without the foreign keys between them are other tokens."""
    model = fresh(trained).eval()
    bare = replace(
        inputs.batch,
        edge_index=inputs.batch.edge_index[:, :0],
        edge_relation=inputs.batch.edge_relation[:0],
    )
    with torch.no_grad():
        linked, loose = model.encode(inputs), model.encode(ModelInput(bare, inputs.rows))
    assert not torch.allclose(linked, loose, atol=1e-3)


def test_presets_sample_as_relgt_does() -> None:
    paper = RunConfig.of("paper", kind="relgt")
    assert isinstance(paper.model, RelGTConfig)
    assert (paper.sampling.strategy, paper.sampling.budget, paper.sampling.hops) == (
        "random",
        300,
        2,
    )
    assert (paper.model.bias, paper.model.keep, paper.model.centroids, paper.model.layers) == (
        "none",
        None,
        4096,
        4,
    )
