"""`Target`: between labels and what a network puts out.

    binary       logit; the head starts at the base rate, so the first steps do not go into finding
                 it
    regression   distance from the median of the training labels, in mean absolute deviations;
                 predictions stay within their 2nd and 98th percentile, and are whole numbers where
                 all labels are
    multiclass   one logit a class
    multilabel   one logit a label
    recommendation   a seed vector, from which `Recommender` scores rows

Everything comes from the training labels, is plain JSON, and travels with a model.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gelgt.errors import GelgtError
from gelgt.metrics import MAIN
from gelgt.tasks import Task
from gelgt.tasks.label_space import LabelSpace, label_space, targets

# of labels: from there on the median, which a mean absolute error rewards, is the same for nearly
# every row
MOSTLY = 0.8


@dataclass(frozen=True)
class Target:
    """What is predicted, and the statistics of its training labels.

    Attributes:
        space: Task type and classes.
        centre: Median of regression labels: of all constants it has the least absolute error.
        scale: Their mean absolute deviation from it. Counts have few large values that make a
            standard deviation several times as long; in such units rows hardly differ, and the
            steps of an optimiser are too large to tell them apart (docs/research/quality.md).
        low: 2nd percentile of regression labels.
        high: 98th percentile.
        is_whole: Every regression label is a whole number, and so is the median of whole numbers,
            which has the least absolute error: rounding takes 1.5 to 4 % of the error of counts
            (docs/research/quality.md).
        start: (outputs,) logits of the base rates, from which the head starts; 0 for regression.
    """

    space: LabelSpace
    centre: float = 0.0
    scale: float = 1.0
    low: float = 0.0
    high: float = 0.0
    is_whole: bool = False
    start: tuple[float, ...] = (0.0,)

    @property
    def task_type(self) -> str:
        return self.space.task_type

    @property
    def metric(self) -> str:
        """The metric that decides."""
        return MAIN[self.task_type]

    @property
    def outputs(self) -> int:
        """Width of the network's head."""
        return max(1, self.space.width)

    @classmethod
    def of(cls, task: Task) -> "Target":
        """The target of a task, from its training labels.

        Raises:
            GelgtError: there is nothing to learn from.
        """
        space = label_space(task)
        labels = targets(task, "train", space)
        if len(labels) == 0:
            raise GelgtError(
                "no_labels",
                f"The task '{task.name}' has no training labels.",
                hint="Choose earlier split times.",
            )
        if space.task_type == "regression":
            finite = labels[np.isfinite(labels)]
            low, centre, high = (float(value) for value in np.percentile(finite, [2, 50, 98]))
            scale = float(np.abs(finite - centre).mean()) or 1.0
            is_whole = bool((finite == np.rint(finite)).all())
            return cls(space, centre, scale, low, high, is_whole)
        if space.task_type == "recommendation":
            return cls(space)
        if space.task_type == "multiclass_classification":
            shares = (np.bincount(labels, minlength=space.width) + 1) / (len(labels) + space.width)
            return cls(space, start=tuple(np.log(shares).tolist()))
        rates = np.clip(np.atleast_1d(labels.mean(0)), 1e-4, 1 - 1e-4)
        return cls(space, start=tuple(np.log(rates / (1 - rates)).tolist()))

    def labels(self, task: Task, split: str) -> NDArray[Any]:
        """The labels of a split, as `metrics.score` takes them."""
        return targets(task, split, self.space)

    def encode(self, labels: NDArray[Any]) -> Tensor:
        """Labels as the loss takes them."""
        if self.task_type == "regression":
            return torch.from_numpy(((labels - self.centre) / self.scale).astype(np.float32))
        return torch.from_numpy(
            labels.astype(np.int64 if self.task_type == "multiclass_classification" else np.float32)
        )

    def loss(self, out: Tensor, labels: Tensor) -> Tensor:
        """Mean loss of a batch: (B, outputs), (B,) or (B, L) → ()."""
        return self.losses(out, labels).mean()

    def losses(self, out: Tensor, labels: Tensor) -> Tensor:
        """The loss of each row: (B, outputs), (B,) or (B, L) → (B,)."""
        out = out.float()
        if self.task_type == "regression":
            return functional.l1_loss(out[:, 0], labels, reduction="none")
        if self.task_type == "multiclass_classification":
            return functional.cross_entropy(out, labels, reduction="none")
        if self.task_type == "multilabel_classification":
            return functional.binary_cross_entropy_with_logits(out, labels, reduction="none").mean(
                1
            )
        return functional.binary_cross_entropy_with_logits(out[:, 0], labels, reduction="none")

    def decode(self, out: Tensor) -> NDArray[np.float64]:
        """Probabilities or values: (B, outputs) → (B,) or (B, C)."""
        return self.rounded(self.values(out))

    def rounded(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values as they are predicted: whole where all labels are."""
        return np.rint(values) + 0.0 if self.is_whole else values  # no -0

    def values(self, out: Tensor) -> NDArray[np.float64]:
        """The same as `decode`, before anything is rounded."""
        out = out.detach().double().cpu()
        if self.task_type == "regression":
            return (out[:, 0] * self.scale + self.centre).clamp(self.low, self.high).numpy()
        if self.task_type == "multiclass_classification":
            return torch.softmax(out, dim=1).numpy()
        if self.task_type == "multilabel_classification":
            return _sigmoid(out.numpy())
        return _sigmoid(out[:, 0].numpy())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Target":
        """The target of `to_dict`, or a GelgtError."""
        try:
            space = dict(content["space"])
            rest = {k: v for k, v in content.items() if k not in ("space", "start")}
            target = cls(
                LabelSpace(**(space | {"labels": tuple(space["labels"])})),
                start=tuple(map(float, content["start"])),
                **rest,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _unreadable(str(error)) from None
        if len(target.start) != target.outputs and target.task_type != "recommendation":
            raise _unreadable(f"{len(target.start)} logits for {target.outputs} outputs")
        return target


def _unreadable(why: str) -> GelgtError:
    return GelgtError("bad_run", f"The run's target is not readable ({why}).", hint="Train again.")


def _sigmoid(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """In numpy: PyTorch computes the last few elements of an array by another exponential than the
    rest, so that the last bit of a probability would depend on how many rows stand beside it."""
    small = np.exp(-np.abs(np.ascontiguousarray(values)))
    return np.asarray(np.where(values >= 0, 1.0, small) / (1.0 + small))


def mostly_alike(labels: NDArray[Any]) -> tuple[float, float] | None:
    """The value that most of some regression labels have, and the share that has it; None where
    there is no such value, or no other."""
    values, counts = np.unique(labels[np.isfinite(labels)], return_counts=True)
    if len(values) < 2 or counts.max() < MOSTLY * counts.sum():
        return None
    return float(values[counts.argmax()]), float(counts.max() / counts.sum())
