"""Training steps: forward, backward, clipping and the optimiser.

`EagerSteps` works on parts of a batch side by side on a CPU, and adds their gradients up in order:
the same sums on any number of cores. `RecordedSteps` replays the whole step as a CUDA graph; losses
come back some steps later, so that the host is always ahead of the device. Where several workers
share a batch, both add up packed gradients (`bucket.py`) before the step is taken.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gelgt.nn import ModelInput
from gelgt.nn.dropout import own_dropout
from gelgt.nn.kernels import has_triton
from gelgt.nn.static.form import StaticForm
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import Packer, StaticBatch
from gelgt.nn.static.shape import LEVELS
from gelgt.nn.static.weights import LowWeights, raised
from gelgt.sampling import SubgraphLoader
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.lanes import Lanes
from gelgt.scoring.outbox import LAG
from gelgt.scoring.replay import (
    PREFETCH,
    THREADS,
    RecordedTensor,
    Replay,
    low_precision,
    make_packer,
)
from gelgt.training.bucket import Gradients, Slope
from gelgt.training.data import TrainingData
from gelgt.training.fused_step import FusedStep
from gelgt.training.step_setup import StepSetup

# Epochs from which on all shapes are used. A recording takes as long as the steps of a fifth of an
# epoch, and the last of them spare a fiftieth of each.
LONG = 10


class Part(NamedTuple):
    """A part of a batch, the seed of its dropout, and the rows of the whole batch."""

    inputs: Any
    seed: int
    rows: int


class EagerSteps:
    """Steps by PyTorch's own launches."""

    def __init__(self, setup: StepSetup, lanes: Lanes) -> None:
        self.setup, self.lanes = setup, lanes

    def step(self, parts: list[Part]) -> float:
        """The loss of a step over a batch in parts."""
        setup, slopes = self.setup, list(self.lanes.map(self.slope, parts))
        if setup.workers is None:
            slope = _added(slopes)
        else:
            flats = [setup.bucket.packed(slope) for slope in slopes]
            slope = setup.bucket.unpacked(setup.everyone(flats))
        setup.descend([None if g is None else g.contiguous() for g in slope.gradients])
        return float(slope.loss)

    def slope(self, part: Part) -> Slope:
        """Loss and gradients of one part of a batch, weighted by its share of the rows."""
        setup = self.setup
        if setup.device.type == "cuda":
            torch.manual_seed(part.seed)
        with own_dropout(part.seed), torch.enable_grad():
            inputs = part.inputs.to(setup.device)
            with setup.precision():
                out = setup.model(inputs)
            index = inputs.batch.index
            loss = setup.objective.loss(out, index) * (len(index) / part.rows)
            gradients = torch.autograd.grad(loss, setup.parameters, allow_unused=True)
            return Slope(loss.detach(), list(gradients))


