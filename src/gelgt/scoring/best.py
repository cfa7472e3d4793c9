"""The best k destinations of seeds, kept while scores come in parts."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Ranked:
    """The best k destinations of S seeds.

    Attributes:
        row: (S, k) rows, the best first; -1 where there are fewer.
        score: (S, k) their scores; -inf there.
    """

    row: NDArray[np.int64]
    score: NDArray[np.float32]


class Best:
    """The best k of the scores so far."""

    def __init__(self, seeds: int, k: int, device: torch.device) -> None:
        self.k = k
        self.score = torch.zeros(seeds, 0, device=device)
        self.row = torch.zeros(seeds, 0, dtype=torch.int64, device=device)

    def add(self, score: Tensor, first: int) -> None:
        """Scores (S, n) of the destinations from `first` on."""
        here, rows = score.topk(min(self.k, score.shape[1]), 1)
        every, rows = torch.cat([self.score, here], 1), torch.cat([self.row, rows + first], 1)
        self.score, order = every.topk(min(self.k, every.shape[1]), 1)
        self.row = rows.gather(1, order)

    def ranked(self) -> Ranked:
        """With -1 where there are fewer than k."""
        row = torch.where(self.score == -torch.inf, -1, self.row)
        short = (0, self.k - row.shape[1])
        return Ranked(
            functional.pad(row, short, value=-1).cpu().numpy(),
            functional.pad(self.score, short, value=-torch.inf).float().cpu().numpy(),
        )
