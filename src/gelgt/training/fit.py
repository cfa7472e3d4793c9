"""The fit loop: Adam, warm-up, gradient clipping, early stopping on the validation metric,
checkpoints.

Every step seeds its own dropout from (run seed, step, part), and the order of an epoch depends on
the run's generator and the epoch alone. So a run that was killed and resumed takes the same steps
as one that was not, and ends with the same weights.

On a CPU a step works on `parts` of its batch side by side, and adds their gradients up in order:
the same sums on any number of cores.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelgt.config import TrainConfig
from gelgt.metrics import SMALLER_IS_BETTER, is_better, score, uncertainty
from gelgt.nn import GelGTModel, ModelInput, RelationalModel
from gelgt.nn.dropout import own_dropout
from gelgt.nn.static.pack import StaticBatch
from gelgt.training.checkpoint import State, load_checkpoint, save_checkpoint
from gelgt.training.data import TrainingData, learnable, nothing_to_learn
from gelgt.training.graphed import Steps, make_steps, why_not_graphed
from gelgt.training.lanes import Lanes
from gelgt.training.objective import Objective
from gelgt.training.optimiser import limit_gradients, make_optimiser
from gelgt.training.predict import autocast, predict_seeds
from gelgt.training.progress import Progress

# of the uncertainty of a validation score: what the mean of several epochs may be worse than the
# best by
DOUBT = 0.25
CHECKPOINT_SECONDS = 60.0  # a checkpoint is written at least so often, and after every epoch
PARTS = 2  # of a batch that are worked on side by side on a CPU


class Trainer:
    """Trains one model on one `TrainingData`.

    Args:
        model: Fresh; it is trained in place, and left with the best weights.
        data: Seeds, labels, batches.
        config: How.
        device: Where.
        folder: For checkpoints; None writes none.
        key: What the run depends on; a checkpoint of another key is refused.
        member: Its number among models that are trained one after the other; each has a checkpoint
            of its own.
        splits: Whose labels are learned from.
        watch: Whether validation decides; a retrain has nothing to watch and takes all its epochs.
        mixed: Without watching, the epochs whose mean weights are taken, the last of which ends it;
            none: the last of all.
        progress: Is told of every step and epoch.
        stop: Asked after every step; true ends training early, with the best weights so far.
        is_graphed: Whether steps are recorded as CUDA graphs where that is possible.
    """

    def __init__(
        self,
        model: RelationalModel,
        data: TrainingData,
        config: TrainConfig,
        device: torch.device | str = "cpu",
        *,
        folder: Path | None = None,
        key: str = "",
        member: int = 0,
        splits: tuple[str, ...] = ("train",),
        watch: bool = True,
        mixed: tuple[int, ...] = (),
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
        is_graphed: bool = True,
    ) -> None:
        self.model, self.data, self.config = model.to(device), data, config
        self.device, self.folder, self.key, self.watch = torch.device(device), folder, key, watch
        self.progress, self.stop, self.member, self.mixed = (
            progress or Progress(),
            stop,
            member,
            mixed,
        )
        seeds, labels = learnable(data, splits, config)
        if not len(seeds):
            raise nothing_to_learn(data)
        self.objective = Objective(data.target, data.target.encode(labels).to(self.device))
        self.parts = parts_of(model, config, self.device)
        self.loader = data.loader(
            seeds, -(-config.batch_size // self.parts), torch.Generator().manual_seed(config.seed)
        )
        rows = min(len(seeds), sum(len(data.windows(split, config.windows)[0]) for split in splits))
        # an epoch is no longer for its stale copies, of which it sees a part
        steps = -(-rows // (self.loader.batch_size * self.parts))
        self.steps = min(steps, config.steps_per_epoch or steps)
        self.lanes = Lanes(self.parts)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.why_eager = (
            why_not_graphed(model, data, self.device) if is_graphed else "not asked for"
        )
        if is_graphed and self.why_eager is not None and self.device.type == "cuda":
            self.progress.notice(f"steps are not recorded as CUDA graphs: {self.why_eager}")
        is_graphed = self.why_eager is None
        self.optimiser = make_optimiser(model, config, is_graphed=is_graphed)
        self.rates = [float(group["lr"]) for group in self.optimiser.param_groups]
        self.graphed: Steps | None = self._record() if is_graphed else None
        self.average = (
            {n: p.detach().clone() for n, p in model.named_parameters()}
            if config.weight_average
            else {}
        )
        self.best: list[dict[str, Tensor]] = []  # the weights of `state.kept`
        self.state = State()

    def run(self) -> State:
        """Train to the end, from the folder's checkpoint if there is one."""
        self._resume()
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), self.lanes:
            while not self.state.ended:
                self._epoch()
            if self.best:
                self._choose()
        self.model.eval()
        return self.state

    def _choose(self) -> None:
        """Take the mean of the best epochs' weights, unless validation finds it worse than the best
        epoch, beyond doubt."""
        state, metric = self.state, self.data.target.metric
        state.mixed = []
        if not self.watch and len(self.best) > 1:
            self.model.load_state_dict(_mean(self.best))
            state.mixed = sorted(epoch for epoch, _ in state.kept)
            return
        if len(self.best) > 1 and state.best is not None:
            self.model.load_state_dict(_mean(self.best))
            found = self._validate()[metric]
            doubt = DOUBT * uncertainty(
                self.data.target.task_type, state.best, self.data.labels("val")
            )
            if not is_better(
                metric, state.best, found - doubt if metric in SMALLER_IS_BETTER else found + doubt
            ):
                state.mixed = sorted(epoch for epoch, _ in state.kept)
                return
        self.model.load_state_dict(self.best[0])

    # One epoch, or the rest of it.
    def _epoch(self) -> None:
        state, began, saved = self.state, time.perf_counter(), time.perf_counter()
        batches = self.loader.epoch(state.epoch, state.step * self.parts)
        try:
            while parts := list(islice(batches, self.parts)):
                self._take(parts)
                state.step, state.total = state.step + 1, state.total + 1
                now = time.perf_counter()
                state.seconds, began = state.seconds + now - began, now
                known = state.step - (len(self.graphed.waiting) if self.graphed else 0)
                self.progress.step(
                    state.epoch + 1,
                    state.step,
                    self.steps,
                    state.loss / max(1, known),
                    state.seconds,
                )
                if self._is_over() or state.step >= self.steps:
                    break
                if now - saved > CHECKPOINT_SECONDS:
                    self.save()
                    saved = now
        finally:
            batches.close()  # type: ignore[attr-defined]  # it is a generator
        self._close_epoch(began)

    def _is_over(self) -> bool:
        limit = self.config.time_limit
        if self.stop():
            self.state.ended = "interrupted"
        elif limit is not None and self.state.seconds >= limit:
            self.state.ended = "time limit"
        return bool(self.state.ended)

    def _close_epoch(self, began: float) -> None:
        state = self.state
        self._collect()
        is_whole = state.step >= self.steps
        if not is_whole:
            # before the part of an epoch is judged: a resumed run takes its other steps first
            self.save()
            if state.step and not self.best:
                self._judge(began)
            return
        self._judge(began)
        state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
        state.ended = state.ended or self._enough()
        self.save()

    def _enough(self) -> str:
        """Why no further epoch is taken, if none is."""
        if self.watch and self.state.waited >= self.config.patience:
            return "no better validation score"
        return (
            "all epochs"
            if self.state.epoch >= (max(self.mixed) if self.mixed else self.config.epochs)
            else ""
        )

    def _judge(self, began: float) -> None:
        """Score the validation rows and keep the weights if they are the best."""
        state, metric = self.state, self.data.target.metric
        with self.averaged():
            scores = self._validate() if self.watch else {}
            value = scores.get(metric)
            self._keep(value)
            # nothing to compare: the newest are kept
            if value is None or is_better(metric, value, state.best):
                state.best, state.best_epoch, state.waited = value, state.epoch + 1, 0
            else:
                state.waited += 1
            kernels = [[_span(kernel) for kernel in each] for each in self.model.temporal_profile()]
        state.seconds += time.perf_counter() - began
        record = {
            "epoch": state.epoch + 1,
            "step": state.total,
            "seconds": round(state.seconds, 2),
            "loss": state.loss / state.step,
            "val": scores,
            "rate": self._rate(state.total - 1) * self.rates[0],
        } | ({"kernels": kernels} if kernels else {})
        state.history.append(record)
        self.progress.epoch(record, state.best_epoch)

    def _keep(self, value: float | None) -> None:
        """Keep the weights if they are among the best; without scores the newest are, or those of
        the epochs that were asked for."""
        state, metric, epoch = self.state, self.data.target.metric, self.state.epoch + 1
        if value is None:
            wanted = [place for place, (kept, _) in enumerate(state.kept) if kept in self.mixed]
            if wanted and epoch not in self.mixed:
                return
            state.kept, self.best = (
                [state.kept[place] for place in wanted],
                [self.best[place] for place in wanted],
            )
            place, most = len(wanted), len(wanted) + 1
        else:
            place = next(
                (i for i, (_, kept) in enumerate(state.kept) if is_better(metric, value, kept)),
                len(state.kept),
            )
            most = self.config.best_epochs
        if place >= most:
            return
        weights = {
            name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()
        }
        state.kept = [*state.kept[:place], (epoch, value), *state.kept[place:]][:most]
        self.best = [*self.best[:place], weights, *self.best[place:]][:most]

    # One step.
    def _take(self, parts: list[Any]) -> None:
        """A step, by replay where its batch is packed; losses are added in order, some of them
        later."""
        state, graphed = self.state, self.graphed
        if graphed is None:
            state.loss += self._step(parts)
            return
        if isinstance(parts[0], StaticBatch):
            self._prepare()
            graphed.step(parts[0], self._seed(0))
            self._move_average()
        else:
            graphed.waiting.append(self._step(parts))
        state.loss = graphed.collect(state.loss)

    def _prepare(self) -> None:
        factor = self._rate(self.state.total)
        for group, rate in zip(self.optimiser.param_groups, self.rates):
            group["lr"] = _set(group["lr"], rate * factor)
        self.model.train()

    def _record(self) -> Steps:
        """Steps as CUDA graphs, whose rates are read from the device."""
        for group in self.optimiser.param_groups:
            group["lr"] = torch.tensor(float(group["lr"]), device=self.device)
        assert isinstance(self.model, GelGTModel)  # `why_not_graphed` has seen to it
        made = (self.model, self.data, self.loader, self.objective, self.optimiser)
        return make_steps(*made, self.config.clip, self._precision, self.device)

    def _collect(self) -> None:
        """Wait for the losses of all steps so far."""
        if self.graphed is not None:
            self.state.loss = self.graphed.collect(self.state.loss, 0)

    def _seed(self, part: int) -> int:
        return ((self.config.seed * 1_000_003 + self.state.total) * 64 + part) % 2**63

    def _step(self, parts: list[ModelInput]) -> float:
        self._prepare()
        rows = sum(len(part.batch.index) for part in parts)
        done = self.lanes.map(
            self._part, ((number, part, rows) for number, part in enumerate(parts))
        )
        loss, gradients = next(done)
        for more, others in done:
            loss = loss + more
            gradients = [_sum(own, other) for own, other in zip(gradients, others)]
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = None if gradient is None else gradient.contiguous()
        limit_gradients(self.parameters, self.config.clip)
        self.optimiser.step()
        self._move_average()
        return float(loss)

    def _part(self, job: tuple[int, ModelInput, int]) -> tuple[Tensor, list[Tensor | None]]:
        """Loss and gradients of one part of a batch, weighted by its share of the rows."""
        number, inputs, rows = job
        seed = self._seed(number)
        if self.device.type == "cuda":
            torch.manual_seed(seed)
        with own_dropout(seed), torch.enable_grad():
            inputs = inputs.to(self.device)
            with self._precision():
                out = self.model(inputs)
            index = inputs.batch.index
            loss = self.objective.loss(out, index) * (len(index) / rows)
            return loss.detach(), list(
                torch.autograd.grad(loss, self.parameters, allow_unused=True)
            )

    def _rate(self, step: int) -> float:
        """The rate of a step over the configured one."""
        config = self.config
        if step < config.warmup:
            return (step + 1) / config.warmup
        return 1.0

    @torch.no_grad()
    def _move_average(self) -> None:
        if not self.average:
            return
        done = self.state.total + 1
        decay = min(self.config.weight_average, done / (done + 9))  # young averages forget faster
        names, parameters = zip(*self.model.named_parameters())
        torch._foreach_lerp_([self.average[name] for name in names], list(parameters), 1 - decay)

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The model with its averaged weights, for as long as it is evaluated."""
        own = (
            {name: p.detach().clone() for name, p in self.model.named_parameters()}
            if self.average
            else {}
        )
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in self.average:
                    parameter.copy_(self.average[name])
        yield
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if name in own:
                    parameter.copy_(own[name])

    def _precision(self) -> AbstractContextManager[Any]:
        return autocast(self.config, self.device)

    def _validate(self) -> dict[str, float]:
        seeds, labels = self.data.seeds["val"], self.data.labels("val")
        if len(seeds) > self.config.eval_rows:
            places = np.linspace(0, len(seeds) - 1, self.config.eval_rows).astype(np.int64)
            seeds, labels = seeds.take(places), labels[places]
        if len(seeds) == 0:
            return {}
        return score(
            self.data.target.task_type,
            labels,
            predict_seeds(self.model, self.data, seeds, self.config, self.device),
        )

    # Checkpoints.
    def save(self) -> None:
        """Write a checkpoint, if there is a folder for it."""
        if self.folder is None:
            return
        self._collect()
        tensors = {f"model/{n}": t for n, t in self.model.state_dict().items()}
        tensors |= {
            f"best/{place}/{n}": t
            for place, weights in enumerate(self.best)
            for n, t in weights.items()
        }
        tensors |= {f"average/{n}": t for n, t in self.average.items()}
        for place, moments in self.optimiser.state_dict()["state"].items():
            tensors |= {f"adam/{place}/{name}": value for name, value in moments.items()}
        save_checkpoint(self.folder, self.state, tensors, self.key, self.member)

    def _resume(self) -> None:
        found = None if self.folder is None else load_checkpoint(self.folder, self.key, self.member)
        if found is None:
            return
        self.state, tensors = found
        if self.state.ended in ("interrupted", "time limit"):
            # To go on is what resuming is for, where an epoch is left; a limit that is still spent
            # ends it again.
            self.state.ended = "" if self.state.step else self._enough()
        parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "average": {}, "adam": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition("/")
            parts[part][rest] = tensor
        self.model.load_state_dict(parts["model"])
        self.best = [{} for _ in self.state.kept]
        for name, tensor in parts["best"].items():
            place, _, of = name.partition("/")
            self.best[int(place)][of] = tensor.to(self.device)
        self.average = {n: t.to(self.device) for n, t in parts["average"].items()}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in parts["adam"].items():
            place, _, what = name.partition("/")
            moments.setdefault(int(place), {})[what] = tensor
        self.optimiser.load_state_dict(self.optimiser.state_dict() | {"state": moments})
        self.progress.resumed(self.state.epoch, self.state.step)


def parts_of(model: RelationalModel, config: TrainConfig, device: torch.device) -> int:
    """Into how many parts a batch is split: 1 on a GPU, and where a part would see the statistics
    of another."""
    return 1 if device.type != "cpu" or model.is_coupled else PARTS


def _set(rate: float | Tensor, value: float) -> float | Tensor:
    """A rate on the device is changed where it is; a recorded step reads it there."""
    return rate.fill_(value) if isinstance(rate, Tensor) else value


def _span(kernel: Mapping[str, Any]) -> dict[str, float]:
    """μ and σ of a kernel as days, for the record of an epoch."""
    return {name: round(float(kernel[name]), 5) for name in ("centre_days", "width_days")}


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def _mean(weights: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of some weights; counters and the like are those of the first."""
    return {
        name: torch.stack([each[name] for each in weights]).mean(0)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in weights[0].items()
    }
