"""Steps and predictions as CUDA graphs: one replay instead of a thousand launches, one copy instead
of many, and no waiting.

A `Replay` runs a function of a packed batch. On CUDA it records the function once for each shape
and plays the record back from then on; elsewhere it just calls it. Losses and predictions come back
some steps later, so that the host is always ahead of the device.

Dropout repeats: a replay draws from the generator as it stands, and every step sets it from (run
seed, step).
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelgt.nn import GelGTModel, ModelInput, RelationalModel
from gelgt.nn.kernels import has_triton
from gelgt.nn.static.forward import StaticInput, StaticModel, why_not_static
from gelgt.nn.static.pack import Packer, StaticBatch, measure
from gelgt.nn.static.shape import Shape, choose_shapes
from gelgt.nn.static.weights import LowWeights, raised
from gelgt.sampling import Seeds, SubgraphLoader
from gelgt.sampling.batch import SubgraphBatch
from gelgt.training.data import TrainingData
from gelgt.training.objective import Objective
from gelgt.training.optimiser import limit_gradients

MEASURED = 16  # batches whose sizes decide how much room there is
LAG = 3  # steps that the host may be ahead of what it has read back
FEW = 8  # batches for which recording is not worth its time
THREADS, PREFETCH = 4, 6

Work = Callable[[StaticInput], Tensor]
Context = Callable[[], AbstractContextManager[Any]]


def why_not_graphed(model: RelationalModel, data: TrainingData, device: torch.device) -> str | None:
    """Why steps on a device are not recorded; None if they are."""
    if device.type != "cuda":
        return "CUDA graphs need a CUDA device"
    if not has_triton(device):
        return "sums over messages need Triton and a device of compute capability 8.0 or newer"
    if not isinstance(model, GelGTModel):
        return "only gelgt's own model has a form of fixed shapes"
    return why_not_static(model, data.sampling, data.features, torch.cuda.mem_get_info(device)[0])


@dataclass
class _Program:
    """The record for one shape: where its input lies, and the output that a replay fills."""

    words: Tensor
    history: Tensor | None
    graph: torch.cuda.CUDAGraph | None
    out: Tensor | None


class Replay:
    """Runs a function of packed batches.

    Args:
        work: The function; it must not depend on any value on the host.
        device: Where it runs.
        unchanged: Undoes what a trial run of the function changes.
    """

    def __init__(self, work: Work, device: torch.device, unchanged: Context = nullcontext) -> None:
        self.work, self.device, self.unchanged = work, device, unchanged
        self.programs: dict[Shape, _Program] = {}
        self.pool: Any = None

    def __call__(
        self, batch: StaticBatch, seed: int | None = None, history: Tensor | None = None
    ) -> Tensor:
        """The function's output, valid until the next call.

        Args:
            seed: Of the dropout.
            history: (S, F) aggregates of all the seeds that the batch is taken from, on the device.
        """
        program = self.programs.get(batch.shape)
        if program is None:
            program = self.programs[batch.shape] = self._record(batch, history)
        program.words.copy_(batch.words, non_blocking=True)
        _take_history(batch.shape, program.words, history, program.history)
        if seed is not None:
            torch.manual_seed(seed)
        if program.graph is None:
            return self.work(StaticInput(batch.shape, program.words, program.history))
        program.graph.replay()
        assert program.out is not None
        return program.out

    def _record(self, batch: StaticBatch, history: Tensor | None) -> _Program:
        words = torch.empty_like(batch.words, device=self.device)
        own = None if history is None else history.new_zeros(batch.shape.seeds, history.shape[1])
        if self.device.type != "cuda":
            return _Program(words, own, None, None)
        words.copy_(batch.words)
        _take_history(batch.shape, words, history, own)
        # Compilers, libraries and the optimiser set themselves up in trial runs; a recording must
        # not contain that.
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side), self.unchanged():
            for _ in range(1 if self.programs else 2):
                self.work(StaticInput(batch.shape, words, own))
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Loader threads may allocate pinned memory meanwhile, which only a thread's own recording
        # forbids.
        with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
            out = self.work(StaticInput(batch.shape, words, own))
        self.pool = self.pool or graph.pool()
        return _Program(words, own, graph, out)


def _take_history(shape: Shape, words: Tensor, history: Tensor | None, out: Tensor | None) -> None:
    """The aggregates of a batch's seeds, from those of all seeds."""
    if history is not None and out is not None:
        torch.index_select(history, 0, words[shape.parts["index"]], out=out)


