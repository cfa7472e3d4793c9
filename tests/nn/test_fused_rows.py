"""The kernels for sums and norms against PyTorch's own: on a CUDA device, or through Triton's
interpreter in a process of its own."""

import pytest
import torch
from interpreter import DEVICE, LOW, on_device
from torch.nn import functional


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


@on_device
@pytest.mark.parametrize(("many", "width"), [(32, 150), (8, 150), (8, 4), (8, 1)])
def test_segment_sums(many: int, width: int) -> None:
    from gelgt.nn.kernels.segments import Division, launch_segment_sum

    counts = torch.tensor([0, 3, 70, 1, 0, 9], device=DEVICE)
    end = counts.cumsum(0).int()
    start, entries = (end - counts).int(), int(end[-1])
    x, weight = draw(20, width), draw(entries + 5, seed=1)
    other = (
        torch.randint(0, 20, (entries + 5,), generator=torch.Generator().manual_seed(2))
        .int()
        .to(DEVICE)
    )
    found = launch_segment_sum(x, other, weight, start, end, Division(many, 4, 64, 1))
    rows = torch.repeat_interleave(torch.arange(6, device=DEVICE), counts)
    messages = x[other[:entries].long()] * weight[:entries, None]
    torch.testing.assert_close(
        found,
        torch.zeros(6, width, device=DEVICE).index_add(0, rows, messages),
        atol=1e-4,
        rtol=1e-4,
    )


@on_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_relu", [False, True])
def test_layer_norm(dtype: torch.dtype, is_relu: bool) -> None:
    """Of two tables with scales of their own; rows of the gradient may lie apart, and a residual
    connection brings more of it."""
    from gelgt.nn.kernels.layer_norm import layer_backward, layer_forward

    x, weight, bias = draw(2, 21, 40).to(dtype), draw(2, 40, seed=1), draw(2, 40, seed=2)
    given, passed = draw(2, 21, 80, seed=3).to(dtype)[:, :, 40:], draw(2, 21, 40, seed=4).to(dtype)
    leaves = [x.float().requires_grad_(), *(v.clone().requires_grad_() for v in (weight, bias))]
    normed = functional.layer_norm(leaves[0], (40,), None, None, 1e-5)
    expected = torch.addcmul(leaves[2][:, None], normed, leaves[1][:, None])
    expected = torch.relu(expected) if is_relu else expected
    d_x, *d_scales = torch.autograd.grad(expected, leaves, given.float())
    out, means, scales = layer_forward(x, weight, bias, 1e-5, dtype, is_relu=is_relu)
    assert out.dtype == dtype
    loose = {"atol": 1e-4, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 3e-2, "rtol": 2e-2}
    torch.testing.assert_close(out.float(), expected, **loose)
    found = layer_backward(x, weight, bias, means, scales, given, passed, is_relu)
    for one, exact in zip(found, (d_x + passed.float(), *d_scales)):
        torch.testing.assert_close(one.float(), exact, **loose)


@on_device
@pytest.mark.parametrize("is_relu", [False, True])
def test_batch_norm_over_real_rows(is_relu: bool) -> None:
    from gelgt.nn.kernels.batch_norm import batch_backward, batch_forward
    from gelgt.nn.static.ops import MaskedNorm

    x, given = 3 + draw(3, 150, 24), draw(3, 150, 24, seed=3)
    weight, bias = draw(3, 24, seed=1), draw(3, 24, seed=2)
    counts = torch.tensor([150, 70, 0], dtype=torch.int32, device=DEVICE)
    valid = torch.arange(150, device=DEVICE) < counts[:, None]
    given = given * valid[:, :, None]
    leaves = [
        x.clone().requires_grad_(),
        weight.clone().requires_grad_(),
        bias.clone().requires_grad_(),
    ]
    expected, mean, variance = MaskedNorm.apply(leaves[0], valid, leaves[1], leaves[2], 1e-5)
    expected = torch.relu(expected) if is_relu else expected
    gradients = torch.autograd.grad(expected, leaves, given)
    out, means, scales, variances = batch_forward(x, counts, weight, bias, 1e-5, is_relu)
    for found, exact in ((out, expected), (means, mean), (variances, variance)):
        torch.testing.assert_close(found, exact, atol=1e-4, rtol=1e-4)
    found_gradients = batch_backward(x, counts, weight, bias, means, scales, given, is_relu)
    for found, exact in zip(found_gradients, gradients):
        torch.testing.assert_close(found, exact, atol=1e-3, rtol=1e-3)


