"""The whole model: predictions depend on the seed alone, every component can be switched off, the
paper's table is the preset."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from configs import plain_config

import gelgt
from gelgt.config import ENCODERS, GelGTConfig, SamplingConfig
from gelgt.demo import Shop
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn import GelGTModel, ModelContext, ModelInput
from gelgt.nn.base import duration
from gelgt.nn.bias import TemporalBias
from gelgt.presets import RunConfig
from gelgt.sampling import Sampler, Seeds, task_seeds
from gelgt.sampling.batch import SubgraphBatch, from_sample

World = tuple[gelgt.Database, Graph, Features, Seeds]


@pytest.fixture(scope="module")
def world(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("model-cache")))
        db = gelgt.open(small_shop.url)
        graph, features = db.graph(), db.features()
        return db, graph, features, task_seeds(db.task(small_shop.sentence), graph, "val")


def sampled(world: World, places: list[int], budget: int = 60) -> SubgraphBatch:
    _, graph, _, seeds = world
    chosen = seeds.take(np.array(places))
    sample = Sampler(graph, SamplingConfig(budget=budget)).sample(
        chosen.node, chosen.time, chosen.key
    )
    return from_sample(sample, graph, chosen.time, chosen.key, np.array(places))


def model_of(world: World, **changes: Any) -> GelGTModel:
    torch.manual_seed(0)
    values = {"width": 32, "layers": 2, "keep": 30, "structure_width": 64, "row_width": 16}
    model = GelGTModel(plain_config(**(values | changes)), ModelContext(world[1], world[2]))
    model.start_times(torch.tensor([1.0, 5.0, 30.0, 100.0]))
    return model.eval()


@torch.no_grad()
def predict(model: GelGTModel, world: World, batch: SubgraphBatch) -> torch.Tensor:
    out: torch.Tensor = model(ModelInput.of(batch, world[2]))
    return out


PLACES = [0, 50, 99, 3, 42, 77]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "batch", "centroids": 16},
        {"backend": "reference"},
    ],
)
def test_a_prediction_depends_on_its_seed_alone(world: World, changes: dict[str, Any]) -> None:
    model = model_of(world, **changes)
    together = predict(model, world, sampled(world, PLACES))
    assert together.std() > 1e-4, "the seeds differ, so their predictions do"
    for number, place in enumerate(PLACES):
        torch.testing.assert_close(
            predict(model, world, sampled(world, [place]))[0], together[number], atol=1e-5, rtol=0
        )
    reordered = predict(model, world, sampled(world, PLACES[::-1]))
    torch.testing.assert_close(reordered.flip(0), together, atol=1e-5, rtol=0)


def test_layout_and_padding_change_nothing(world: World) -> None:
    model, packed = model_of(world), sampled(world, PLACES)
    expected = predict(model, world, packed)
    for multiple in (1, 16, 256):
        torch.testing.assert_close(
            predict(model, world, packed.to_padded(multiple)), expected, atol=1e-5, rtol=0
        )


def test_wider_padding_inside_attention_changes_nothing(world: World) -> None:
    """A partner with a long neighbourhood pads all the others."""
    model = model_of(world, keep=None)
    lengths = [int(sampled(world, [p], 300).lengths[0]) for p in range(100)]
    short, long = int(np.argmin(lengths)), int(np.argmax(lengths))
    assert lengths[short] < lengths[long]
    alone = predict(model, world, sampled(world, [short], 300))
    torch.testing.assert_close(
        predict(model, world, sampled(world, [short, long], 300))[0], alone[0], atol=1e-5, rtol=0
    )


def test_evaluation_twice_gives_the_same_bits(world: World) -> None:
    model, batch = model_of(world, centroids=8), sampled(world, PLACES)
    assert torch.equal(predict(model, world, batch), predict(model, world, batch))


def test_noise_follows_the_seed_not_the_row_numbers(world: World) -> None:
    first, second = model_of(world), model_of(world)
    second.noise_seed = 1
    batch = sampled(world, PLACES)
    assert not torch.equal(predict(first, world, batch), predict(second, world, batch))


@pytest.mark.parametrize(
    "changes",
    [
        {"bias": "none"},
        {"bias": "linear-decay"},
        {"bias": "time-bins"},
        {"keep": None},
        {"gnn_layers": 0},
        {"layers": 0},
        {"time_scale": "log"},
        {"kernel": "published"},
        {"kernels": 2},
        {"centroids": 8},
        *({"encoders": tuple(e for e in ENCODERS if e != gone)} for gone in ENCODERS),
    ],
    ids=str,
)
def test_every_component_can_be_switched_off_or_replaced(
    world: World, changes: dict[str, Any]
) -> None:
    model, batch = model_of(world, **changes).train(), sampled(world, PLACES)
    out = model(ModelInput.of(batch, world[2]))
    assert out.shape == (6, 1)
    out.square().mean().backward()
    missing = [
        name
        for name, p in model.named_parameters()
        if p.requires_grad and p.grad is None and "tables" not in name
    ]
    assert missing == [], "every parameter is used"
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_rows_are_encoded_once(world: World) -> None:
    inputs = ModelInput.of(sampled(world, [5, 5, 6]), world[2])
    assert inputs.rows.num_rows == len(torch.unique(inputs.batch.node))
    assert inputs.rows.num_rows < len(inputs.batch.node)


def test_hidden_columns_change_nothing_once_hidden(world: World, small_shop: Shop) -> None:
    _, graph, features, _ = world
    torch.manual_seed(0)
    hide = {"products": ["quality"]}
    context = ModelContext(graph, features, hide=hide)
    model = GelGTModel(plain_config(width=32, keep=30), context).eval()
    inputs = ModelInput.of(sampled(world, PLACES), features, hide)
    names = [
        c for columns in inputs.rows.frames["products"].col_names_dict.values() for c in columns
    ]
    assert "quality" not in names
    assert model(inputs).shape == (6, 1)


def test_temporal_profile_reads_as_durations(world: World) -> None:
    model = model_of(world)
    model.biases[0].start(
        torch.tensor([31.0, 0.2, 900.0, 5.0]), torch.tensor([4.0, 0.1, 400.0, 1.0])
    )  # type: ignore[operator]
    texts = [kernel["text"] for kernel in model.temporal_profile()[0]]
    assert texts == [
        "centre 31 days, width 4.0 days",
        "centre 4.8 hours, width 2.4 hours",
        "centre 2.5 years, width 400 days",
        "centre 5.0 days, width 1.0 days",
    ]
    assert duration(10) == "10 days"


def test_time_parameters_have_a_rate_of_their_own(world: World) -> None:
    model = model_of(world, time_rate=20.0)
    others, times = model.parameter_groups(1e-3, weight_decay=1e-2)
    assert times["lr"] == pytest.approx(2e-2)
    assert times["weight_decay"] == 0
    assert sum(p.numel() for p in times["params"]) == 2 * model.config.num_kernels
    counted = sum(p.numel() for group in (others, times) for p in group["params"])
    assert counted == sum(p.numel() for p in model.parameters())
    assert len(model_of(world, bias="none").parameter_groups(1e-3)) == 1


class Recency(TemporalBias):
    """A bias that is no Gaussian, with one learned duration."""

    def __init__(self) -> None:
        super().__init__(heads=4)
        self.days = torch.nn.Parameter(torch.ones(()))

    def start_from(self, ages: torch.Tensor) -> None:
        self.days.data.copy_(ages.median())

    def time_parameters(self) -> list[torch.nn.Parameter]:
        return [self.days]

    def profile(self) -> list[dict[str, float | list[float]]]:
        return [{"centre_days": 0.0, "width_days": self.days.item(), "weights": [1.0] * 4}]


def test_any_bias_may_have_times_of_its_own(world: World) -> None:
    model = model_of(world)
    model.biases = torch.nn.ModuleList([Recency()])
    model.start_times(torch.tensor([1.0, 5.0, 30.0]))
    _, times = model.parameter_groups(1e-3)
    assert [p.item() for p in times["params"]] == [5.0]
    assert model.temporal_profile()[0][0]["text"] == "centre 0.0 hours, width 5.0 days"


def test_bf16_autocast(world: World) -> None:
    model, batch = model_of(world, norm="layer"), sampled(world, PLACES)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = predict(model, world, batch)
    torch.testing.assert_close(low.float(), predict(model, world, batch), atol=0.05, rtol=0.05)


def test_backend_is_chosen_with_its_reason(world: World) -> None:
    assert model_of(world).backend == "sdpa"
    assert "fused" in model_of(world).backend_reason
    assert model_of(world, backend="reference").backend_reason == "named by the configuration"


def test_configs_that_cannot_be() -> None:
    for changes, words in (
        ({"width": 30}, "heads"),
        ({"encoders": ()}, "encoders"),
        ({"layers": 0, "gnn_layers": 0}, "branch"),
        ({"bais": 1}, "bais"),
    ):
        with pytest.raises(gelgt.GelgtError, match=words):
            plain_config(**changes)  # type: ignore[arg-type]


def test_paper_preset_is_the_papers_table() -> None:
    paper = RunConfig.of("paper").model
    assert isinstance(paper, GelGTConfig)
    assert (paper.width, paper.layers, paper.gnn_layers, paper.heads) == (512, 4, 3, 4)
    assert (paper.structure_width, paper.centroids) == (128, 4096)
    assert (paper.dropout, paper.gnn_dropout, paper.keep) == (0.3, 0.1, 200)
    assert paper.time_rate == 1.0, "one learning rate"
    assert paper.norm == "batch"
    assert (paper.bias, paper.kernel, paper.num_kernels) == ("gaussian", "published", 4)
    assert paper.encoders == ENCODERS
    assert RunConfig.of("paper", "regression").model.keep == 300


def test_paper_preset_on_rel_f1(relbench_data: Callable[[str], Path]) -> None:
    """Forward and backward at d = 512, K = 300 → 200, batch 8 within 4 GiB, in a process of its
    own; parameters counted."""
    script = f"""
import resource, torch
import gelgt
from gelgt.nn import GelGTModel, ModelContext, ModelInput
from gelgt.presets import RunConfig
from gelgt.sampling import Sampler, SamplingConfig, task_seeds
from gelgt.sampling.loader import SubgraphLoader
db = gelgt.open({str(relbench_data("rel-f1"))!r})
graph, features = db.graph(), db.features()
seeds = task_seeds(db.task("driver-dnf"), graph, "test")
batch = next(iter(SubgraphLoader(Sampler(graph, SamplingConfig(budget=300)), seeds, 8)))
model = GelGTModel(RunConfig.of("paper").model, ModelContext(graph, features))
out = model(ModelInput.of(batch, features))
out.sum().backward()
assert torch.isfinite(out).all()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(sum(p.numel() for p in model.parameters()), peak)
"""
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    parameters, peak = map(int, out.split())
    assert 14e6 < parameters < 20e6, "the authors' code has 19.65 million on rel-f1"
    assert peak < 4 << 20, "KiB"