@dataclass
class Steps:
    """Training steps: forward, backward, clipping and the optimiser, all of them inside the replay.

    Args:
        precision: Autocast, or nothing.
    """

    over: StaticModel
    packer: Packer
    data: TrainingData
    objective: Objective
    optimiser: torch.optim.Optimizer
    clip: float | None
    precision: Context
    device: torch.device
    history: Tensor | None = None
    waiting: deque[Tensor | float] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.eager: Callable[[SubgraphBatch], ModelInput] = self.data.with_features
        self.parameters = [p for p in self.over.model.parameters() if p.requires_grad]
        self.weights = LowWeights(self.over.model, low_precision(self.precision, self.device))
        self.replay = Replay(
            self._work, self.device, lambda: unchanged(self.over.model, self.optimiser)
        )
        self.events: deque[torch.cuda.Event] = deque()

    def pack(self, batch: SubgraphBatch) -> StaticBatch | ModelInput:
        """The packed batch, or an ordinary one where there is no room."""
        return self.packer(batch) or self.eager(batch)

    def step(self, batch: StaticBatch, seed: int) -> None:
        loss = self.replay(batch, seed, self.history)
        if self.device.type != "cuda":
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
        with self.precision(), self.weights.used():
            out = self.over(inputs)
        share = inputs.is_seed.to(torch.float32) / inputs.num_seeds
        return (self.objective.losses(out, inputs.index) * share).sum()

    def _work(self, inputs: StaticInput) -> Tensor:
        loss = self.loss(inputs)
        gradients = torch.autograd.grad(loss, self.weights.leaves, allow_unused=True)
        for parameter, gradient in zip(self.parameters, raised(list(gradients), self.parameters)):
            parameter.grad = gradient
        limit_gradients(self.parameters, self.clip)
        self.optimiser.step()
        for parameter in self.parameters:
            parameter.grad = None
        return loss.detach()


@contextmanager
def unchanged(model: GelGTModel, optimiser: torch.optim.Optimizer) -> Iterator[None]:
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
                known = moments.get(parameter, {}).get(name)
                value.zero_() if known is None else value.copy_(known)


def low_precision(precision: Context, device: torch.device) -> torch.dtype | None:
    """The precision that autocast lowers products to; None where it is off."""
    with precision():
        return (
            torch.get_autocast_dtype(device.type)
            if torch.is_autocast_enabled(device.type)
            else None
        )


def make_packer(
    model: GelGTModel, data: TrainingData, loader: SubgraphLoader, pin_memory: bool
) -> Packer:
    """A packer whose shapes have room for batches like the loader's."""
    offsets, config = data.graph.offsets, model.config
    sizes = [measure(batch, offsets, config.keep) for batch in _some(loader)]
    rows = [int(n) for n in np.diff(offsets)]
    shapes = choose_shapes(sizes, loader.batch_size, loader.batch_size * data.sampling.budget, rows)
    return Packer(
        shapes,
        offsets,
        config.keep,
        config.gnn_mean == "relation",
        len(data.graph.relations),
        pin_memory,
    )


