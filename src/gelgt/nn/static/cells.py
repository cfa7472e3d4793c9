"""Row features on the device: what the column encoders compute before their first weight, once for
every row of the database and every version of one.

PyTorch Frame's encoders are a fixed function of a cell followed by a linear map or a lookup. The
fixed part (missing values filled, numbers standardised, times as waves) is kept; a batch takes its
rows from it by their numbers, so no feature travels with a batch.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_frame import TensorFrame, stype

from gelgt.features import Features
from gelgt.nn.encoders import ColumnEncoders
from gelgt.nn.precision import lowered
from gelgt.nn.rows import row_frame
from gelgt.nn.static.ops import look_up, scaled_numbers

CHUNK = 1 << 16  # rows that are prepared at once
SHARE = 0.25  # of the device's free memory that features may take


@dataclass(frozen=True)
class Kind:
    """The columns of one kind in a table: how many, and where their numbers begin and how many each
    has. Categories have none."""

    name: str
    columns: int
    start: int = 0
    width: int = 0


@dataclass(frozen=True)
class TableCells:
    """One table.

    Attributes:
        kinds: In the order in which the encoder puts columns.
        numbers: (rows, F) float32.
        places: (rows, C) entries of the embedding of categories, int32; 0 is missing.
    """

    kinds: tuple[Kind, ...]
    numbers: Tensor
    places: Tensor


def why_not_cells(encoder: ColumnEncoders, features: Features, free: float) -> str | None:
    """Why row features cannot be kept on a device with so many free bytes; None if they can."""
    modules = encoder.columns
    for name, module in zip(encoder.names, modules):
        if "multicategorical" in module.encoder_dict:
            return f"'{name}' has a column of several categories"
    size = sum(
        features.size(name) * _width(module) * 4 for name, module in zip(encoder.names, modules)
    )
    if size > SHARE * free:
        return f"row features take {size / 2**30:.1f} GiB, more than {SHARE:.0%} of the free memory"
    return None


def _width(module: Any) -> int:
    """32-bit words of a row."""
    words = 0
    for kind, encoder in module.encoder_dict.items():
        embedded = max(getattr(encoder, "emb_dim_list", (0,)))
        words += {"timestamp": 7 * 8, "embedding": embedded}.get(kind, 1) * len(encoder.stats_list)
    return words


@torch.no_grad()
def make_cells(
    encoder: ColumnEncoders,
    features: Features,
    hide: Mapping[str, Collection[str]],
    device: torch.device,
) -> dict[str, TableCells]:
    """The cells of every table."""
    cells = {}
    for name, module in zip(encoder.names, encoder.columns):
        numbers, places = [], []
        kinds: tuple[Kind, ...] = ()
        size = features.size(name)
        for start in range(0, max(1, size), CHUNK):
            rows = np.arange(start, min(start + CHUNK, size))
            frame = row_frame(features, name, rows, hide.get(name, ())).to(device)
            kinds, some, others = _prepare(frame, module)
            numbers.append(some)
            places.append(others)
        cells[name] = TableCells(kinds, torch.cat(numbers), torch.cat(places))
    return cells


def _prepare(frame: TensorFrame, module: Any) -> tuple[tuple[Kind, ...], Tensor, Tensor]:
    kinds, numbers, at = [], [torch.empty(len(frame), 0, device=frame.device)], 0
    places = torch.empty(len(frame), 0, dtype=torch.int32, device=frame.device)
    for kind in frame.stypes:
        encoder: Any = module.encoder_dict[kind.value]
        values: Any = encoder.na_forward(frame.feat_dict[kind])
        columns = len(encoder.stats_list)
        if kind == stype.categorical:
            places = torch.where(values < 0, 0, values + encoder.offset + 1).to(torch.int32)
            kinds.append(Kind(kind.value, columns))
            continue
        if kind == stype.numerical:
            block = torch.nan_to_num((values - encoder.mean) / encoder.std, nan=0.0)
        elif kind == stype.timestamp:
            block = _waves(values.float(), encoder).reshape(len(frame), -1)
        else:
            block = torch.nan_to_num(values.values.float(), nan=0.0)
        kinds.append(Kind(kind.value, columns, at, block.shape[1] // columns))
        numbers.append(block)
        at += block.shape[1]
    return tuple(kinds), torch.cat(numbers, dim=1), places


def _waves(parts: Tensor, encoder: Any) -> Tensor:
    """What `TimestampEncoder` multiplies with its weights: (n, columns, 7) → (n, columns, 7, 8)."""
    year = parts[..., :1] - encoder.min_year.view(1, -1, 1)
    rest = parts[..., 1:] / encoder.max_values.view(1, 1, -1)
    return torch.cat([encoder.positional_encoding(year), encoder.cyclic_encoding(rest)], dim=2)


def encode_columns(module: Any, cells: TableCells, rows: Tensor) -> Tensor:
    """The columns of some rows, as the table's column encoders make them: (U,) → (U, columns,
    width)."""
    numbers = cells.numbers.index_select(0, rows)
    parts = []
    for kind in cells.kinds:
        encoder: Any = module.encoder_dict[kind.name]
        if kind.name == "categorical":
            part = look_up(encoder.emb, cells.places.index_select(0, rows).flatten()).view(
                len(rows), kind.columns, -1
            )
        else:
            values = numbers[:, kind.start : kind.start + kind.columns * kind.width]
            if kind.name == "numerical":
                part = scaled_numbers(values, encoder.weight, encoder.bias)
            elif kind.name == "timestamp":
                part = _linear(values, encoder.weight.flatten(1, 2), encoder.bias)
            else:
                part = _linear(values, torch.stack(list(encoder.weight_list)), encoder.biases)
        parts.append(lowered(part))
    return torch.cat(parts, dim=1)


def _linear(values: Tensor, weight: Tensor, bias: nn.Parameter) -> Tensor:
    """(U, columns · f), (columns, f, c), (columns, c) → (U, columns, c)."""
    columns, width, _ = weight.shape
    if columns == 1:
        return torch.addmm(bias[0], values, weight[0])[:, None]
    return torch.baddbmm(
        bias[:, None], values.view(-1, columns, width).transpose(0, 1), weight
    ).transpose(0, 1)
