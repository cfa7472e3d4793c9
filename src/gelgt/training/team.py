"""`Team`: how rank 0 leads the training of a network. What it orders is done in `follow.py`."""

import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.sampling import Seeds
from gelgt.training.optimiser import Moments
from gelgt.training.workers import Workers, shares

if TYPE_CHECKING:
    from gelgt.training.fit import Trainer


class Team:
    """Leads the workers.

    Followers hold the weights and moments of the leader, add up gradients with it, and take the
    same steps. What is left to choose (when to stop, which epochs are the best) the leader chooses
    alone.
    """

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    @classmethod
    def of(cls, workers: Workers | None) -> "Team | None":
        """The team of a leader; None for whoever works alone or follows."""
        return cls(workers) if workers is not None and workers.is_leader else None

    def begin(self, trainer: "Trainer") -> None:
        """Everyone makes the same trainer.

        Raises:
            GelgtError: a worker cannot, or reads other labels.
        """
        moments = trainer.optimiser.moments()
        self.workers.order(
            do="fit",
            member=trainer.session.member,
            splits=trainer.goal.splits,
            epochs=trainer.goal.epochs,
            parts=trainer.parts,
            steps=trainer.steps,
            reads_history=trainer.model.history is not None,
            data=trainer.data.shared(),
            digest=digest(trainer),
            moments=[
                [number, name, list(values[name].shape)]
                for number, values in sorted(moments.items())
                for name in sorted(values)
            ],
        )
        self.workers.agree()
        self.workers.spread(list(trainer.model.state_dict().values()))
        self.workers.spread(flat_moments(moments))

    def begin_epoch(self, trainer: "Trainer") -> None:
        """An epoch begins, or goes on where it was left; everyone has the leader's weights, should
        another machine's have rounded otherwise."""
        state = trainer.state
        self.workers.order(do="epoch", epoch=state.epoch, step=state.step, total=state.total)
        self.workers.spread(list(trainer.model.state_dict().values()))

    def begin_step(self) -> None:
        self.workers.order_step()

    def predict(self, trainer: "Trainer", seeds: Seeds) -> NDArray[Any]:
        """Predictions of validation rows with the weights as they are, a stretch by each worker, in
        the order of the rows."""
        self.workers.order(do="score")
        self.workers.spread(list(trainer.model.state_dict().values()))
        return shared_predictions(trainer, self.workers, seeds)


def shared_predictions(trainer: "Trainer", workers: Workers, seeds: Seeds) -> NDArray[Any]:
    """Everyone's part of predictions, put together."""
    mine = seeds.take(stretches(trainer, seeds, workers.size)[workers.rank])
    return np.concatenate(workers.gather(trainer.predict(mine)))


def stretches(trainer: "Trainer", seeds: Seeds, count: int) -> list[NDArray[np.int64]]:
    """The places of seeds in as many stretches as there are workers, each of whole batches: the
    same seeds are predicted together, whatever the number of workers."""
    batch = trainer.scorer.batch_size
    there = np.flatnonzero(trainer.data.exists(seeds))
    batches = -(-len(there) // batch)
    cuts = [there[share.start * batch] if len(share) else None for share in shares(batches, count)]
    ends: list[int] = [len(seeds)]
    for cut in reversed(cuts[1:]):
        ends.append(ends[-1] if cut is None else int(cut))
    borders = [0, *reversed(ends)]
    return [np.arange(first, last) for first, last in pairwise(borders)]


def flat_moments(moments: Moments) -> list[Tensor]:
    """The tensors of an optimiser's state, in a fixed order."""
    return [moments[number][name] for number in sorted(moments) for name in sorted(moments[number])]


def empty_moments(names: list[tuple[int, str, list[int]]]) -> Moments:
    """Room for the moments that a message names."""
    moments: Moments = {}
    for number, name, shape in names:
        moments.setdefault(number, {})[name] = torch.zeros(shape)
    return moments


def digest(trainer: "Trainer") -> str:
    """Of the seeds that are learned from and their labels."""
    seeds = trainer.loader.seeds
    content = hashlib.blake2b(digest_size=16)
    for values in (seeds.node, seeds.time, seeds.asked, trainer.labels):
        content.update(np.ascontiguousarray(values).tobytes())
    return content.hexdigest()