def _some(loader: SubgraphLoader) -> Iterator[SubgraphBatch]:
    """Some batches of the first epoch, from all over it."""
    plain = SubgraphLoader(loader.sampler, loader.seeds, loader.batch_size, layout="packed")
    order = loader.order(0)
    whole = max(1, len(loader.seeds) // loader.batch_size)  # the last batch may be a small one
    for step in sorted(set(np.linspace(0, whole - 1, MEASURED).astype(int).tolist())):
        yield plain._batch(order, step)


class Predictions:
    """Predictions of a model by replay.

    Args:
        precision: Autocast, or nothing.
    """

    def __init__(
        self, model: GelGTModel, data: TrainingData, precision: Context, device: torch.device
    ) -> None:
        self.data, self.precision, self.device = data, precision, device
        self.over = StaticModel(model, data.graph, data.sampling, data.features, data.hide)
        self.weights = LowWeights(model, low_precision(precision, device))
        self.replay = Replay(self._work, device)
        self.packer: Packer | None = None

    def raw(self, seeds: Seeds, batch_size: int, eager: Callable[[ModelInput], Tensor]) -> Tensor:
        """What the network puts out for seeds, in their order: (S, outputs), on the host."""
        loader = self.data.loader(seeds, batch_size)
        self._make_room(loader)
        packer, otherwise, history = self.packer, loader.then, self.data.history(seeds)
        assert packer is not None
        assert otherwise is not None
        history = None if history is None else history.to(self.device)
        loader.then, loader.threads, loader.prefetch = (
            lambda batch: packer(batch) or otherwise(batch),
            THREADS,
            PREFETCH,
        )
        found: list[Tensor] = []
        events: list[torch.cuda.Event] = []
        for batch in loader:
            out = (
                eager(batch)
                if isinstance(batch, ModelInput)
                else self.replay(batch, history=history)[: batch.seeds]
            )
            host = torch.empty(out.shape, pin_memory=self.device.type == "cuda")
            found.append(host.copy_(out, non_blocking=True))
            if self.device.type == "cuda":
                event = torch.cuda.Event()  # type: ignore[no-untyped-call]
                event.record()
                events.append(event)
                if len(events) > LAG:
                    events[-1 - LAG].synchronize()
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        return torch.cat(found)

    def _make_room(self, loader: SubgraphLoader) -> None:
        made = make_packer(self.over.model, self.data, loader, self.device.type == "cuda")
        if self.packer is None or self.packer.shapes[0].seeds != loader.batch_size:
            self.packer = made
        elif made.shapes[-1].rows > self.packer.shapes[-1].rows:
            self.packer.shapes += made.shapes[-1:]

    @torch.no_grad()
    def _work(self, inputs: StaticInput) -> Tensor:
        with self.precision(), self.weights.used():
            return self.over(inputs).float()


def predictions_of(
    model: GelGTModel, data: TrainingData, precision: Context, device: torch.device, batches: int
) -> Predictions | None:
    """Replays for a model, kept with the data; None where they cannot be, or are not worth it."""
    found: Predictions | None = data.kept.get("predictions")
    if found is not None and found.over.model is model and found.device == device:
        return found
    if batches < FEW or why_not_graphed(model, data, device) is not None:
        return None
    data.kept["predictions"] = found = Predictions(model, data, precision, device)
    return found


def make_steps(
    model: GelGTModel,
    data: TrainingData,
    loader: SubgraphLoader,
    objective: Objective,
    optimiser: torch.optim.Optimizer,
    clip: float | None,
    precision: Context,
    device: torch.device,
) -> Steps:
    """Steps over the batches of a loader, which packs them from now on."""
    packer = make_packer(model, data, loader, device.type == "cuda")
    over = StaticModel(model, data.graph, data.sampling, data.features, data.hide)
    history = data.history(loader.seeds)
    steps = Steps(
        over,
        packer,
        data,
        objective,
        optimiser,
        clip,
        precision,
        device,
        None if history is None else history.to(device),
    )
    if loader.then is not None:
        steps.eager = loader.then
    loader.then, loader.threads, loader.prefetch = steps.pack, THREADS, PREFETCH
    return steps
