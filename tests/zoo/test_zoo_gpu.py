"""Every model on a CUDA device: the predictions of the CPU, the same bits twice in both directions,
bf16."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from test_zoo import NAMES, settings

import gelgt
from gelgt.config import SamplingConfig
from gelgt.nn import ModelContext, ModelInput, RelationalModel
from gelgt.registry import find_model
from gelgt.sampling import Sampler, task_seeds
from gelgt.sampling.batch import from_sample

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
Made = tuple[RelationalModel, ModelInput]


@pytest.fixture(params=NAMES)
def made(request: pytest.FixtureRequest, relbench_data: Callable[[str], Path]) -> Made:
    """A small model on the CPU and a batch of 32 drivers."""
    db = gelgt.open(relbench_data("rel-f1"))
    graph, features = db.graph(), db.features()
    places = np.arange(0, 640, 20)
    seeds = task_seeds(db.task("driver-dnf"), graph, "test").take(places)
    sample = Sampler(graph, SamplingConfig(budget=100)).sample(seeds.node, seeds.time, seeds.key)
    torch.manual_seed(0)
    model = find_model(request.param)(
        settings(request.param, model__dropout=0.0, model__attention_dropout=0.0).model,
        ModelContext(graph, features),
    )
    return model.eval(), ModelInput.of(
        from_sample(sample, graph, seeds.time, seeds.key, places), features
    )


def test_predictions_are_those_of_the_cpu(made: Made) -> None:
    model, inputs = made
    with torch.no_grad():
        expected = model(inputs)
        there, model = inputs.to("cuda"), model.cuda()
        found = model(there)
        assert torch.equal(found, model(there))
        with torch.autocast("cuda", torch.bfloat16):
            low = model(there)
    assert expected.std() > 1e-4
    torch.testing.assert_close(found.cpu(), expected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(low.float().cpu(), expected, atol=0.1, rtol=0.1)


@pytest.mark.parametrize(
    "made",
    [
        "rdl",
        "hgt",
        "hgt-pe",
        "griffin",
        "relgnn",
        "nodeformer",
        pytest.param("rel-llm", marks=pytest.mark.llm),
    ],
    indirect=True,
)
def test_gradients_have_the_same_bits_twice(made: Made) -> None:
    """Not so where attention over all rows is a fused kernel, whose backward pass adds in any
    order."""
    model, inputs = made[0].cuda().train(), made[1].to("cuda")
    seen = []
    for _ in range(2):
        torch.manual_seed(1)
        model.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            out = model(inputs)
        out.float().square().mean().backward()
        seen.append(
            {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        )
    assert all(torch.isfinite(gradient).all() for gradient in seen[0].values())
    assert [name for name in seen[0] if not torch.equal(seen[0][name], seen[1][name])] == []
