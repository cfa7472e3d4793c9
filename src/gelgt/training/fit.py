"""`Trainer`: the fit loop of one network. Adam, warm-up, gradient clipping, early stopping on the
validation score, checkpoints.

    resume → for each epoch: steps, validation score, keep the best weights, checkpoint → choose

Every step seeds its own dropout from (run seed, step, part), and the order of an epoch depends on
the run's generator and the epoch alone. So a run that was killed and resumed takes the same steps
as one that was not, and ends with the same weights.
"""

import time
from collections.abc import Generator
from contextlib import closing
from functools import partial
from itertools import chain, islice
from typing import Any

import torch
from numpy.typing import NDArray

from gelgt.config import TrainConfig
from gelgt.metrics import is_better
from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.runs.record import Epoch
from gelgt.sampling import Seeds, SubgraphLoader
from gelgt.scoring.lanes import Lanes
from gelgt.scoring.replay import why_not_recorded
from gelgt.scoring.scorer import autocast
from gelgt.training.checkpoint import Snapshot, State, load_checkpoint, save_checkpoint
from gelgt.training.choice import choose_weights
from gelgt.training.data import TrainingData
from gelgt.training.examples import learnable, nothing_to_learn
from gelgt.training.optimiser import make_optimiser, set_rates
from gelgt.training.session import Goal, Session
from gelgt.training.step_setup import StepSetup
from gelgt.training.steps import EagerSteps, Part, RecordedSteps
from gelgt.training.team import Team
from gelgt.training.validation import check_loss, validated, validation_scores
from gelgt.training.weights import BestEpochs, MovingAverage, moved

CHECKPOINT_SECONDS = 60.0  # a checkpoint is written at least so often, and after every epoch
PARTS = 2  # of a batch that are worked on side by side on a CPU


