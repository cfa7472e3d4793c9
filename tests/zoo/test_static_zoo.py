"""Models of the zoo over batches of fixed shapes: what they give over packed rows, values and
gradients, whatever fills the room; and nothing that a recorded step could not hold."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from test_zoo import PLACES, World, world
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode

from gelgt.config import SamplingConfig
from gelgt.nn import ModelInput, RelationalModel
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import Packer, StaticBatch, measure
from gelgt.nn.static.shape import Shape, choose_shapes
from gelgt.nn.sums import Segments
from gelgt.registry import BUILT_IN, find_model
from gelgt.sampling.batch import SubgraphBatch

__all__ = ["world"]  # a fixture
BUDGET = 60
STATIC = [name for name in BUILT_IN if name != "gelgt" and find_model(name).is_static]
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"keep": None}) for name in STATIC),
    *((name, {"keep": 20}) for name in STATIC if name != "hgt-pe"),
    ("rdl", {"keep": None, "aggregation": "mean"}),
    *((name, {"keep": 20, "bias": "gaussian"}) for name in ("hgt", "relgnn", "relgt", "rgp")),
    ("nodeformer", {"keep": None, "has_links": False}),
    ("relgt", {"keep": None, "centroids": 0}),
]


def room_of(world: World, model: RelationalModel, batch: SubgraphBatch, extra: int = 70) -> Shape:
    """Room for a batch and some more."""
    extras = model.extras(world.graph)
    size = measure(batch, world.graph.offsets, model.config.keep, extras)

    def more(counts: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            count + extra % 7 * place if count else 0 for place, count in enumerate(counts)
        )

    return Shape(
        batch.num_seeds + extra % 5,
        size.rows + extra,
        size.refined + extra // 2 + 1,
        size.messages + extra,
        more(size.tables),
        more(size.blocks),
        more(size.relations),
        extras,
    )


def packed(world: World, model: RelationalModel, batch: SubgraphBatch, shape: Shape) -> StaticBatch:
    packer = Packer(
        [shape], world.graph.offsets, model.config.keep, False, len(world.graph.relations), False
    )
    made = packer(batch)
    assert made is not None
    return made


def static(
    world: World, model: RelationalModel, batch: SubgraphBatch, shape: Shape | None = None
) -> torch.Tensor:
    """Predictions over a fixed shape, without those of filler seeds."""
    made = packed(world, model, batch, shape or room_of(world, model, batch))
    form = model.static_form(world.graph, SamplingConfig(budget=BUDGET), world.features, {})
    return form(StaticInput(made.shape, made.words))[: made.seeds]


def model_of(world: World, name: str, changes: dict[str, Any]) -> RelationalModel:
    dry = {"dropout": 0.0, "attention_dropout": 0.0} | changes
    return world.model(name, **{f"model__{key}": value for key, value in dry.items()})


def gradients(model: RelationalModel, out: torch.Tensor) -> dict[str, torch.Tensor]:
    target = torch.linspace(-1, 1, len(out))[:, None]
    (out - target).square().sum().backward()
    return {
        name: torch.zeros_like(p) if p.grad is None else p.grad
        for name, p in model.named_parameters()
    }


@pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=str)
def test_predictions_and_gradients_are_those_of_packed_rows(
    world: World, name: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # what it draws depends on the room; everything else is as in training
    monkeypatch.setattr("gelgt.zoo.nodeformer.gumbel_like", torch.zeros_like)
    batch = world.batch(PLACES, BUDGET)
    plain = model_of(world, name, changes).train()
    expected = plain(ModelInput.of(batch, world.features))
    slopes = gradients(plain, expected)
    assert sum(bool(slope.abs().sum() > 0) for slope in slopes.values()) > 10
    for extra in (1, 70, 333):
        fixed = model_of(world, name, changes).train()
        found = static(world, fixed, batch, room_of(world, fixed, batch, extra))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        for key, slope in gradients(fixed, found).items():
            torch.testing.assert_close(
                slope, slopes[key], atol=2e-5, rtol=2e-4, msg=lambda text, key=key: f"{key}: {text}"
            )
        for (key, own), other in zip(plain.named_buffers(), fixed.buffers()):
            torch.testing.assert_close(
                other, own, atol=1e-5, rtol=1e-5, msg=lambda text, key=key: f"{key}: {text}"
            )


def sum_by_borders(self: Segments, x: torch.Tensor) -> torch.Tensor:
    """Σ weight · x[other] from the start of each row to its end: what the kernel on CUDA reads,
    where PyTorch's `embedding_bag` reads up to the next start."""
    assert not len(self.other) or self.weight is not None
    if not len(self.other):
        return x.new_zeros(len(self.start), x.shape[1])
    summands = x.double()[self.other] * self.weight.double()[:, None]  # type: ignore[union-attr]
    before = torch.nn.functional.pad(summands.cumsum(0), (0, 0, 1, 0))
    return (before[self.end] - before[self.start]).to(x.dtype)


@pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=str)
def test_sums_end_where_they_end(
    world: World, name: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.zoo.nodeformer.gumbel_like", torch.zeros_like)
    batch = world.batch(PLACES, BUDGET)
    outcomes = []
    for is_other in (False, True):
        model = model_of(world, name, changes).train()
        if is_other:
            monkeypatch.setattr(Segments, "sum", sum_by_borders)
        found = static(world, model, batch)
        outcomes.append((found, gradients(model, found)))
    torch.testing.assert_close(*outcomes, atol=2e-5, rtol=2e-4)


Step = Callable[[torch.Tensor], object]


class NoMasks(TorchDispatchMode):
    """Refuses to write by a mask, which CUDA turns into a list of places, read on the host."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        writes = func.overloadpacket.__name__ in ("index_put", "index_put_", "_index_put_impl_")
        if writes and any(i is not None and i.dtype == torch.bool for i in args[1]):
            raise RuntimeError("a mask decides how many values are written")
        return func(*args, **(kwargs or {}))


def without_values(step: Step, given: torch.Tensor) -> None:
    """Run a step over a tensor that has a shape and no values: whatever reads one on the host, or
    takes a shape from one, raises."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, NoMasks():
        step(mode.from_tensor(given))


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x[x > 1],
        lambda x: torch.nonzero(x),
        lambda x: x.masked_select(x > 1),
        lambda x: torch.unique(x),
        lambda x: torch.bincount(x),
        lambda x: torch.repeat_interleave(x, x),
        lambda x: float(x.sum()),
        lambda x: int(x[0]),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: x if x.any() else -x,
        lambda x: torch.zeros(4, dtype=x.dtype).index_put((x > 1,), x[0]),
    ],
)
def test_a_step_that_reads_values_is_found(step: Step) -> None:
    with pytest.raises((DataDependentOutputException, DynamicOutputShapeException, RuntimeError)):
        without_values(step, torch.tensor([0, 1, 2, 1]))


@pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=str)
def test_no_step_reads_values(
    world: World, name: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CUDA graph can hold the whole of it, backward pass included."""
    monkeypatch.setattr("gelgt.zoo.nodeformer.gumbel_like", torch.zeros_like)
    model, batch = model_of(world, name, changes).train(), world.batch(PLACES, BUDGET)
    made = packed(world, model, batch, room_of(world, model, batch))
    form = model.static_form(world.graph, SamplingConfig(budget=BUDGET), world.features, {})
    parameters = [p for p in model.parameters() if p.requires_grad]

    def step(words: torch.Tensor) -> None:
        out = form(StaticInput(made.shape, words))
        slopes = torch.autograd.grad(out.sum(), parameters, allow_unused=True)
        assert sum(slope is not None for slope in slopes) > 10

    without_values(step, made.words)


def test_blocks_and_relations_without_room_are_refused(world: World) -> None:
    model, batch = model_of(world, "rdl", {"keep": None}), world.batch(PLACES, BUDGET)
    room = room_of(world, model, batch)
    size = measure(batch, world.graph.offsets, None, room.extras)
    assert sum(size.blocks) == size.rows
    assert 2 * sum(size.relations) == size.messages
    relations = len(world.graph.relations)
    for change in (
        {"blocks": tuple(max(0, n - 1) for n in size.blocks)},
        {"relations": tuple(max(0, n - 1) for n in size.relations)},
    ):
        small = replace(room, **change)
        assert Packer([small], world.graph.offsets, None, False, relations, False)(batch) is None
        packer = Packer([small, room], world.graph.offsets, None, False, relations, False)
        found = packer(batch)
        assert found is not None
        assert found.shape == room
    shapes = choose_shapes([size], len(PLACES), 10_000, [10_000] * len(size.tables), room.extras)
    assert shapes[-1].fits(size)
    assert [bool(n) for n in shapes[-1].relations] == [bool(n) for n in size.relations]


def test_refined_positions_are_not_packed(world: World) -> None:
    """They follow from the rows that refinement keeps, which no packer knows."""
    kept = model_of(world, "hgt-pe", {"keep": 20})
    free = {"features": world.features, "free": 1e12}
    assert "positions" in str(kept.why_not_static(SamplingConfig(budget=BUDGET), **free))
    assert kept.why_not_static(SamplingConfig(budget=20), **free) is None
