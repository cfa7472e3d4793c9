"""The row encoder over all tables at once: behind their first layer the tables' networks have the
same widths, so they are one stack.

The tables' own parameters are stacked anew in every step, which is one copy each; nothing is kept
twice.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_frame.nn.models import ResNet

from gelgt.nn.encoders import RowEncoder
from gelgt.nn.linear import product
from gelgt.nn.norms import is_low, relu_layer_norm
from gelgt.nn.precision import lowered
from gelgt.nn.static.cells import TableCells, encode_columns
from gelgt.nn.static.ops import Moved, Stacked, StackedLinear, masked_batch_norm


def encode_rows(
    encoder: RowEncoder,
    cells: Sequence[TableCells],
    present: Sequence[int],
    rows: Sequence[Tensor],
    counts: Tensor,
    moved: list[Moved],
) -> Tensor:
    """Distinct rows of the tables that are present, stacked.

    Args:
        cells: Of every table, in the encoder's order.
        present: Which tables there are.
        rows: For each of them, row numbers (U,).
        counts: (n,) how many of them are real; those come first.
        moved: Takes the statistics of batch norms.

    Returns:
        (n, R, d); R is the longest U.
    """
    modules: list[Any] = [encoder.tables[number] for number in present]
    height = max(map(len, rows))

    def norm(norms: Sequence[Any], x: Tensor) -> Tensor:
        return _relu_norm(norms, x, counts, moved)

    starts = [
        lowered(_first(module, cells[number], of_table))
        for module, number, of_table in zip(modules, present, rows)
    ]
    x, short = Stacked.apply(height, *starts)  # type: ignore[no-untyped-call]
    for depth in range(len(modules[0].backbone)):
        blocks = [module.backbone[depth] for module in modules]
        if depth:
            short = x
            x = _linear([block.lin1 for block in blocks], x)
        x = norm([block.norm1 for block in blocks], x)
        x = _linear([block.lin2 for block in blocks], x)
        x = norm([block.norm2 for block in blocks], x) + short
    x = norm([module.decoder[0] for module in modules], x)
    return _linear([module.decoder[-1] for module in modules], x)


def _first(module: ResNet, cells: TableCells, rows: Tensor) -> Tensor:
    """What enters the first block's norm, and beside it what passes it by: (U, 2 · c)."""
    x = encode_columns(module.encoder, cells, rows).flatten(1)
    block: Any = module.backbone[0]
    if block.shortcut is None:
        return torch.cat([lowered(block.lin1(x)), lowered(x)], dim=1)
    layers = (block.lin1, block.shortcut)
    return product(
        x,
        torch.cat([layer.weight for layer in layers]),
        torch.cat([layer.bias for layer in layers]),
    )


def _each(modules: Sequence[Any], name: str) -> Tensor:
    return torch.stack([getattr(module, name) for module in modules])


def _linear(layers: Sequence[nn.Linear], x: Tensor) -> Tensor:
    """(n, R, a) → (n, R, b)."""
    x, weight, bias = lowered(x), lowered(_each(layers, "weight")), lowered(_each(layers, "bias"))
    out: Tensor = StackedLinear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return out


def _relu_norm(norms: Sequence[Any], x: Tensor, counts: Tensor, moved: list[Moved]) -> Tensor:
    """(n, R, c) → (n, R, c)."""
    weight, bias = _each(norms, "weight"), _each(norms, "bias")
    if not isinstance(norms[0], nn.LayerNorm):
        return batch_norm(norms, x, counts, (weight, bias), moved, is_relu=True)
    if is_low(x):
        return relu_layer_norm(x, weight, bias, norms[0].eps)
    normed = functional.layer_norm(x, norms[0].normalized_shape, eps=norms[0].eps)
    return torch.relu(torch.addcmul(bias[:, None], normed, weight[:, None]))


def batch_norm(
    norms: Sequence[Any],
    x: Tensor,
    counts: Tensor,
    scales: tuple[Tensor, Tensor],
    moved: list[Moved],
    is_relu: bool = False,
) -> Tensor:
    """`BatchNorm1d` of n batches over their real rows with weights and biases (n, c); `moved` takes
    what the running statistics move towards in training."""
    training = norms[0].training
    running = (x, x) if training else (_each(norms, "running_mean"), _each(norms, "running_var"))
    out, statistics = masked_batch_norm(
        x, counts, *scales, running, training, norms[0].eps, is_relu
    )
    if training:
        moved.append((norms, statistics, counts))
    return out


def one_norm(norm: Any, x: Tensor, count: Tensor, moved: list[Moved]) -> Tensor:
    """A single norm over (T, c), of which `count` () rows are real."""
    if not isinstance(norm, nn.BatchNorm1d):
        out: Tensor = norm(x)
        return out
    scales = norm.weight[None], norm.bias[None]
    return batch_norm([norm], x[None], count[None], scales, moved)[0]
