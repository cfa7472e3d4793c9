"""Packing: batches find room or are refused, and messages are averaged over their runs."""

from dataclasses import replace

import numpy as np
import torch
from test_static import PLACES, World, room_of, sampled, world

from gelgt.nn.static.layout import run_means
from gelgt.nn.static.pack import Packer, measure
from gelgt.nn.static.shape import LEVELS, Size, choose_shapes
from gelgt.nn.sums import Messages, Segments

__all__ = ["world"]  # a fixture


def test_a_batch_without_room_is_refused(world: World) -> None:
    batch = sampled(world, PLACES)
    room = room_of(world, batch, 30)
    size = measure(batch, world[0].offsets, 30)
    few = tuple(max(0, count - 1) for count in size.tables)
    for shape in (
        replace(room, rows=size.rows),  # there must be a filler row
        replace(room, refined=size.refined),
        replace(room, messages=size.messages - 1),
        replace(room, seeds=len(PLACES) - 1),
        replace(room, tables=few),
    ):
        packer = Packer(
            [shape], world[0].offsets, 30, False, len(world[0].relations), pin_memory=False
        )
        assert packer(batch) is None
        assert (
            Packer([shape, room], world[0].offsets, 30, False, len(world[0].relations), False)(
                batch
            )
            is not None
        )


def test_shapes_have_room_for_what_was_seen() -> None:
    seen = [
        Size(1000, 800, 3000, (10, 400, 0)),
        Size(700, 600, 1500, (10, 350, 0)),
        Size(1200, 900, 3300, (12, 450, 0)),
    ]
    shapes = choose_shapes(seen, 64, 64 * 300, [12, 10_000, 50])
    assert [s.rows for s in shapes] == sorted(s.rows for s in shapes)
    assert all(any(shape.fits(size) for shape in shapes) for size in seen)
    assert all(shape.tables[2] == 0 and shape.tables[0] <= 32 for shape in shapes)
    assert shapes[0].rows < 1000 < shapes[-1].rows
    rich = replace(seen[2], messages=7000)
    assert not any(shape.fits(rich) for shape in shapes[:-1])
    assert shapes[-1].fits(rich), "one shape has room to spare"


def test_few_shapes_leave_little_room_empty() -> None:
    """Of batches whose rows vary as those of shuffled seeds do: each finds room among shapes that
    were chosen from some of the others, in the first epoch in the largest alone."""
    draws = np.random.default_rng(0).normal(8000, 480, 400)
    sizes = [Size(int(n), int(0.8 * n), int(3.1 * n), (12, int(0.2 * n), 0)) for n in draws]
    shapes = choose_shapes(sizes[:32], 128, 128 * 300, [12, 10_000, 50])
    assert len(shapes) == LEVELS + 1
    packer = Packer(shapes, np.zeros(4, np.int64), None, False, 1, pin_memory=False)
    empty = {}
    for every in (LEVELS, 2, 1):
        packer.every = every
        used = [next(s for s in packer.in_use if s.fits(size)) for size in sizes]
        empty[every] = sum(s.rows for s in used) / sum(s.rows for s in sizes) - 1
        assert len(set(used) - {shapes[-1]}) <= -(-LEVELS // every)
        assert used.count(shapes[-1]) <= 2
    assert packer.in_use == shapes
    assert empty[1] < 0.04
    assert empty[1] < empty[2] < 0.07
    assert empty[2] < empty[LEVELS] < 0.3


def test_the_first_shapes_are_the_largest(world: World) -> None:
    """A batch is packed into the smallest shape among those that are in use."""
    batch = sampled(world, PLACES)
    room = room_of(world, batch, 30)
    shapes = [replace(room, rows=room.rows + 64 * number) for number in range(4)]
    packer = Packer(shapes, world[0].offsets, 30, False, len(world[0].relations), False)
    for every, expected in ((LEVELS, 2), (2, 0), (1, 0)):
        packer.every = every
        packed = packer(batch)
        assert packed is not None
        assert packed.shape == shapes[expected]
    packer.shapes = shapes[-1:]
    packed = packer(batch)
    assert packed is not None
    assert packed.shape == shapes[-1]


def test_means_over_runs() -> None:
    """Row 0 has a run of two and a run of one; a message that is left out does not count."""
    start, end = torch.tensor([0, 0, 2, 3]), torch.tensor([2, 2, 3, 4])
    received, sent = run_means(
        torch.tensor([True, True, False, True]), start, end, torch.tensor([3, 2, 1, 0])
    )
    assert received.tolist() == [0.5, 0.5, 0.0, 1.0]
    assert sent.tolist() == [1.0, 0.0, 0.5, 0.5]
    other, rows = torch.tensor([1, 0, 1, 0]), (torch.tensor([0, 3]), torch.tensor([3, 4]))
    messages = Messages(Segments(other, *rows, received), Segments(other, *rows, sent))
    assert messages.total(torch.tensor([[2.0], [4.0]])).tolist() == [[3.0], [2.0]]
