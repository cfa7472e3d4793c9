"""Sums in a fixed order, and their gradients."""

import pytest
import torch

from gelgt.nn.sums import Index, Segments, mean, softmax_among, take, take_once, total

ROWS = torch.tensor([3, 0, 3, 1, 3])


def test_take_and_total_are_each_others_gradient() -> None:
    torch.manual_seed(0)
    index = Index.of(ROWS, 5)  # row 2 has no item, row 4 either
    items, x = (
        torch.randn(5, 2, dtype=torch.float64, requires_grad=True),
        torch.randn(5, 2, dtype=torch.float64, requires_grad=True),
    )
    expected = torch.zeros(5, 2, dtype=torch.float64).index_add(0, ROWS, items)
    torch.testing.assert_close(total(items, index), expected)
    torch.testing.assert_close(take(x, index), x[ROWS])
    assert torch.autograd.gradcheck(lambda v: total(v, index), items)
    assert torch.autograd.gradcheck(lambda v: take(v, index), x)
    assert index.counts.tolist() == [1, 1, 0, 3, 0]
    assert mean(items, index)[2].tolist() == [0, 0]
    torch.testing.assert_close(mean(items, index)[3], items[[0, 2, 4]].mean(0))


def test_shares_are_a_softmax_among_the_items_of_a_row() -> None:
    scores = torch.tensor(
        [[1.0, 90.0], [5.0, -3.0], [2.0, 91.0], [0.0, 0.0], [-4.0, 95.0]], requires_grad=True
    )
    found = softmax_among(scores, Index.of(ROWS, 5))
    torch.testing.assert_close(found[[0, 2, 4]], torch.softmax(scores[[0, 2, 4]], 0))
    torch.testing.assert_close(found[[1, 3]], torch.ones(2, 2))
    assert torch.autograd.gradcheck(
        lambda s: softmax_among(s, Index.of(ROWS, 5)), scores.double(), eps=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("size", [0, 3])
def test_nothing_to_sum_up(size: int) -> None:
    index = Index.of(torch.zeros(0, dtype=torch.int64), size)
    items = torch.zeros(0, 4, requires_grad=True)
    total(items, index).sum().backward()
    assert total(items, index).shape == (size, 4)
    assert take(torch.ones(size, 4, requires_grad=True), index).shape == (0, 4)


def test_what_lies_between_two_rows_weighs_nothing() -> None:
    """Rows that refinement drops leave gaps, whose summands have weight 0."""
    x = torch.tensor([[1.0], [10.0], [100.0]])
    start, end = torch.tensor([0, 3]), torch.tensor([2, 4])
    weight = torch.tensor([1.0, 0.5, 0.0, 2.0])
    summands = Segments(torch.tensor([0, 1, 2, 2]), start, end, weight)
    assert summands.sum(x).tolist() == [[6.0], [200.0]]


def test_a_row_that_is_taken_once_has_a_gather_for_a_gradient() -> None:
    x = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    index, place = torch.tensor([2, 0]), torch.tensor([1, 0, 0, 0])
    is_taken = torch.tensor([True, False, True, False])
    assert torch.equal(take_once(x, index, place, is_taken), x[index])
    assert torch.autograd.gradcheck(lambda v: take_once(v, index, place, is_taken), x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_fillers_count_nowhere_and_get_no_gradient(dtype: torch.dtype) -> None:
    """Items between others and behind them, of which one row has fillers alone."""
    torch.manual_seed(0)
    rows = torch.tensor([3, 2, 0, 3, 0, 1, 3, 0], dtype=dtype)
    is_item = torch.tensor([True, False, True, True, False, True, True, False])
    padded, plain = Index.of(rows, 5, is_item), Index.of(rows[is_item].long(), 5)
    assert padded.counts.tolist() == plain.counts.tolist() == [1, 1, 0, 3, 0]
    assert padded.is_empty.flatten().tolist() == [False, False, True, False, True]
    items, x = torch.randn(8, 2), torch.randn(5, 2)
    outcomes = []
    for index, own in ((padded, items), (plain, items[is_item])):
        leaves = own.clone().requires_grad_(), x.clone().requires_grad_()
        weights = softmax_among(leaves[0], index)
        scaled = take(leaves[1], index) * weights
        outs = total(leaves[0], index), mean(leaves[0], index), total(scaled, index)
        loss = sum((out * (1 + place)).square().sum() for place, out in enumerate(outs))
        outcomes.append((weights, outs, torch.autograd.grad(loss, leaves)))
    (weights, outs, slopes), (own_weights, own_outs, own_slopes) = outcomes
    torch.testing.assert_close(weights[is_item], own_weights)
    assert (weights[~is_item] == 0).all()
    torch.testing.assert_close(outs, own_outs)
    torch.testing.assert_close(slopes[0][is_item], own_slopes[0])
    assert (slopes[0][~is_item] == 0).all()
    torch.testing.assert_close(slopes[1], own_slopes[1])
