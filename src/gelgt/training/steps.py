"""Training steps: forward, backward, clipping and the optimiser.

`EagerSteps` works on parts of a batch side by side on a CPU, and adds their gradients up in order:
the same sums on any number of cores. `RecordedSteps` replays the whole step as a CUDA graph; losses
come back some steps later, so that the host is always ahead of the device.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gelgt.nn import ModelInput, RelationalModel
from gelgt.nn.dropout import own_dropout
from gelgt.nn.static.form import StaticForm
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import Packer, StaticBatch
from gelgt.nn.static.weights import LowWeights, raised
from gelgt.sampling import SubgraphLoader
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.lanes import Lanes
from gelgt.scoring.replay import (
    LAG,
    PREFETCH,
    THREADS,
    Context,
    Replay,
    low_precision,
    make_packer,
)
from gelgt.training.data import TrainingData
from gelgt.training.objective import Objective
from gelgt.training.optimiser import limit_gradients
from gelgt.training.rank_objective import RankObjective


@dataclass(frozen=True)
class StepSetup:
    """What both kinds of steps need.

    Attributes:
        clip: Largest norm of the gradient; None: no limit.
        precision: Autocast, or nothing.
    """

    model: RelationalModel
    objective: Objective | RankObjective
    optimiser: torch.optim.Optimizer
    clip: float | None
    precision: Context
    device: torch.device

    @property
    def parameters(self) -> list[torch.nn.Parameter]:
        return [p for p in self.model.parameters() if p.requires_grad]


class EagerSteps:
    """Steps by PyTorch's own launches."""

    def __init__(self, setup: StepSetup, lanes: Lanes) -> None:
        self.setup, self.lanes, self.parameters = setup, lanes, setup.parameters

    def step(self, parts: list[ModelInput], seeds: list[int]) -> float:
        """The loss of a step over a batch in parts, each with the seed of its dropout."""
        rows = sum(len(part.batch.index) for part in parts)
        done = self.lanes.map(
            self._part, ((seed, part, rows) for seed, part in zip(seeds, parts, strict=True))
        )
        loss, gradients = next(done)
        for more, others in done:
            loss = loss + more
            gradients = [_sum(one, other) for one, other in zip(gradients, others)]
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = None if gradient is None else gradient.contiguous()
        limit_gradients(self.parameters, self.setup.clip)
        self.setup.optimiser.step()
        return float(loss)

    def _part(self, job: tuple[int, ModelInput, int]) -> tuple[Tensor, list[Tensor | None]]:
        """Loss and gradients of one part of a batch, weighted by its share of the rows."""
        seed, inputs, rows = job
        setup = self.setup
        if setup.device.type == "cuda":
            torch.manual_seed(seed)
        with own_dropout(seed), torch.enable_grad():
            inputs = inputs.to(setup.device)
            with setup.precision():
                out = setup.model(inputs)
            index = inputs.batch.index
            loss = setup.objective.loss(out, index) * (len(index) / rows)
            gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
            return loss.detach(), list(gradients)


@dataclass
class RecordedSteps:
    """Steps by replay, all of their work inside the record.

    Attributes:
        static: The model over fixed shapes.
        packer: Packs batches into them.
        waiting: Losses that are not read yet.
    """

    setup: StepSetup
    static: StaticForm
    packer: Packer
    data: TrainingData
    history: Tensor | None = None
    waiting: deque[Tensor | float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        setup = self.setup
        self.parameters = setup.parameters
        self.with_features: Callable[[SubgraphBatch], ModelInput] = self.data.with_features
        low = low_precision(setup.precision, setup.device)
        self.weights = LowWeights(self.static.model, low)
        self.replay = Replay(
            self._work, setup.device, lambda: _unchanged(self.static.model, setup.optimiser)
        )
        self.events: deque[torch.cuda.Event] = deque()

    @classmethod
    def over(cls, setup: StepSetup, data: TrainingData, loader: SubgraphLoader) -> "RecordedSteps":
        """Steps over the batches of a loader, which packs them from now on."""
        static = setup.model.static_form(data.graph, data.sampling, data.features, data.hide)
        packer = make_packer(static, data, loader, setup.device.type == "cuda")
        history = data.history(loader.seeds)
        steps = cls(
            setup, static, packer, data, None if history is None else history.to(setup.device)
        )
        if loader.then is not None:
            steps.with_features = loader.then
        loader.then, loader.threads, loader.prefetch = steps.pack, THREADS, PREFETCH
        return steps

    def pack(self, batch: SubgraphBatch) -> StaticBatch | ModelInput:
        """The packed batch, or an ordinary one where there is no room."""
        return self.packer(batch) or self.with_features(batch)

    def step(self, batch: StaticBatch, seed: int) -> None:
        loss = self.replay(batch, seed, self.history)
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
        with self.setup.precision(), self.weights.used():
            out = self.static(inputs)
        share = inputs.is_seed.to(torch.float32) / inputs.num_seeds
        return (self.setup.objective.losses(out, inputs.index) * share).sum()

    def _work(self, inputs: StaticInput) -> Tensor:
        loss = self.loss(inputs)
        gradients = torch.autograd.grad(loss, self.weights.leaves, allow_unused=True)
        for parameter, gradient in zip(self.parameters, raised(list(gradients), self.parameters)):
            parameter.grad = gradient
        limit_gradients(self.parameters, self.setup.clip)
        self.setup.optimiser.step()
        for parameter in self.parameters:
            parameter.grad = None
        return loss.detach()


@contextmanager
def _unchanged(model: RelationalModel, optimiser: torch.optim.Optimizer) -> Iterator[None]:
    """Parameters, buffers and moments are afterwards what they were."""
    tensors = [*model.parameters(), *model.buffers()]
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


def _sum(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
