"""The row encoder over all tables at once: behind their first layer the tables' networks have the same widths, so they are one stack.

The tables' own parameters are stacked anew in every step, which is one copy each; nothing is kept twice.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_frame.nn.models import ResNet

from gelgt.nn.encoders import RowEncoder
from gelgt.nn.precision import lowered
from gelgt.nn.static.cells import TableCells, encode_columns
from gelgt.nn.static.ops import keep_running, masked_batch_norm


def encode_rows(encoder: RowEncoder, cells: Sequence[TableCells], present: Sequence[int], rows: Sequence[Tensor], valid: Tensor) -> Tensor:
    """Distinct rows of the tables that are present, stacked.

    Args:
        cells: Of every table, in the encoder's order.
        present: Which tables there are.
        rows: For each of them, row numbers (U,).
        valid: (n, R) which rows of the stack are real; R is the longest U.

    Returns:
        (n, R, d).
    """
    modules: list[Any] = [encoder.tables[number] for number in present]
    height = valid.shape[1]
    starts = [_first(module, cells[number], own) for module, number, own in zip(modules, present, rows)]
    x, short = (_stacked([part[side] for part in starts], height) for side in (0, 1))
    for depth in range(len(modules[0].backbone)):
        blocks = [module.backbone[depth] for module in modules]
        if depth:
            short = x
            x = _linear([block.lin1 for block in blocks], x)
        x = torch.relu(_norm([block.norm1 for block in blocks], x, valid))
        x = torch.relu(_norm([block.norm2 for block in blocks], _linear([block.lin2 for block in blocks], x), valid)) + short
    x = torch.relu(_norm([module.decoder[0] for module in modules], x, valid))
    return _linear([module.decoder[-1] for module in modules], x)


def _first(module: ResNet, cells: TableCells, rows: Tensor) -> tuple[Tensor, Tensor]:
    """What enters the first block's norm, and what passes it by: (U, c) each."""
    x = encode_columns(module, cells, rows)
    block: Any = module.backbone[0]
    if block.shortcut is None:
        return block.lin1(x), x
    layers = (block.lin1, block.shortcut)
    both = functional.linear(x, torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers]))
    first, short = both.chunk(2, dim=1)
    return first, short


def _stacked(parts: Sequence[Tensor], height: int) -> Tensor:
    return torch.stack([functional.pad(lowered(part), (0, 0, 0, height - len(part))) for part in parts])


def _each(modules: Sequence[Any], name: str) -> Tensor:
    return torch.stack([getattr(module, name) for module in modules])


def _linear(layers: Sequence[nn.Linear], x: Tensor) -> Tensor:
    """(n, R, a) → (n, R, b)."""
    return torch.baddbmm(_each(layers, "bias")[:, None], x, _each(layers, "weight").transpose(1, 2))


def _norm(norms: Sequence[Any], x: Tensor, valid: Tensor) -> Tensor:
    """(n, R, c) → (n, R, c)."""
    weight, bias = _each(norms, "weight"), _each(norms, "bias")
    if isinstance(norms[0], nn.LayerNorm):
        normed = functional.layer_norm(x, norms[0].normalized_shape, eps=norms[0].eps)
        return torch.addcmul(bias[:, None], normed, weight[:, None])
    return batch_norm(norms, x, valid, weight, bias)


def batch_norm(norms: Sequence[Any], x: Tensor, valid: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`BatchNorm1d` of n batches over their valid rows, the running statistics moved in training."""
    training = norms[0].training
    running = (x, x) if training else (_each(norms, "running_mean"), _each(norms, "running_var"))
    out, found = masked_batch_norm(x, valid, weight, bias, running, training, norms[0].eps)
    if training:
        keep_running(list(norms), found, valid.any(1))
    return out


def one_norm(norm: Any, x: Tensor, valid: Tensor) -> Tensor:
    """A single norm over (T, c), of which some rows are valid (T,)."""
    if not isinstance(norm, nn.BatchNorm1d):
        out: Tensor = norm(x)
        return out
    return batch_norm([norm], x[None], valid[None], norm.weight[None], norm.bias[None])[0]
