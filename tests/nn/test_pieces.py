"""How the columns network reads numbers: the loops of a CPU beside PyTorch's own operations."""

import numpy as np
import pytest
import torch
from torch import Tensor

from gelgt.nn.history import QUANTILES, normal_places, quantiles
from gelgt.nn.pieces import PIECES, PieceWeights, looped_numbers, piece_numbers, plain_numbers

WIDTH = 3
COUNT = 5_000


@pytest.mark.parametrize("rows", [1, 2, 3, 127, 128, 129, 5_000])
def test_quantiles_are_those_of_numpy(rows: int) -> None:
    """Of whole numbers, far values and small sets too, and of what is finite alone."""
    values = torch.randn(rows, 5, generator=torch.Generator().manual_seed(0))
    values[:, 1] = (values[:, 1] * 2).round()
    values[:, 2] *= 1e30
    values[::2, 3] = torch.nan
    values[1::2, 3] = torch.inf
    values[: rows // 2, 4] = -torch.inf
    expected = np.full((5, QUANTILES), np.nan, np.float32)
    for edges, column in zip(expected, values.T.double().numpy(), strict=True):
        if len(finite := column[np.isfinite(column)]):
            edges[:] = np.quantile(finite, np.linspace(0, 1, QUANTILES))
    np.testing.assert_array_equal(quantiles(values).numpy(), expected)


def columns() -> Tensor:
    """Training values: numbers, counts with many alike, one value alone, few values, none."""
    generator = torch.Generator().manual_seed(3)
    normal = torch.randn(COUNT, generator=generator)
    counts = torch.poisson(torch.full((COUNT,), 1.5), generator=generator)
    alike, absent = torch.full((COUNT,), 7.0), torch.full((COUNT,), torch.nan)
    few = torch.where(normal > 1.0, 1e6, torch.where(normal > 0, -2.0, torch.nan))
    return torch.stack([normal, counts, alike, few, absent, normal.exp() * 1e-9], 1)


def asked(edges: Tensor) -> Tensor:
    """Values within, on and beyond the quantiles, and missing ones."""
    generator = torch.Generator().manual_seed(4)
    some = columns()[torch.randint(COUNT, (300,), generator=generator)]
    beyond = torch.tensor([[-1e30], [1e30], [torch.nan], [0.0], [torch.inf], [-torch.inf]])
    return torch.cat([some, edges.T, edges.T + 1e-3, beyond.expand(-1, edges.shape[0])])


@pytest.fixture(scope="module")
def edges() -> Tensor:
    return quantiles(columns()).nan_to_num()


def weights(columns: int) -> PieceWeights:
    generator = torch.Generator().manual_seed(5)
    shapes = (columns, PIECES, WIDTH), *[(columns, WIDTH)] * 3
    drawn = (torch.randn(shape, generator=generator) for shape in shapes)
    return PieceWeights(*(each.requires_grad_() for each in drawn))


@pytest.mark.parametrize("has_dropout", [False, True])
def test_loops_give_what_the_formula_gives(edges: Tensor, has_dropout: bool) -> None:
    values = asked(edges)
    kept = torch.rand(values.shape) * 2 if has_dropout else None
    learned = weights(len(edges))
    slope = torch.randn(*values.shape, WIDTH)
    results = []
    for compute in (looped_numbers, plain_numbers):
        numbers = compute(values, edges, learned, kept)
        results.append((numbers, *torch.autograd.grad(numbers, learned, slope)))
    for looped, plain in zip(*results, strict=True):
        # Sums over 560 rows of both signs, in another order.
        torch.testing.assert_close(looped, plain, rtol=1e-4, atol=2e-3)
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-5, atol=2e-5)


def test_gradients_are_those_of_finite_differences(edges: Tensor) -> None:
    """In float32 as far as it goes: a step along the slope changes the loss by its square."""
    values, learned = asked(edges), weights(len(edges))
    slope = torch.randn(*values.shape, WIDTH)
    gradients = torch.autograd.grad(looped_numbers(values, edges, learned, None), learned, slope)
    for place, gradient in enumerate(gradients):
        direction = torch.randn_like(gradient)
        ends = []
        for sign in (1, -1):
            moved = list(learned)
            moved[place] = learned[place] + sign * direction
            numbers = looped_numbers(values, edges, PieceWeights(*moved), None)
            ends.append((numbers.double() * slope).sum())
        # The numbers are linear in what is learned, so that the step may be large.
        torch.testing.assert_close(
            (ends[0] - ends[1]) / 2, (gradient.double() * direction).sum(), rtol=1e-4, atol=1e-2
        )


def test_other_columns_are_refused(edges: Tensor) -> None:
    values, learned = asked(edges), weights(len(edges))
    for wrong in (values[:, 1:], values.repeat(1, 1000)):
        with pytest.raises(RuntimeError, match="columns"):
            piece_numbers(wrong, edges, learned)


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(edges: Tensor, rows: int) -> None:
    assert piece_numbers(asked(edges)[:rows], edges, weights(len(edges))).shape == (rows, 6, WIDTH)


def test_a_row_reads_alike_beside_any_others(edges: Tensor) -> None:
    values, learned = asked(edges), weights(len(edges))
    together = piece_numbers(values, edges, learned)
    alone = torch.cat([piece_numbers(row[None], edges, learned) for row in values])
    assert torch.equal(together, alone)


def test_the_place_of_a_value(edges: Tensor) -> None:
    """With the weights of the scaled place alone, the numbers are that place."""
    values = asked(edges)
    nothing = [torch.zeros_like(weight) for weight in weights(len(edges))]
    only = PieceWeights(*nothing)._replace(scaled=torch.ones(len(edges), WIDTH))
    there = torch.isfinite(values)
    expected = torch.where(there, normal_places(values, edges), 0.0)
    numbers = piece_numbers(values, edges, only)[..., 0]
    torch.testing.assert_close(numbers[there], expected[there], rtol=1e-5, atol=1e-5)
    assert not numbers[torch.isnan(values)].any()
    assert edges.shape[1] == QUANTILES
