"""The model on a CUDA device: the same predictions as on the CPU, bf16, compiled blocks, and a loss
that falls."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from configs import plain_config

import gelgt
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn import GelGTModel, ModelContext, ModelInput
from gelgt.sampling import Sampler, SamplingConfig, Seeds, task_seeds
from gelgt.sampling.batch import SubgraphBatch
from gelgt.sampling.loader import SubgraphLoader

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
World = tuple[Graph, Features, Seeds, np.ndarray]


@pytest.fixture
def world(relbench_data: Callable[[str], Path]) -> World:
    db = gelgt.open(relbench_data("rel-f1"))
    task = db.task("driver-dnf")
    graph = db.graph()
    return (
        graph,
        db.features(),
        task_seeds(task, graph, "train"),
        task.table("train").column(task.target_col).to_numpy(),
    )


def loader_of(world: World, size: int = 32) -> SubgraphLoader:
    return SubgraphLoader(
        Sampler(world[0], SamplingConfig()),
        world[2],
        size,
        generator=np.random.default_rng(0),
        then=SubgraphBatch.pin_memory,
    )


def model_of(world: World, **changes: object) -> GelGTModel:
    torch.manual_seed(0)
    return GelGTModel(plain_config(**changes), ModelContext(world[0], world[1]))


def test_same_predictions_as_on_the_cpu(world: World) -> None:
    model = model_of(world).eval()
    inputs = ModelInput.of(next(iter(loader_of(world))), world[1])
    with torch.no_grad():
        expected = model(inputs)
        torch.backends.cuda.matmul.allow_tf32 = False
        found = model.cuda()(inputs.to("cuda", non_blocking=True))
    torch.testing.assert_close(found.cpu(), expected, atol=1e-3, rtol=1e-3)
    with torch.no_grad():
        assert torch.equal(found, model(inputs.to("cuda")))


def test_bf16_is_close(world: World) -> None:
    model = model_of(world).eval().cuda()
    inputs = ModelInput.of(next(iter(loader_of(world))), world[1]).to("cuda")
    with torch.no_grad():
        expected = model(inputs)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            found = model(inputs)
    torch.testing.assert_close(found.float(), expected, atol=0.05, rtol=0.05)


def test_compiled_blocks_agree(world: World) -> None:
    model = model_of(world).eval().cuda()
    inputs = ModelInput.of(next(iter(loader_of(world))), world[1]).to("cuda")
    with torch.no_grad():
        expected = model(inputs)
        for number, block in enumerate(model.blocks):
            model.blocks[number] = torch.compile(block, fullgraph=True)
        torch.testing.assert_close(model(inputs), expected, atol=1e-3, rtol=1e-3)


def test_the_loss_falls(world: World) -> None:
    model = model_of(world, width=128).cuda()
    labels = torch.from_numpy(world[3].astype(np.float32)).cuda()
    optimiser = torch.optim.Adam(model.parameter_groups(1e-3))
    losses = []
    for batch in loader_of(world, 128):
        inputs = ModelInput.of(batch, world[1]).to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            out = model(inputs).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(
            out.float(), labels[inputs.batch.index]
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss))
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    assert all(torch.isfinite(p).all() for p in model.parameters())
