"""`ColumnsNetwork`: what the history columns say by themselves, before any subgraph is looked at.

    value → its piece between quantiles → 8 numbers a column → 2 layers of 256 → prediction

Members share the weights of the layers and differ by factors on what goes in and comes out of them,
which costs little more than one network and predicts like a mean of many (Gorishniy et al., TabM,
2025; the pieces: Gorishniy et al., 2022). Chosen over earlier periods: docs/research/quality.md.
"""

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from gelgt.nn.dropout import dropout
from gelgt.nn.history import QUANTILES, quantiles
from gelgt.nn.pieces import PIECES, PieceWeights, piece_numbers
from gelgt.nn.precision import has_fast_bf16

NUMBERS = 8  # of each column
WIDTH, LAYERS = 256, 2
DROPOUT, COLUMN_DROPOUT = 0.4, 0.1
# Rows of each pass in evaluation, always, so that a row gets the same bits beside any others. On a
# CPU what 32 rows need stays in its cache (8,300 rows a second on one core, 4,700 with 128), and
# one row waits for no more.
ROWS, CUDA_ROWS = 32, 128
PASSES = 64  # whose rows are sent and results fetched at once
PREFIX = "columns."


class ColumnsNetwork(nn.Module):
    """(B, F) history columns, NaN where there is no value → (B, outputs).

    Args:
        columns: Their number F.
        outputs: Width of the prediction.
        members: Of the ensemble.
    """

    edges: Tensor

    def __init__(self, columns: int, outputs: int, members: int) -> None:
        super().__init__()
        self.register_buffer("edges", torch.zeros(columns, QUANTILES))
        self.pieces = _uniform(PIECES, columns, PIECES, NUMBERS)
        self.scaled, self.missing, self.offset = (
            _uniform(PIECES, columns, NUMBERS) for _ in range(3)
        )
        sizes = [columns * NUMBERS, *[WIDTH] * LAYERS]
        self.weights = nn.ParameterList(_uniform(a, a, b) for a, b in pairwise(sizes))
        self.biases = nn.ParameterList(_uniform(a, members, 1, b) for a, b in pairwise(sizes))
        # Signs make the members differ from the start; the other factors begin at 1.
        signs = torch.randint(0, 2, (members, 1, sizes[0])) * 2.0 - 1
        self.before = nn.ParameterList(
            [nn.Parameter(signs), *(nn.Parameter(torch.ones(members, 1, n)) for n in sizes[1:-1])]
        )
        self.after = nn.ParameterList(nn.Parameter(torch.ones(members, 1, n)) for n in sizes[1:])
        self.head = _uniform(WIDTH, members, WIDTH, outputs)
        self.base = nn.Parameter(torch.zeros(members, 1, outputs))
        self.futures: nn.Parameter | None = None

    def expect(self, futures: int) -> None:
        """Predict so many numbers besides while being trained (`gelgt.training.futures`); 0 ends
        it."""
        self.futures = _uniform(WIDTH, WIDTH, futures) if futures else None

    @classmethod
    def shaped(cls, weights: Mapping[str, Tensor]) -> "ColumnsNetwork | None":
        """A network of the shape that some weights have; None where they have none."""
        head = weights.get(f"{PREFIX}head")
        if head is None:
            return None
        members, _, outputs = head.shape
        return cls(len(weights[f"{PREFIX}edges"]), outputs, members)

    @torch.no_grad()
    def start(self, values: Tensor, base: Tensor) -> None:
        """Take the quantiles of training values (S, F), and start from the base rates
        (outputs,)."""
        self.edges.copy_(quantiles(values).nan_to_num())
        self.base.copy_(base.expand_as(self.base))

    def forward(self, values: Tensor) -> Tensor:
        """The mean of the members: (B, outputs)."""
        return self.of_members(values).mean(0)

    def of_members(self, values: Tensor) -> Tensor:
        """What each member puts out: (members, B, outputs)."""
        return self.hidden(values) @ self.head + self.base

    def hidden(self, values: Tensor) -> Tensor:
        """(members, B, 256) what the layers make of the columns."""
        h = self._numbers(values).flatten(1).unsqueeze(0)  # (1, B, F * 8)
        for weight, bias, before, after in zip(
            self.weights, self.biases, self.before, self.after, strict=True
        ):
            h = self._product(h, before, weight) * after + bias
            h = functional.relu(h)
            h = dropout(h, DROPOUT) if self.training else h
        return h

    def _product(self, x: Tensor, factors: Tensor, weight: Tensor) -> Tensor:
        """(x · factors) W: (…, B, a), (members, 1, a), (a, b) → (members, B, b), rounded to bf16
        where a CPU is faster with it, while the network is trained."""
        if not (self.training and has_fast_bf16(x.device)):
            return (x * factors) @ weight
        return ((x.bfloat16() * factors.bfloat16()) @ weight.bfloat16()).float()

    def _numbers(self, values: Tensor) -> Tensor:
        """(B, F, 8) what is read of each value; in training without some columns."""
        return piece_numbers(values, self.edges, self.piece_weights, self.kept(values))

    @property
    def piece_weights(self) -> PieceWeights:
        return PieceWeights(self.pieces, self.scaled, self.missing, self.offset)

    def kept(self, values: Tensor) -> Tensor | None:
        """(B, F) factors of a dropout of columns; None while nothing is trained."""
        if not self.training:
            return None
        return (torch.rand(values.shape, device=values.device) >= COLUMN_DROPOUT) / (
            1 - COLUMN_DROPOUT
        )

    @torch.no_grad()
    def outputs(self, values: Tensor) -> Tensor:
        """(S, outputs) for any number of rows, on the host."""
        device = self.edges.device
        size = CUDA_ROWS if device.type == "cuda" else ROWS
        self.eval()
        parts = [torch.zeros(0, self.base.shape[-1])]
        # A device is waited for once for many passes, not after each.
        for many in torch.split(values, size * PASSES):
            rows = many.to(device).float()
            padded = functional.pad(rows, (0, 0, 0, -len(rows) % size))
            outputs = [self(each).float() for each in torch.split(padded, size)]
            parts.append(torch.cat(outputs)[: len(rows)].cpu())
        return torch.cat(parts)


def _uniform(fan: int, *shape: int) -> nn.Parameter:
    bound = 1 / math.sqrt(max(1, fan))
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))
