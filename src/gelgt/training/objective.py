"""`Objective`: the loss of a batch, from the labels of all the seeds that are learned from, and
from what their windows hold besides (`futures.py`)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from gelgt.nn.target import Target


@dataclass(frozen=True)
class Objective:
    """What a network is trained for.

    Attributes:
        target: Of the task.
        labels: (S,) or (S, L), encoded, of all the seeds that are learned from.
        futures: (S, A) on a normal scale, NaN where nothing is known; None where a model predicts
            none.
        weight: Of their loss.
    """

    target: Target
    labels: Tensor
    futures: Tensor | None = None
    weight: float = 0.0

    def losses(self, out: Tensor, index: Tensor) -> Tensor:
        """The loss of each row of a batch: (B, outputs), or (B, outputs + A) with futures, and (B,)
        places among the seeds → (B,)."""
        labels = self.labels.index_select(0, index)
        if self.futures is None:
            return self.target.losses(out, labels)
        width = self.target.outputs
        beside = future_losses(out[:, width:].float(), self.futures.index_select(0, index))
        return self.target.losses(out[:, :width], labels) + self.weight * beside

    def loss(self, out: Tensor, index: Tensor) -> Tensor:
        """The mean loss of a batch: ()."""
        return self.losses(out, index).mean()


def future_losses(out: Tensor, wanted: Tensor) -> Tensor:
    """Each row's mean loss over what is known of it: (…, B, A), (B, A) with NaN for the rest →
    (…, B)."""
    is_known = ~torch.isnan(wanted)
    gaps = functional.smooth_l1_loss(out, wanted.nan_to_num().expand_as(out), reduction="none")
    return (gaps * is_known).sum(-1) / is_known.sum(-1).clamp(min=1)
