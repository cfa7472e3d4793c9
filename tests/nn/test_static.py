"""The model over fixed shapes gives what it gives over packed rows: values, gradients, statistics;
whatever fills the room."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from configs import plain_config

import gelgt
from coin_shop import SPLITS, VAL, coin_shop, write_sqlite
from gelgt.config import SamplingConfig
from gelgt.demo import Shop
from gelgt.features import Features
from gelgt.graph import Graph
from gelgt.nn import GelGTModel, ModelContext, ModelInput
from gelgt.nn.rows import read_nodes, row_offsets
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.ops import masked_batch_norm
from gelgt.nn.static.pack import Packer, as_read, measure
from gelgt.nn.static.shape import Shape
from gelgt.nn.static.weights import LowWeights, raised
from gelgt.sampling import Sampler, Seeds, make_seeds, task_seeds
from gelgt.sampling.batch import SubgraphBatch, from_sample

World = tuple[Graph, Features, Seeds]
BUDGET = 60
PLACES = [0, 50, 99, 3, 42, 77, 12]


@pytest.fixture(scope="module")
def world(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("static-cache")))
        db = gelgt.open(small_shop.url)
        graph = db.graph()
        return graph, db.features(), task_seeds(db.task(small_shop.sentence), graph, "val")


def sampled(world: World, places: list[int]) -> SubgraphBatch:
    graph, _, seeds = world
    chosen = seeds.take(np.array(places))
    sample = Sampler(graph, SamplingConfig(budget=BUDGET)).sample(
        chosen.node, chosen.time, chosen.key
    )
    return from_sample(sample, graph, chosen.time, chosen.key, np.array(places))


def model_of(world: World, **changes: Any) -> GelGTModel:
    torch.manual_seed(0)
    values = {
        "width": 32,
        "layers": 2,
        "keep": 30,
        "row_width": 16,
        "dropout": 0.0,
        "gnn_dropout": 0.0,
    }
    model = GelGTModel(plain_config(**(values | changes)), ModelContext(world[0], world[1]))
    model.start_times(torch.tensor([1.0, 5.0, 30.0, 100.0]))
    return model


def room_of(
    world: World, batch: SubgraphBatch, keep: int | None, seeds: int = 0, extra: int = 70
) -> Shape:
    """Room for a batch and some more."""
    size = measure(batch, world[0].offsets, keep)
    tables = tuple(count + 5 * number if count else 0 for number, count in enumerate(size.tables))
    return Shape(
        seeds or batch.num_seeds,
        size.rows + extra,
        size.refined + extra // 2 + 1,
        size.messages + extra,
        tables,
    )


def static(
    world: World, model: GelGTModel, batch: SubgraphBatch, shape: Shape | None = None
) -> torch.Tensor:
    """Predictions over a fixed shape, without those of filler seeds."""
    config = model.config
    shape = shape or room_of(world, batch, config.keep)
    packer = Packer(
        [shape],
        world[0].offsets,
        config.keep,
        config.gnn_mean == "relation",
        len(world[0].relations),
        pin_memory=False,
    )
    packed = packer(batch)
    assert packed is not None
    form = model.static_form(world[0], SamplingConfig(budget=BUDGET), world[1], {})
    words = packed.words.to(next(model.parameters()).device)
    return form(StaticInput(packed.shape, words))[: packed.seeds]


VARIANTS: list[dict[str, Any]] = [
    {},
    {"keep": None},
    {"keep": 100},
    {"norm": "batch", "centroids": 16, "row_layers": 3},
    {"norm": "batch", "wiring": "stacked", "keep": 12, "gnn_mean": "relation"},
    {"wiring": "stacked", "keep": None},
    {
        "gnn_mean": "relation",
        "encoders": ("table", "hop", "age", "row", "recency"),
    },
    {"backend": "reference", "bias": "linear-decay"},
    {"bias": "none", "encoders": ("structure",)},
    {"gnn_layers": 0},
    {"layers": 0},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_predictions_and_gradients_are_those_of_packed_rows(
    world: World, changes: dict[str, Any]
) -> None:
    batch = sampled(world, PLACES)
    packed, fixed = model_of(world, **changes), model_of(world, **changes)
    expected, found = packed(ModelInput.of(batch, world[1])), static(world, fixed, batch)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    target = torch.linspace(-1, 1, len(PLACES))[:, None]
    (expected - target).square().sum().backward()
    (found - target).square().sum().backward()
    for (name, own), other in zip(packed.named_parameters(), fixed.parameters()):
        given = torch.zeros_like(own) if own.grad is None else own.grad
        taken = torch.zeros_like(own) if other.grad is None else other.grad
        torch.testing.assert_close(
            taken, given, atol=2e-5, rtol=2e-4, msg=lambda text, name=name: f"{name}: {text}"
        )
    for (name, own), other in zip(packed.named_buffers(), fixed.buffers()):
        torch.testing.assert_close(
            other, own, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("changes", [{}, {"norm": "batch", "centroids": 8}], ids=str)
def test_room_and_partners_change_nothing(world: World, changes: dict[str, Any]) -> None:
    model = model_of(world, **changes).eval()
    with torch.no_grad():
        model.encoders["row"].tables[0].backbone[0].norm1.weight.mul_(1.5)
        together = static(world, model, sampled(world, PLACES))
        for number, place in enumerate(PLACES[:3]):
            batch = sampled(world, [place])
            for seeds, extra in ((1, 1), (9, 200)):
                found = static(world, model, batch, room_of(world, batch, 30, seeds, extra))
                torch.testing.assert_close(found[0], together[number], atol=1e-5, rtol=0)


def test_an_input_reads_what_its_buffer_holds_now(world: World) -> None:
    """A recorded graph is replayed over one buffer: nothing of the batch that it was recorded with
    may stay."""
    model = model_of(world).eval()
    first, second = (sampled(world, places) for places in (PLACES[:3], PLACES[3:6]))
    rooms = [room_of(world, batch, 30) for batch in (first, second)]
    shape = Shape(
        3,
        *(max(getattr(room, name) for room in rooms) for name in ("rows", "refined", "messages")),
        tuple(max(counts) for counts in zip(*(room.tables for room in rooms))),
    )
    packer = Packer([shape], world[0].offsets, 30, False, len(world[0].relations), False)
    form = model.static_form(world[0], SamplingConfig(budget=BUDGET), world[1], {})
    packed = [packer(batch) for batch in (first, second)]
    assert packed[0] is not None
    assert packed[1] is not None
    buffer = packed[0].words.clone()
    reused = StaticInput(shape, buffer)
    with torch.no_grad():
        form(reused)
        buffer.copy_(packed[1].words)
        expected = form(StaticInput(shape, packed[1].words))
        torch.testing.assert_close(form(reused), expected, atol=0, rtol=0)
        held = (value for value in vars(reused).values() if isinstance(value, torch.Tensor))
        assert all(
            value.untyped_storage().data_ptr() == buffer.untyped_storage().data_ptr()
            for value in held
        )


def test_training_with_filler_seeds_is_training_without(world: World) -> None:
    """Statistics of batches and centroids count real rows and seeds only."""
    batch = sampled(world, PLACES)
    models = [model_of(world, norm="batch", centroids=16) for _ in range(2)]
    outs = [
        static(world, model, batch, room_of(world, batch, 30, seeds))
        for model, seeds in zip(models, (len(PLACES), 16))
    ]
    torch.testing.assert_close(outs[1], outs[0], atol=1e-5, rtol=1e-5)
    for own, other in zip(*(model.buffers() for model in models)):
        torch.testing.assert_close(other, own, atol=1e-5, rtol=1e-5)


def test_two_runs_give_the_same_bits(world: World) -> None:
    batch, model = sampled(world, PLACES), model_of(world)
    assert torch.equal(static(world, model, batch), static(world, model, batch))


def test_masked_batch_norm_is_batch_norm_of_the_real_rows() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 9, 4, dtype=torch.float64, requires_grad=True)
    counts = [9, 5]
    weight, bias = torch.rand(2, 4), torch.rand(2, 4)
    out, (mean, variance) = masked_batch_norm(
        x.float(), torch.tensor(counts), weight, bias, (weight, bias), True, 1e-5
    )
    for number, count in enumerate(counts):
        norm = torch.nn.BatchNorm1d(4, momentum=1.0)
        with torch.no_grad():
            norm.weight.copy_(weight[number])
            norm.bias.copy_(bias[number])
        torch.testing.assert_close(
            out[number, :count], norm(x[number, :count].float()), atol=1e-5, rtol=1e-5
        )
        torch.testing.assert_close(mean[number], norm.running_mean, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(variance[number], norm.running_var, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "sampling", "reason"),
    [
        ({}, {"strategy": "full"}, "budget"),
        ({}, {"budget": 100_000}, "larger"),
        ({}, {}, None),
    ],
)
def test_what_has_no_fixed_shape_says_why(
    world: World, changes: dict[str, Any], sampling: dict[str, Any], reason: str | None
) -> None:
    model = model_of(world, **changes)
    found = model.why_not_static(SamplingConfig(**sampling), world[1], 1e12)
    assert (found is None) if reason is None else (found is not None and reason in found)
    assert "GiB" in str(model.why_not_static(SamplingConfig(), world[1], 10.0))


@pytest.mark.parametrize("changes", [{}, {"norm": "batch", "centroids": 16}], ids=str)
def test_weights_converted_at_once_are_those_of_autocast(
    world: World, changes: dict[str, Any]
) -> None:
    batch = sampled(world, PLACES)
    outs, gradients = [], []
    for dtype in (None, torch.bfloat16):
        model = model_of(world, **changes)
        weights = LowWeights(model, dtype)
        with torch.autocast("cpu", torch.bfloat16), weights.used():
            assert all(p.dtype == torch.float32 for p in weights.originals)
            out = static(world, model, batch)
        parameters = list(model.parameters())
        outs.append(out)
        gradients.append(
            raised(
                list(torch.autograd.grad(out.float().sum(), weights.leaves, allow_unused=True)),
                parameters,
            )
        )
        assert all(
            g is None or (g.dtype == p.dtype and g.is_contiguous())
            for g, p in zip(gradients[-1], parameters)
        )
        assert all(own is p for own, p in zip(parameters, model.parameters()))
    torch.testing.assert_close(outs[1], outs[0], atol=0, rtol=0)
    for name, own, other in zip(dict(model.named_parameters()), *gradients):
        assert (own is None) == (other is None), name
        if own is not None and other is not None:
            torch.testing.assert_close(
                other, own, atol=1e-2, rtol=1e-1, msg=lambda text, name=name: f"{name}: {text}"
            )


def test_one_row_of_a_table_can_be_trained_on(world: World) -> None:
    """A batch norm over a single row is its bias, and its running statistics stay."""
    batch = sampled(world, [0])
    size = measure(batch, world[0].offsets, 30)
    assert 1 in size.tables
    packed, fixed = model_of(world, norm="batch"), model_of(world, norm="batch")
    expected, found = packed(ModelInput.of(batch, world[1])), static(world, fixed, batch)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    for (name, own), other in zip(packed.named_buffers(), fixed.buffers()):
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(
                other, own, atol=1e-5, rtol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
            )


def test_rows_are_those_that_seeds_know(tmp_path: Path) -> None:
    """Rows whose dates lie ahead are versions of themselves, in other numbers than those of
    nodes."""
    url = write_sqlite(coin_shop(200, 1_200), tmp_path / "shop.db")
    db = gelgt.open(url, schema=SPLITS, out=tmp_path / "db")
    graph, features = db.graph(), db.features()
    rows, days = np.tile(np.arange(30), 3), np.repeat([0, 30, 60], 30)
    times = np.datetime64(VAL, "s") - days.astype("timedelta64[D]")
    seeds = make_seeds(db, graph, "customers", rows, times)
    dated: World = graph, features, seeds
    batch = sampled(dated, list(range(len(rows))))
    read, node = read_nodes(batch, features), batch.node.numpy()
    offsets = row_offsets(graph, features)
    versions = read - offsets[batch.table.numpy()] != node - graph.offsets[batch.table.numpy()]
    assert versions.sum() > 5
    # a row is read in several ways
    assert len(np.unique(read)) > len(np.unique(node))
    model = model_of(dated).eval()
    with torch.no_grad():
        expected = model(ModelInput.of(batch, features))
        size = measure(as_read(batch, features), offsets, model.config.keep)
        room = Shape(len(rows), size.rows + 9, size.refined + 9, size.messages, size.tables)
        arguments = (offsets, model.config.keep, False, len(graph.relations), False)
        packed = Packer([room], *arguments, features)(batch)
        assert packed is not None
        form = model.static_form(graph, SamplingConfig(budget=BUDGET), features, {})
        found = form(StaticInput(packed.shape, packed.words))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        late = torch.full_like(batch.limit, 2**40)
        seeing = type(batch)(**(vars(batch) | {"limit": late}))
        assert not torch.allclose(model(ModelInput.of(seeing, features)), expected)