class Trainer:
    """Trains one network on one `TrainingData`.

    Args:
        model: Fresh; it is trained in place, and left with the best weights.
        data: Seeds, labels, batches.
        config: How.
        device: Where.
        goal: What is learned, and for how long.
        session: Checkpoints and progress.
        is_recorded: Whether steps are recorded as CUDA graphs where that is possible.
        parts: That a batch is divided into; if None as the checkpoint has it, or as many as the
            workers compute at once.
    """

    def __init__(
        self,
        model: RelationalModel,
        data: TrainingData,
        config: TrainConfig,
        device: torch.device | str = "cpu",
        *,
        goal: Goal | None = None,
        session: Session | None = None,
        is_recorded: bool = True,
        parts: int | None = None,
    ) -> None:
        self.model, self.data, self.config = model.to(device), data, config
        self.device, self.goal = torch.device(device), goal or Goal()
        self.session = session or Session()
        order = config.seed if self.goal.order is None else self.goal.order
        shared = config.model_copy(update={"seed": order})
        seeds, labels = learnable(data, self.goal.splits, shared)
        self.labels = labels
        if not len(seeds):
            raise nothing_to_learn(data)
        self.workers = self.session.workers
        self.team = Team.of(self.workers)
        self._begun = self._checkpoint()
        self.parts = parts or self._usual_parts()
        self.mine = range(self.parts) if self.workers is None else self.workers.mine(self.parts)
        beside = self.session.beside
        self.loader: SubgraphLoader = (
            data.loader(
                seeds,
                -(-config.batch_size // self.parts),
                torch.Generator().manual_seed(order),
            )
            if beside is None
            else beside.loader
        )
        self.steps = self._steps_of_epoch(len(seeds))
        self.why_eager = self._why_eager(is_recorded)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)  # of the layer for futures, where the objective adds one
            objective = data.objective(model, seeds, labels, self.goal.splits, self.device)
        self.optimiser = make_optimiser(model, config, is_recorded=self.why_eager is None)
        self.rates = [float(group["lr"]) for group in self.optimiser.param_groups]
        self.average = MovingAverage(model, config.weight_average)
        self.setup = StepSetup(
            model,
            objective,
            self.optimiser,
            config.clip,
            lambda: autocast(config.precision, self.device),
            self.device,
            self.average,
            self.workers,
        )
        self.lanes = Lanes(min(len(self.mine), PARTS) if self.device.type == "cpu" else 1)
        self.eager = EagerSteps(self.setup, self.lanes)
        self.recorded = self.record() if self.why_eager is None else None
        self.scorer = data.scorer(Ensemble([model]), self.device, config.precision)
        self.best = BestEpochs(data.target.metric, config.best_epochs, self.goal.epochs)
        columns = None if data.chosen is None else len(data.chosen.columns)
        self.state = State(columns=columns, parts=self.parts)

    def _usual_parts(self) -> int:
        if self._begun is not None:
            return self._begun[0].parts
        each = 1 if self.device.type != "cpu" or self.model.is_coupled else PARTS
        return each * (1 if self.workers is None else self.workers.size)

    def _steps_of_epoch(self, seeds: int) -> int:
        """An epoch is no longer for its stale copies, of which it sees a part."""
        windows = [self.data.windows(split, self.config.windows)[0] for split in self.goal.splits]
        rows = min(seeds, sum(map(len, windows)))
        steps = -(-rows // (self.loader.batch_size * self.parts))
        return min(steps, self.config.steps_per_epoch or steps)

    def _why_eager(self, is_recorded: bool) -> str | None:
        """Why steps are not recorded; None where they are."""
        if not is_recorded:
            return "not asked for"
        reason = (
            why_not_recorded(self.model, self.data, self.device)
            if self.model.recommender is None
            else "recommendations have candidates, whose number differs"
        )
        if reason is not None and self.device.type == "cuda":
            self.session.progress.notice(f"steps are not recorded as CUDA graphs: {reason}")
        return reason

    def record(self) -> RecordedSteps:
        """Steps as CUDA graphs, whose rates are read from the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = torch.tensor(float(group["lr"]), device=self.device)
        beside = self.session.beside
        if beside is not None and beside.recorded is not None:
            return beside.recorded.beside(self.setup)
        is_split = self.parts > 1 or self.workers is not None
        return RecordedSteps.over(self.setup, self.data, self.loader, is_split)

    def run(self) -> State:
        """Train to the end, from the folder's checkpoint if there is one."""
        self.resume()
        team = self.team
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), self.lanes:
            if team is not None:
                team.begin(self)
            while not self.state.ended:
                self._epoch()
            choose_weights([self], lambda asked: [trainer._validate() for trainer in asked])
        self.finish()
        return self.state

    # One epoch, or the rest of it.
    def _epoch(self) -> None:
        state, began, saved = self.state, time.perf_counter(), time.perf_counter()
        if self.team is not None:
            self.team.begin_epoch(self)
        with closing(self.batches()) as batches:
            for parts in batches:
                if self.team is not None:
                    self.team.begin_step()
                self._step(parts, self.rows(state.step))
                now = time.perf_counter()
                self.count_step(now - began)
                began = now
                self.tell_step()
                if self.is_over():
                    break
                if now - saved > CHECKPOINT_SECONDS:
                    self.save()
                    saved = now
        self._close_epoch(began)

    def batches(self) -> Generator[list[Any], None, None]:
        """For each step that is left of the epoch, this worker's parts of its batch: the order of
        all seeds follows from seed and epoch, and each worker takes its own of every batch."""
        state, last = self.state, len(self.loader)
        if self.recorded is not None:
            self.recorded.begin_epoch(state.epoch)
        of_steps = [
            [number for part in self.mine if (number := step * self.parts + part) < last]
            for step in range(state.step, self.steps)
        ]
        with closing(self.loader.batches(state.epoch, chain.from_iterable(of_steps))) as batches:
            for numbers in of_steps:
                yield list(islice(batches, len(numbers)))

    def rows(self, step: int) -> int:
        """The rows of a step, of all workers together."""
        whole = self.loader.batch_size * self.parts
        return min(whole, len(self.loader.seeds) - step * whole)

    def count_step(self, seconds: float) -> None:
        """A step is taken, which took so long."""
        state = self.state
        state.step, state.total = state.step + 1, state.total + 1
        state.seconds += seconds

    def tell_step(self) -> None:
        """Say how far the epoch has come."""
        state = self.state
        done = state.step - (len(self.recorded.waiting) if self.recorded else 0)
        mean_loss = state.loss / max(1, done)
        self.session.progress.step(
            state.epoch + 1, state.step, self.steps, mean_loss, state.seconds
        )

    def is_over(self) -> bool:
        """Whether the user or the limit ends training, which the state then says."""
        limit = self.config.time_limit
        if self.session.stop():
            self.state.ended = "interrupted"
        elif limit is not None and self.state.seconds >= limit:
            self.state.ended = "time limit"
        return bool(self.state.ended)

    def _close_epoch(self, began: float) -> None:
        self.collect()
        is_whole = self.state.step >= self.steps
        if not is_whole:
            # Saved before a part of an epoch is scored: a resumed run first takes its other steps.
            self.save()
        if is_whole or self.needs_score:
            with self.average.evaluated():
                scores = self._validate() if self.goal.is_validated else {}
                self.enter_epoch(scores, began)
        if is_whole:
            self.end_epoch()
            self.save()

    @property
    def needs_score(self) -> bool:
        """Whether a part of an epoch is all that there is to choose from."""
        return bool(self.state.step) and not self.best.weights

    def end_epoch(self) -> None:
        """All steps of an epoch are taken and it is scored: begin the next, if there is one."""
        state = self.state
        state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
        state.ended = state.ended or self._enough()

    def _enough(self) -> str:
        """Why no further epoch is taken, if none is."""
        if self.goal.is_validated and self.state.waited >= self.config.patience:
            return "no better validation score"
        last = max(self.goal.epochs, default=self.config.epochs)
        return "all epochs" if self.state.epoch >= last else ""

    def enter_epoch(self, scores: dict[str, float], began: float) -> None:
        """Enter the validation scores of the weights as they are, and keep these if they are among
        the best."""
        state, metric = self.state, self.data.target.metric
        value = scores.get(metric)
        self.best.keep(state.best_epochs, state.epoch + 1, value, self.model)
        if value is None or is_better(metric, value, state.best):
            state.best, state.best_epoch, state.waited = value, state.epoch + 1, 0
        else:
            state.waited += 1
        kernels = self.model.temporal_profile()
        state.seconds += time.perf_counter() - began
        record = state.add_record(scores, self._rate(state.total - 1) * self.rates[0], kernels)
        network = self.session.member + 1
        self.session.progress.epoch(Epoch.model_validate(record), state.best_epoch, network)

    def finish(self) -> None:
        """Leave the network as one that predicts: without the layer for futures."""
        self.model.expect(0)
        self.model.eval()

    def _validate(self) -> dict[str, float]:
        places = validated(self.data, self.config)
        if not len(places):
            return {}
        seeds = self.data.seeds["val"].take(places)
        predict = self.predict if self.team is None else partial(self.team.predict, self)
        return validation_scores(self.data, self.config, predict(seeds), self.state.epoch + 1)

    def predict(self, seeds: Seeds) -> NDArray[Any]:
        """Predictions with the weights as they are."""
        return self.scorer.predict(seeds).together

    # One step.
    def _step(self, batches: list[Any], rows: int) -> None:
        """A step over this worker's parts of a batch of so many rows; losses are added in order,
        some of them later."""
        self.prepare_step()
        state, recorded = self.state, self.recorded
        parts = [
            Part(inputs, self.dropout_seed(number), rows)
            for number, inputs in zip(self.mine, batches)
        ]
        if recorded is None:
            state.loss += self.eager.step(parts)
        else:
            recorded.step(parts, self.eager)
            state.loss = recorded.collect(state.loss)

    def prepare_step(self) -> None:
        """Set the rates of the next step, its share in the average, and the model to training."""
        set_rates(self.optimiser, self.rates, self._rate(self.state.total))
        self.average.begin(self.state.total + 1)
        if not self.model.training:
            self.model.train()

    def collect(self) -> None:
        """Wait for the losses of all steps so far, and check that they are numbers."""
        state = self.state
        if self.recorded is not None:
            state.loss = self.recorded.collect(state.loss, 0)
        check_loss(self.config, state.loss, state.epoch + 1)

    def dropout_seed(self, part: int) -> int:
        """Of a part of the next step."""
        return ((self.config.seed * 1_000_003 + self.state.total) * 64 + part) % 2**63

    def _rate(self, step: int) -> float:
        """The rate of a step over the configured one."""
        return min(1.0, (step + 1) / self.config.warmup) if self.config.warmup else 1.0

    # Checkpoints.
    def save(self) -> None:
        """Write a checkpoint, if there is a folder for it."""
        session = self.session
        if session.folder is None:
            return
        self.collect()
        snapshot = Snapshot(
            self.model.state_dict(),
            self.best.weights,
            self.average.values,
            self.optimiser.moments(),
        )
        save_checkpoint(session.folder, self.state, snapshot, session.key, session.member)

    def _checkpoint(self) -> tuple[State, Snapshot] | None:
        session = self.session
        if session.folder is None:
            return None
        return load_checkpoint(session.folder, session.key, session.member)

    def resume(self) -> None:
        """Go on from the folder's checkpoint, if there is one."""
        if self._begun is None:
            return
        self.state, snapshot = self._begun
        if self.state.ended in ("interrupted", "time limit"):
            # To go on is what resuming is for, where an epoch is left; a limit that is still spent
            # ends it again.
            self.state.ended = "" if self.state.step else self._enough()
        self.model.load_state_dict(snapshot.model)
        self.best.weights = [moved(weights, self.device) for weights in snapshot.best]
        self.average.values = moved(snapshot.average, self.device)
        self.optimiser.load_moments(snapshot.moments)
        network = self.session.member + 1
        self.session.progress.resumed(self.state.epoch, self.state.step, network)