@dataclass
class RecordedSteps:
    """Steps by replay, all of their work inside the record; where parts of a batch are added up,
    in two records, with the sum between them.

    Attributes:
        static: The model over fixed shapes.
        packer: Packs batches into them.
        is_split: Whether a step has several parts, here or elsewhere.
        waiting: Losses that are not read yet.
    """

    setup: StepSetup
    static: StaticForm
    packer: Packer
    data: TrainingData
    history: Tensor | None = None
    is_split: bool = False
    waiting: deque[Tensor | float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        setup = self.setup
        self.with_features: Callable[[SubgraphBatch], ModelInput] = self.data.with_features
        low = low_precision(setup.precision, setup.device)
        self.weights = LowWeights(self.static.model, low)
        self.fused = (
            FusedStep(setup.model, setup.optimiser, setup.clip, setup.average, self.weights)
            if has_triton(setup.device)
            else None
        )
        work = self._slope if self.is_split else self.work
        self.replay = Replay(work, setup.device, self.unchanged)
        self.finish = RecordedTensor(self._finish, setup.device, self.unchanged)
        self.share = torch.ones((), device=setup.device)  # of a part in the rows of its batch
        self.seed = torch.zeros(1, dtype=torch.int64, device=setup.device)  # of the dropout
        self.there: list[bool] | None = None
        self.events: deque[torch.cuda.Event] = deque()

    @classmethod
    def over(
        cls,
        setup: StepSetup,
        data: TrainingData,
        loader: SubgraphLoader,
        is_split: bool = False,
    ) -> "RecordedSteps":
        """Steps over the batches of a loader, which packs them from now on."""
        static = setup.model.static_form(data.graph, data.sampling, data.features, data.hide)
        packer = make_packer(static, data, loader, setup.device.type == "cuda")
        history = data.history(loader.seeds)
        steps = cls(
            setup,
            static,
            packer,
            data,
            None if history is None else history.to(setup.device),
            is_split,
        )
        if loader.then is not None:
            steps.with_features = loader.then
        loader.then, loader.threads, loader.prefetch = steps.pack, THREADS, PREFETCH
        return steps

    def beside(self, setup: StepSetup) -> "RecordedSteps":
        """Steps of another network of the same configuration over the same packed batches."""
        static = self.static.beside(setup.model)
        return RecordedSteps(setup, static, self.packer, self.data, self.history)

    def begin_epoch(self, epoch: int) -> None:
        """Pack batches into the shapes of an epoch: one for usual batches in the first, so that it
        starts soon, then half of them, and all of them in a long run. Nothing but the epoch
        decides, so that a resumed run, and one of several networks at once, takes the same
        steps."""
        self.packer.every = LEVELS if epoch == 0 else 2 if epoch < LONG else 1

    def pack(self, batch: SubgraphBatch) -> StaticBatch | ModelInput:
        """The packed batch, or an ordinary one where there is no room."""
        return self.packer(batch) or self.with_features(batch)

    def step(self, parts: list[Part], eager: EagerSteps) -> None:
        """A step, by replay where its batch is packed; its loss can be collected later."""
        self.begin()
        if self.is_split:
            flat = self.setup.everyone([self._flat(part, eager) for part in parts])
            if self.there is None:  # the same for all batches: it follows from the network's form
                self.there = self.setup.bucket.there(flat)
            self.later(self.finish(flat, len(flat)))
        elif isinstance(parts[0].inputs, StaticBatch):
            self.seed.fill_(parts[0].seed)
            self.later(self.replay(parts[0].inputs, self.history))
        else:
            self.waiting.append(eager.step(parts))

    def begin(self) -> None:
        """Before a replay: what it reads is what it was left, or made anew."""
        if self.fused is not None:
            self.fused.begin()

    def begin_like(self, other: "RecordedSteps") -> None:
        """Be ready to be recorded without a trial run, as a network of the same configuration is
        after its own."""
        assert self.fused is not None
        assert other.fused is not None, "steps are recorded where there is Triton"
        self.fused.begin_like(other.fused)
        self.begin()

    def _flat(self, part: Part, eager: EagerSteps) -> Tensor:
        """The packed gradients of a part."""
        if not isinstance(part.inputs, StaticBatch):
            return self.setup.bucket.packed(eager.slope(part))
        self.share.fill_(part.inputs.seeds / part.rows)
        self.seed.fill_(part.seed)
        return self.replay(part.inputs, self.history).clone()

    def later(self, loss: Tensor) -> None:
        """Read the loss () of a step when it is collected."""
        if self.setup.device.type != "cuda":
            self.waiting.append(float(loss))
            return
        host = torch.empty((), pin_memory=True)
        host.copy_(loss, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        self.events.append(event)
        self.waiting.append(host)

    def collect(self, total: float, most: int = LAG) -> float:
        """Add the losses of steps that are done to a total, in order, until at most so many are
        waited for."""
        while len(self.waiting) > most:
            loss = self.waiting.popleft()
            if isinstance(loss, Tensor):
                self.events.popleft().synchronize()
            total += float(loss)
        return total

    @torch.enable_grad()
    def loss(self, inputs: StaticInput) -> Tensor:
        """The mean loss of the real seeds: ()."""
        with self.setup.precision(), self.low_weights(), own_dropout(self.seed):
            out = self.static(inputs)
        share = inputs.is_seed.to(torch.float32) / inputs.num_seeds
        return (self.setup.objective.losses(out, inputs.index) * share).sum()

    def low_weights(self) -> AbstractContextManager[None]:
        """The model computes in low precision, with copies of its weights that are made now, or
        that the step before left."""
        return self.weights.used() if self.fused is None else self.weights.swapped()

    def _gradients(self, loss: Tensor) -> Gradients:
        return list(torch.autograd.grad(loss, self.weights.leaves, allow_unused=True))

    def _descend(self, gradients: Gradients) -> None:
        if self.fused is not None:
            self.fused(gradients)
            return
        self.setup.descend(raised(gradients, self.setup.parameters))
        for parameter in self.setup.parameters:
            parameter.grad = None

    def work(self, inputs: StaticInput) -> Tensor:
        """A whole step; its loss ()."""
        loss = self.loss(inputs)
        self._descend(self._gradients(loss))
        return loss.detach()

    def _slope(self, inputs: StaticInput) -> Tensor:
        """(n,) the packed gradients of a part."""
        loss = self.loss(inputs) * self.share
        return self.setup.bucket.packed(Slope(loss.detach(), self._gradients(loss)))

    def _finish(self, flat: Tensor) -> Tensor:
        """The step itself; the loss."""
        assert self.there is not None
        gradients = self.setup.bucket.all(flat)
        self._descend([g if is_there else None for g, is_there in zip(gradients, self.there)])
        return flat[-1].clone()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Parameters, their average and copies, buffers and moments are afterwards what they
        were."""
        self.begin()
        model, optimiser = self.static.model, self.setup.optimiser
        tensors = [*model.parameters(), *model.buffers(), *self.setup.average.values.values()]
        before = [t.detach().clone() for t in tensors]
        moments = {
            p: {name: value.clone() for name, value in state.items()}
            for p, state in optimiser.state.items()
        }
        yield
        with torch.no_grad():
            for tensor, value in zip(tensors, before):
                tensor.copy_(value)
            for parameter, state in optimiser.state.items():
                for name, value in state.items():
                    moment = moments.get(parameter, {}).get(name)
                    value.zero_() if moment is None else value.copy_(moment)
        self.begin()


def _added(slopes: list[Slope]) -> Slope:
    """Their sum, in the order of `tree_sum`."""
    if len(slopes) == 1:
        return slopes[0]
    half = len(slopes) // 2
    first, second = _added(slopes[:half]), _added(slopes[half:])
    gradients = [_sum(one, other) for one, other in zip(first.gradients, second.gradients)]
    return Slope(first.loss + second.loss, gradients)


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
