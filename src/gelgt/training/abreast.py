"""`SideBySide`: several networks of a run trained at once on one device.

A batch is sampled, packed and sent once, and the steps of all networks are one record, in which
each has a stream of its own, since the kernels of one are too small to fill a GPU: on an H200, with
the preset `gpu`, three take 1.6 times as long as one, and five 2.2 times. Each network takes the
steps that it would take alone: it has its own weights, moments, dropout and early stopping, and all
networks of a run see the same examples in the same order.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import Any

import torch
from torch import Tensor

from gelgt.nn.ensemble import Ensemble
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import StaticBatch
from gelgt.scoring.replay import Replay, one_for_all, side_by_side
from gelgt.scoring.scorer import Scorer
from gelgt.training.checkpoint import State
from gelgt.training.choice import choose_weights
from gelgt.training.fit import CHECKPOINT_SECONDS, Trainer
from gelgt.training.steps import Part, RecordedSteps
from gelgt.training.validation import validated, validation_scores

MOST = 5  # networks at once; more were not tried
SAVED = 10.0  # seconds after which checkpoints are written at the end of an epoch


class SideBySide:
    """Trains several networks.

    Args:
        trainers: Of networks of one configuration; all but the first stand beside it, and their
            steps are recorded.
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers, self.first = list(trainers), trainers[0]
        self.validation = Validation(trainers)
        self.saved = time.perf_counter()

    def run(self) -> list[State]:
        """Train all of them to the end, from the folder's checkpoints where there are some."""
        for trainer in self.trainers:
            trainer.resume()
        devices = [self.first.device] if self.first.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices):
            record: Record | None = None
            while going := [trainer for trainer in self.trainers if not trainer.state.ended]:
                here = _furthest_behind(going)
                if record is None or not record.suits(here):
                    record = Record(here)
                self._epoch(here, record)
            choose_weights(self.trainers, self.validation.scores)
        for trainer in self.trainers:
            trainer.finish()
        return [trainer.state for trainer in self.trainers]

    def _epoch(self, here: list[Trainer], record: "Record") -> None:
        """One epoch of some networks that stand at the same step, or the rest of it, or until one
        of them ends."""
        lead, began = min(here, key=lambda trainer: trainer.steps), time.perf_counter()
        with closing(lead.batches()) as batches:
            for (batch,) in batches:
                record.step(here, batch, lead.rows(lead.state.step))
                now = time.perf_counter()
                for trainer in here:
                    trainer.count_step(now - began)
                began = now
                lead.tell_step()
                over = [trainer.is_over() for trainer in here]  # asked of all
                if any(over):
                    break
                if now - self.saved > CHECKPOINT_SECONDS:
                    self._save(here)
        for trainer in here:
            trainer.collect()
        whole = [trainer for trainer in here if trainer.state.step >= trainer.steps]
        cut = [trainer for trainer in here if trainer.state.ended and trainer not in whole]
        self._save(cut)  # before a part of an epoch is scored, as a single network does
        scored = whole + [trainer for trainer in cut if trainer.needs_score]
        self._score(scored, began)
        for trainer in whole:
            trainer.end_epoch()
        is_time = time.perf_counter() - self.saved > SAVED
        self._save(whole if is_time else [t for t in whole if t.state.ended])

    def _score(self, scored: list[Trainer], began: float) -> None:
        """Score the validation rows with all networks at once."""
        with ExitStack() as stack:
            for trainer in scored:
                stack.enter_context(trainer.average.evaluated())
            for trainer, scores in zip(scored, self.validation.scores(scored)):
                trainer.enter_epoch(scores, began)

    def _save(self, trainers: Sequence[Trainer]) -> None:
        for trainer in trainers:
            trainer.save()
        if trainers:
            self.saved = time.perf_counter()


class Validation:
    """Scores the validation rows with several networks at once, also with some that have ended:
    one record serves to the end."""

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers, first = list(trainers), trainers[0]
        networks, precision = Ensemble([t.model for t in trainers]), first.config.precision
        self.scorer = Scorer(
            networks, first.data, first.device, precision=precision, is_recorded=True
        )

    def scores(self, of: Sequence[Trainer]) -> list[dict[str, float]]:
        """Validation scores of some of the networks, with their weights as they are."""
        first = self.trainers[0]
        places = validated(first.data, first.config)
        if not of or not first.goal.is_validated or not len(places):
            return [{} for _ in of]
        predicted = self.scorer.predict_each(first.data.seeds["val"].take(places))
        return [
            validation_scores(t.data, t.config, predicted[place], t.state.epoch + 1)
            for t, place in zip(of, map(self.trainers.index, of))
        ]


class Record:
    """The steps of some networks as one, and their predictions.

    A network that has ended stays in it until half of them have: to record takes longer than a few
    of its steps, which are not counted.
    """

    def __init__(self, trainers: Sequence[Trainer]) -> None:
        self.trainers, first = list(trainers), trainers[0]
        self.device = first.device
        self.steps: list[RecordedSteps] = [recorded_steps(trainer) for trainer in trainers]
        together = side_by_side([steps.work for steps in self.steps], self.device)
        self.replay = Replay(together, self.device, self.steps[0].unchanged, self._trial)

    def suits(self, here: Sequence[Trainer]) -> bool:
        """Whether it is a record of the steps of some networks, and of few that have ended."""
        others = [trainer for trainer in self.trainers if trainer not in here]
        return len(others) + len(here) == len(self.trainers) and (
            len(here) > len(others) and all(trainer.state.ended for trainer in others)
        )

    def step(self, here: Sequence[Trainer], batch: Any, rows: int) -> None:
        """A step of some of the networks over a batch; losses can be collected later."""
        for trainer in here:
            trainer.prepare_step()
        # Also those that have ended: a shape may be recorded now, with the layers of training.
        for trainer in self.trainers:
            if not trainer.model.training:
                trainer.model.train()
        if isinstance(batch, StaticBatch):
            for trainer in here:
                recorded_steps(trainer).begin()
                recorded_steps(trainer).seed.fill_(trainer.dropout_seed(0))
            losses = self.replay(batch, self.steps[0].history)
            for steps, loss, trainer in zip(self.steps, losses, self.trainers):
                if trainer in here:
                    steps.later(loss)
        else:
            for trainer in here:
                part = Part(batch, trainer.dropout_seed(0), rows)
                recorded_steps(trainer).waiting.append(trainer.eager.step([part]))
        for trainer in here:
            trainer.state.loss = recorded_steps(trainer).collect(trainer.state.loss)

    def _trial(self, inputs: StaticInput) -> Tensor:
        """A step of the first network in place of all: the others launch the same kernels."""
        losses = one_for_all([steps.work for steps in self.steps])(inputs)
        for steps in self.steps[1:]:
            steps.begin_like(self.steps[0])
        return losses


def recorded_steps(trainer: Trainer) -> RecordedSteps:
    """The recorded steps of a trainer that has some."""
    assert trainer.recorded is not None, "networks without recorded steps are trained alone"
    return trainer.recorded


def _furthest_behind(trainers: Sequence[Trainer]) -> list[Trainer]:
    """Those that stand at the earliest step: where a run was killed between two checkpoints, the
    others wait for them."""
    places = [(trainer.state.epoch, trainer.state.step) for trainer in trainers]
    return [trainer for trainer, place in zip(trainers, places) if place == min(places)]