@on_device
@pytest.mark.parametrize("is_relu", [False, True])
def test_batch_norm_by_running_statistics(is_relu: bool) -> None:
    """The real rows as in evaluation; filler rows are finite."""
    from gelgt.nn.kernels.batch_norm import batch_apply
    from gelgt.nn.static.ops import masked_batch_norm

    x, weight, bias = 3 + draw(2, 70, 24), draw(2, 24, seed=1), draw(2, 24, seed=2)
    running = 2 + draw(2, 24, seed=3), 1 + draw(2, 24, seed=4).abs()
    counts = torch.tensor([70, 33], dtype=torch.int32, device=DEVICE)
    expected, _ = masked_batch_norm(
        x, counts, weight, bias, running, training=False, eps=1e-5, is_relu=is_relu
    )
    found = batch_apply(
        x, counts, weight, bias, running[0], torch.rsqrt(running[1] + 1e-5), is_relu
    )
    for table, count in enumerate(counts.tolist()):
        torch.testing.assert_close(found[table, :count], expected[table, :count])
    assert torch.isfinite(found).all()


@on_device
def test_sums_of_some_rows() -> None:
    """Of rows in any order, and of one twice, as of all rows: every row is a sum of its own."""
    from gelgt.nn.kernels.segments import launch_segment_sum

    rows, width = 40, 24
    x, weight = draw(rows, width), draw(150, seed=1).abs()
    other = torch.arange(150, device=DEVICE, dtype=torch.int32) * 7 % rows
    borders = torch.linspace(0, 150, rows + 1, device=DEVICE).to(torch.int32)
    some = torch.tensor([39, 0, 17, 17], device=DEVICE)
    start, end = borders[:-1], borders[1:]
    whole = launch_segment_sum(x, other, weight, start, end)
    found = launch_segment_sum(x, other, weight, start[some], end[some])
    assert torch.equal(found, whole[some])


@on_device
def test_dropout_follows_from_seed_and_call() -> None:
    """A share is zeroed and the mean stays; another call or seed draws otherwise, the same ones the
    same, whatever is drawn besides."""
    from gelgt.nn.kernels.dropout import launch_dropout

    x = torch.ones(50, 100, device=DEVICE)
    seed = torch.tensor([7], device=DEVICE)
    out = launch_dropout(x, seed, 1, 0.3)
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert float((out == 0).float().mean()) == pytest.approx(0.3, abs=0.03)
    torch.rand(3)
    assert torch.equal(launch_dropout(x, seed, 1, 0.3), out)
    others = [launch_dropout(x, seed, 2, 0.3), launch_dropout(x, seed + 1, 1, 0.3)]
    for other in others:  # as often the same as independent draws are
        assert float(((other == 0) == (out == 0)).float().mean()) == pytest.approx(0.58, abs=0.03)


@on_device
@pytest.mark.parametrize("rows", [300, 70])
def test_column_sums(rows: int) -> None:
    from gelgt.nn.kernels.columns import Tile, column_sums

    x = draw(2, rows, 50)
    found = column_sums(x, Tile(8, 32, 4, 3))
    torch.testing.assert_close(found, x.double().sum(1).float(), atol=1e-4, rtol=1e-5)
    assert torch.equal(found, column_sums(x, Tile(8, 32, 4, 3)))


def draw_subgraphs() -> tuple[torch.Tensor, torch.Tensor]:
    """(B + 1,) offsets with one empty subgraph, and (T,) the subgraph of each row; two rows more
    belong to none."""
    lengths = torch.tensor([40, 1, 0, 97])
    offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]).int()
    subgraph = torch.cat([torch.repeat_interleave(torch.arange(4), lengths), torch.tensor([4, 4])])
    return offsets.to(DEVICE), subgraph.to(DEVICE)


