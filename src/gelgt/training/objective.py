"""`Objective`: the loss of a batch, from the labels of all the seeds that are learned from."""

from dataclasses import dataclass

from torch import Tensor

from gelgt.nn.target import Target


@dataclass(frozen=True)
class Objective:
    """What a network is trained for.

    Attributes:
        target: Of the task.
        labels: (S,) or (S, L), encoded, of all the seeds that are learned from.
    """

    target: Target
    labels: Tensor

    def losses(self, out: Tensor, index: Tensor) -> Tensor:
        """The loss of each row of a batch: (B, outputs), (B,) places among the seeds → (B,)."""
        return self.target.losses(out, self.labels.index_select(0, index))

    def loss(self, out: Tensor, index: Tensor) -> Tensor:
        """The mean loss of a batch: ()."""
        return self.losses(out, index).mean()
