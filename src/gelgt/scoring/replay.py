"""Functions of packed batches as CUDA graphs: one replay instead of a thousand launches, one copy
instead of many, and no waiting.

A `Replay` runs a function of a packed batch. On CUDA it records the function once for each shape
and plays the record back from then on; elsewhere it just calls it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gelgt.nn import RelationalModel
from gelgt.nn.kernels import has_triton
from gelgt.nn.recording import recording
from gelgt.nn.rows import row_offsets
from gelgt.nn.static.form import StaticForm
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import Packer, StaticBatch, as_read, measure
from gelgt.nn.static.shape import Shape, choose_shapes
from gelgt.sampling import SubgraphLoader
from gelgt.sampling.batch import SubgraphBatch
from gelgt.scoring.seed_data import SeedData

MEASURED = 32  # batches whose sizes decide how much room there is
THREADS, PREFETCH = 4, 6

Work = Callable[[StaticInput], Tensor]
Context = Callable[[], AbstractContextManager[Any]]


def why_not_recorded(model: RelationalModel, data: SeedData, device: torch.device) -> str | None:
    """Why a model is not recorded on a device; None if it is."""
    if device.type != "cuda":
        return "CUDA graphs need a CUDA device"
    if not has_triton(device):
        return "fixed-order sums need Triton and a device of compute capability 8.0 or newer"
    free = torch.cuda.mem_get_info(device)[0]
    return model.why_not_static(data.sampling, data.features, free)


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
        unchanged: Undoes what a trial run changes.
        trial: What is run before each recording: compilers, libraries and the optimiser set
            themselves up in it, which a recording must not contain. The function itself if None.
    """

    def __init__(
        self,
        work: Work,
        device: torch.device,
        unchanged: Context = nullcontext,
        trial: Work | None = None,
    ) -> None:
        self.work, self.device, self.unchanged = work, device, unchanged
        self.trial = trial or work
        self.programs: dict[Shape, _Program] = {}
        self.pool: Any = None
        self.sender = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def __call__(self, batch: StaticBatch, history: Tensor | None = None) -> Tensor:
        """The function's output, valid until the next call.

        Args:
            history: (S, F) aggregates of all the seeds that the batch is taken from, on the device.
        """
        program = self.programs.get(batch.shape)
        if program is None:
            program = self.programs[batch.shape] = self._record(batch, history)
        program.words.copy_(self._sent(batch.words), non_blocking=True)
        _select_history(batch.shape, program.words, history, program.history)
        if program.graph is None:
            return self.work(StaticInput(batch.shape, program.words, program.history))
        program.graph.replay()
        assert program.out is not None
        return program.out

    def _sent(self, words: Tensor) -> Tensor:
        """A packed batch on the device: it travels while the batch before is still worked on, whose
        words the record reads."""
        if self.sender is None:
            return words
        here = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.sender):
            sent = words.to(self.device, non_blocking=True)
        here.wait_stream(self.sender)
        sent.record_stream(here)
        return sent

    def _record(self, batch: StaticBatch, history: Tensor | None) -> _Program:
        words = torch.empty_like(batch.words, device=self.device)
        of_batch = (
            None if history is None else history.new_zeros(batch.shape.seeds, history.shape[1])
        )
        if self.device.type != "cuda":
            return _Program(words, of_batch, None, None)
        words.copy_(batch.words)
        _select_history(batch.shape, words, history, of_batch)
        inputs = StaticInput(batch.shape, words, of_batch)
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side), self.unchanged():
            self.trial(inputs)
        torch.cuda.current_stream(self.device).wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Loader threads may allocate pinned memory meanwhile, which only a thread's own recording
        # forbids.
        graphed = torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local")
        with recording(), graphed:
            out = self.work(inputs)
        self.pool = self.pool or graph.pool()
        return _Program(words, of_batch, graph, out)