@on_device
@pytest.mark.parametrize("keep", [10, 60])
def test_kept_rows_are_those_of_a_sort(keep: int) -> None:
    from gelgt.nn.kernels.ranks import launch_kept
    from gelgt.nn.refinement import refine

    offsets, subgraph = draw_subgraphs()
    scores = (3 * draw(140)).round() / 2  # with ties, and both zeros
    scores[7] = torch.nan
    hop = torch.randint(1, 4, (140,), generator=torch.Generator().manual_seed(1)).int().to(DEVICE)
    hop[offsets[:-1].long()] = 0
    found = launch_kept(scores, hop, offsets, 97, keep)
    expected = refine(scores, hop, torch.cat([offsets, offsets[-1:]]), subgraph, keep)
    assert torch.equal(found[:138], expected[:138])
    assert not bool(found[138:].any())
    assert int(found.sum()) == 1 + min(keep, 40) + min(keep, 97)


@on_device
@pytest.mark.parametrize("dtype", [torch.float32, LOW])
def test_scores_are_products_with_the_seed(dtype: torch.dtype) -> None:
    from gelgt.nn.kernels.ranks import launch_scores
    from gelgt.nn.refinement import semantic_scores

    offsets, subgraph = draw_subgraphs()
    h = draw(140, 24).to(dtype)
    found = launch_scores(h, offsets, 97)
    near = subgraph.long().clamp(max=len(offsets) - 2)
    h_seed = h[offsets[:-1].long()][near]
    expected = (h * h_seed).float().sum(1)  # the sum as under autocast
    torch.testing.assert_close(found[:138], expected[:138], atol=1e-5, rtol=1e-5)
    assert not found[138:].any()
    if dtype == torch.float32:
        torch.testing.assert_close(
            semantic_scores(h, offsets.long(), near)[:138], found[:138], atol=1e-5, rtol=1e-5
        )


@on_device
def test_ranks_of_ages_are_those_of_a_sort() -> None:
    from gelgt.nn.kernels.ranks import launch_recency
    from gelgt.nn.layout import recency_rank

    offsets, subgraph = draw_subgraphs()
    age = (4 * draw(140)).round()
    table = torch.randint(0, 3, (140,), generator=torch.Generator().manual_seed(1)).int().to(DEVICE)
    found = launch_recency(age, table, offsets, 97)
    assert torch.equal(found[:138].long(), recency_rank(age, table, subgraph)[:138])
    assert int(found.max()) > 3


@on_device
def test_noise_is_that_of_the_packed_layout() -> None:
    from gelgt.nn.kernels.noise import launch_noise
    from gelgt.nn.structure import structure_noise

    offsets, subgraph = draw_subgraphs()
    generator = torch.Generator().manual_seed(0)
    key, time = torch.randint(-(2**62), 2**62, (2, 4), generator=generator).to(DEVICE).unbind()
    near = subgraph.clamp(max=3)
    place = torch.arange(140, device=DEVICE) - offsets[near]
    for width, seed in ((128, 5), (192, 1)):
        found = launch_noise(key, time, offsets, subgraph.int(), width, seed, torch.bfloat16)
        assert torch.equal(found.float(), structure_noise(key, time, place, near, width, seed))


@on_device
def test_numerical_columns() -> None:
    from gelgt.nn.kernels.numbers import number_backward, number_forward

    values, given = draw(70, 5)[:, 1:4], draw(70, 7, 24, seed=1)[:, 2:5]
    weight, bias = draw(3, 24, seed=2), draw(3, 24, seed=3)
    found = number_forward(values, weight, bias, torch.float32)
    torch.testing.assert_close(found, torch.addcmul(bias, values[:, :, None], weight))
    for_weight, for_bias = number_backward(values, given)
    exact = (given.double() * values.double()[:, :, None]).sum(0)
    torch.testing.assert_close(for_weight, exact.float(), atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(for_bias, given.double().sum(0).float(), atol=1e-4, rtol=1e-5)


@on_device
def test_uniform_numbers() -> None:
    """They fill [0, 1) evenly, repeat with seed and call, and differ otherwise."""
    from gelgt.nn.kernels.dropout import launch_uniform

    seed = torch.tensor([7], device=DEVICE)
    shape = torch.Size((3, 5000))
    out = launch_uniform(shape, seed, 1)
    assert out.shape == shape
    assert float(out.min()) >= 0
    assert float(out.max()) < 1
    counts = torch.histc(out.float().cpu(), 10, 0, 1)
    assert float((counts / out.numel() - 0.1).abs().max()) < 0.02
    assert torch.equal(launch_uniform(shape, seed, 1), out)
    for other in (launch_uniform(shape, seed, 2), launch_uniform(shape, seed + 1, 1)):
        assert float((other == out).float().mean()) < 0.01
