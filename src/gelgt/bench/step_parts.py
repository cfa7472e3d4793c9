"""Milliseconds of the parts of a training step, each by itself.

Sampling and packing are measured in one thread. The device's work is measured as differences
between recordings of growing parts of the step, so that what overlaps in training does not overlap
here.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, cast

import torch
from torch import Tensor

from gelgt.nn import GelGTModel
from gelgt.nn.static.input import StaticInput
from gelgt.sampling import SubgraphLoader
from gelgt.scoring.replay import Replay
from gelgt.training.fit import Trainer
from gelgt.training.steps import RecordedSteps


@dataclass(frozen=True)
class DeviceTimer:
    """Times and peak memory of work on a device."""

    device: torch.device

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def milliseconds(self, work: Callable[[], Any], repeats: int = 20) -> float:
        """Mean over repeats on a GPU, after one to warm up; one call on a CPU."""
        repeats = repeats if self.device.type == "cuda" else 1
        if repeats > 1:
            work()
        self.wait()
        start = time.perf_counter()
        for _ in range(repeats):
            work()
        self.wait()
        return 1e3 * (time.perf_counter() - start) / repeats

    def reset_peak(self) -> None:
        gc.collect()  # recordings of a trainer that is gone
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> dict[str, float]:
        """The most memory in use by tensors, and reserved for them: recordings keep theirs."""
        if self.device.type != "cuda":
            return {}
        used = torch.cuda.max_memory_allocated(self.device)
        reserved = torch.cuda.max_memory_reserved(self.device)
        return {"peak_gib": round(used / 2**30, 3), "reserved_gib": round(reserved / 2**30, 3)}


def step_parts(trainer: Trainer, timer: DeviceTimer) -> list[dict[str, Any]]:
    """The parts of a step of an eager trainer of gelgt."""
    steps = RecordedSteps.over(trainer.setup, trainer.data, trainer.loader)
    for group in trainer.optimiser.param_groups:
        group["lr"] = torch.tensor(float(group["lr"]), device=timer.device)
        group["capturable"] = timer.device.type == "cuda"
    parts = _host_parts(trainer.loader, steps, timer)
    batch = steps.packer(_sampled(trainer.loader, 0))
    assert batch is not None, "the first batch is one of those that were measured"
    parts["transfer"] = timer.milliseconds(lambda: batch.words.to(timer.device, non_blocking=True))
    trainer.model.train()
    before = 0.0
    for name, work in _growing(steps).items():
        replay = Replay(work, timer.device, steps.replay.unchanged)
        replay(batch)
        now = timer.milliseconds(partial(replay, batch)) - parts["transfer"]
        parts[name], before = now - before, now
    parts["whole step on the device"] = before
    rows = int(batch.shape.rows)
    return [
        {"what": name, "path": "part", "ms": round(ms, 3), "rows": rows}
        for name, ms in parts.items()
    ]


def _host_parts(
    loader: SubgraphLoader, steps: RecordedSteps, timer: DeviceTimer
) -> dict[str, float]:
    order = loader.order(0)
    batches = [_sampled(loader, step) for step in range(min(8, len(loader)))]
    sampling = [
        timer.milliseconds(partial(_sampled, loader, step, order), 1)
        for step in range(len(batches))
    ]
    packing = [timer.milliseconds(partial(steps.pack, batch), 1) for batch in batches]
    return {"sampling (one thread)": median(sampling), "packing (one thread)": median(packing)}


def _growing(steps: RecordedSteps) -> dict[str, Callable[[StaticInput], Tensor]]:
    """Parts of the step, each with those before it."""
    static, precision = steps.static, steps.setup.precision
    model = cast(GelGTModel, static.model)  # no other has a form of fixed shapes

    def encode(inputs: StaticInput) -> Tensor:
        with torch.enable_grad(), precision(), steps.low_weights():
            return model.encode(static.rows(inputs))

    def branches(inputs: StaticInput) -> Tensor:
        with torch.enable_grad(), precision(), steps.low_weights():
            tokens, passed = model.branches(static.rows(inputs))
            return tokens.h if passed is None else passed

    def forward(inputs: StaticInput) -> Tensor:
        with torch.enable_grad(), precision(), steps.low_weights():
            return static(inputs)

    def backward(inputs: StaticInput) -> Tensor:
        gradients = torch.autograd.grad(steps.loss(inputs), steps.weights.leaves, allow_unused=True)
        return next(g for g in gradients if g is not None)

    return {
        "encoders": encode,
        "refinement and GNN": branches,
        "attention and head": forward,
        "backward": backward,
        "clipping and optimiser": steps.work,
    }


def _sampled(loader: SubgraphLoader, step: int, order: Any = None) -> Any:
    """A batch as it is sampled, not packed."""
    plain = SubgraphLoader(loader.sampler, loader.seeds, loader.batch_size, layout="packed")
    return plain._batch(loader.order(0) if order is None else order, step)