def side_by_side(works: Sequence[Work], device: torch.device) -> Work:
    """Several functions of a batch as one, which stacks what they give. On CUDA each has a stream
    of its own: kernels of one run on the processors that those of another leave idle."""
    if device.type != "cuda":
        return lambda inputs: torch.stack([work(inputs) for work in works])
    streams = [torch.cuda.Stream(device) for _ in works]  # type: ignore[no-untyped-call]

    def together(inputs: StaticInput) -> Tensor:
        here = torch.cuda.current_stream(device)
        outs: list[Tensor] = []
        try:
            for work, stream in zip(works, streams):
                stream.wait_stream(here)
                with torch.cuda.stream(stream):
                    outs.append(work(inputs))
        finally:
            # Also where memory has ended: a recording with streams apart would end with an error of
            # its own.
            for stream in streams[: len(outs) + 1]:
                here.wait_stream(stream)
        return torch.stack(outs)

    return together


def one_for_all(works: Sequence[Work]) -> Work:
    """A trial run of several functions of one form side by side: the first of them launches what
    all of them launch."""
    return lambda inputs: torch.stack([works[0](inputs)] * len(works))


class RecordedTensor:
    """A function of a tensor of fixed length, played back from a record on CUDA.

    Args:
        work: The function.
        device: Where it runs.
        unchanged: Undoes what a trial run of the function changes.
    """

    def __init__(
        self,
        work: Callable[[Tensor], Tensor],
        device: torch.device,
        unchanged: Context = nullcontext,
    ) -> None:
        self.work, self.device, self.unchanged = work, device, unchanged
        self._given: Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._made: Tensor | None = None

    def __call__(self, values: Tensor, length: int) -> Tensor:
        """What the function makes of values (n, …), filled up to a length; valid until the next
        call."""
        if self._given is None:
            shape = (length, *values.shape[1:])
            self._given = torch.zeros(shape, dtype=values.dtype, device=self.device)
        self._given[: len(values)].copy_(values)
        if self.device.type != "cuda":
            return self.work(self._given)
        if self._graph is None:
            self._record(self._given)
        assert self._graph is not None
        assert self._made is not None
        self._graph.replay()
        return self._made

    def _record(self, given: Tensor) -> None:
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side), self.unchanged():
            self.work(given)  # libraries set themselves up
        torch.cuda.current_stream(self.device).wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with recording(), torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._made = self.work(given)


def _select_history(
    shape: Shape, words: Tensor, history: Tensor | None, out: Tensor | None
) -> None:
    """The aggregates of a batch's seeds, from those of all seeds."""
    if history is not None and out is not None:
        torch.index_select(history, 0, words[shape.parts["index"]], out=out)


def low_precision(precision: Context, device: torch.device) -> torch.dtype | None:
    """The precision that autocast lowers products to; None where it is off."""
    with precision():
        return (
            torch.get_autocast_dtype(device.type)
            if torch.is_autocast_enabled(device.type)
            else None
        )


def make_packer(
    form: StaticForm, data: SeedData, loader: SubgraphLoader, pin_memory: bool
) -> Packer:
    """A packer whose shapes have room for batches like the loader's."""
    offsets = row_offsets(data.graph, data.features)
    batches = (as_read(batch, data.features) for batch in _some_batches(loader))
    sizes = [measure(batch, offsets, form.keep, form.extras) for batch in batches]
    rows = [int(n) for n in np.diff(offsets)]
    limit = loader.batch_size * data.sampling.budget
    return Packer(
        choose_shapes(sizes, loader.batch_size, limit, rows, form.extras),
        offsets,
        form.keep,
        form.by_relation,
        len(data.graph.relations),
        pin_memory,
        data.features,
    )


def _some_batches(loader: SubgraphLoader) -> Iterator[SubgraphBatch]:
    """Some batches of the first epoch, from all over it."""
    plain = SubgraphLoader(loader.sampler, loader.seeds, loader.batch_size, layout="packed")
    order = loader.order(0)
    whole = max(1, len(loader.seeds) // loader.batch_size)  # the last batch may be a small one
    for step in sorted(set(np.linspace(0, whole - 1, MEASURED).astype(int).tolist())):
        yield plain._batch(order, step)
