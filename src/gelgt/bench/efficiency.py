"""`gelgt bench efficiency`: what a training step and a prediction cost, part by part and end to
end, beside the plain path in the same run.

    replayed   packed batches of fixed shapes, a step recorded as one CUDA graph
    eager      every operation launched by the host, row features sliced on the host: the path for
               everything that cannot be recorded

End to end is the wall clock over whole steps of the fit loop, sampling, loading and the losses' way
back included. Parts of the step are measured by themselves: sampling and packing in one thread, and
the device's work as differences between recordings of growing parts of the step, so that what
overlaps in training does not overlap here. On a CPU nothing is recorded; the figures show that it
runs.
"""

import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gelgt.bench.machine import machine
from gelgt.nn import GelGTModel
from gelgt.nn.static.input import StaticInput
from gelgt.nn.static.pack import StaticBatch
from gelgt.presets import RunConfig
from gelgt.sampling import SubgraphLoader
from gelgt.scoring import Scorer
from gelgt.scoring.replay import Replay
from gelgt.training.data import TrainingData
from gelgt.training.ensemble import make_model
from gelgt.training.fit import Trainer
from gelgt.training.regime import in_regime
from gelgt.training.steps import RecordedSteps

# The authors' public code, driver-dnf, batch 64, 300 → 200 rows, d = 512, 4 layers, float32, on one
# H200: a reference measured once, not in this run. The step alone, and one batch of its loader (8
# workers), in ms; seeds a second of inference without loading.
AUTHORS = {"step_ms": 117.0, "loader_ms": 425.0, "inference_seeds_per_second": 1290.0}
Say = Callable[[str], None]
EAGER_SEEDS = 2048  # that are scored without a record


def bench_efficiency(
    dataset: Path,
    task: str = "driver-dnf",
    preset: str = "paper",
    *,
    steps: int = 200,
    changes: dict[str, Any] | None = None,
    device: str | None = None,
    progress: Say | None = None,
) -> dict[str, Any]:
    """Measure training steps and predictions of a preset.

    Args:
        dataset: A RelBench folder.
        task: Its task.
        preset: Of the model and its training.
        steps: Measured end to end; a tenth of them eagerly.
        changes: Settings such as ``{"model.width": 64}``.
        device: ``cuda`` if there is one, else ``cpu``.

    Returns:
        ``machine``, ``results``, ``ratios`` (eager over replayed), ``reference`` (the authors'
        code, as measured once).
    """
    from gelgt.sources import open

    say = progress or (lambda line: None)
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if on.type != "cuda":
        say("no CUDA device: nothing is recorded; no figure of speed is meant")
    db = open(dataset)
    found_task = db.task(task)
    config = in_regime(RunConfig.of(preset, found_task.task_type, changes), found_task)
    bench = _Bench(TrainingData.of(db, found_task, config), config, on, say)
    results = [bench.training("replayed", steps), bench.training("eager", max(3, steps // 10))]
    results += [bench.inference("replayed"), bench.inference("eager")]
    results += bench.parts()
    about = machine() | ({"gpu": torch.cuda.get_device_name(on)} if on.type == "cuda" else {})
    return {
        "machine": about,
        "preset": preset,
        "results": results,
        "ratios": _ratios(results),
        "reference": AUTHORS,
    }


def _ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    found = {}
    for what in ("training", "inference"):
        times = {r["path"]: r["ms"] for r in results if r["what"] == what}
        if {"eager", "replayed"} <= times.keys():
            found[f"{what}_eager_over_replayed"] = round(times["eager"] / times["replayed"], 2)
    return found


@dataclass
class _Bench:
    data: TrainingData
    config: RunConfig
    device: torch.device
    say: Say
    is_recorded: bool = True

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def reset_peak(self) -> None:
        gc.collect()  # recordings of a trainer that is gone
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak(self) -> dict[str, float]:
        """The most memory that tensors had, and that was reserved for them: recordings keep
        theirs."""
        if self.device.type != "cuda":
            return {}
        used, held = (
            torch.cuda.max_memory_allocated(self.device),
            torch.cuda.max_memory_reserved(self.device),
        )
        return {"peak_gib": round(used / 2**30, 3), "reserved_gib": round(held / 2**30, 3)}

    def trainer(self, path: str) -> Trainer:
        made = Trainer(
            make_model(self.data, self.config),
            self.data,
            self.config.train,
            self.device,
            is_recorded=path == "replayed",
        )
        if path == "replayed" and made.recorded is None:
            self.is_recorded = False
            self.say(f"steps are not recorded: {made.why_eager}")
        return made

    def training(self, path: str, steps: int) -> dict[str, Any]:
        """Whole steps of the fit loop, recording and the first steps left out."""
        self.say(f"training, {path}")
        self.reset_peak()
        trainer = self.trainer(path)
        began = time.perf_counter()
        # every shape is met
        for batch in islice(
            trainer.loader.epoch(0), len(trainer.loader) if trainer.recorded else 3
        ):
            self.take(trainer, batch)
        self.wait()
        prepared = time.perf_counter() - began
        batches = _endless(trainer.loader)
        for batch in islice(batches, 3):
            self.take(trainer, batch)
        self.wait()
        waiting, began, seeds = 0.0, time.perf_counter(), 0
        for _ in range(steps):
            asked = time.perf_counter()
            batch = next(batches)
            waiting += time.perf_counter() - asked
            seeds += self.take(trainer, batch)
        trainer._collect()
        self.wait()
        seconds = time.perf_counter() - began
        batches.close()
        facts = {"programs": len(trainer.recorded.replay.programs)} if trainer.recorded else {}
        return {
            "what": "training",
            "path": self.label(path),
            "ms": round(1e3 * seconds / steps, 3),
            "seeds_per_second": round(seeds / seconds),
            **self.peak(),
            "waits_for_loader_ms": round(1e3 * waiting / steps, 3),
            "epoch_s": round(seconds / steps * len(trainer.loader), 2),
            "first_epoch_s": round(prepared, 2),
            **facts,
        }

    def label(self, path: str) -> str:
        return "not recorded" if path == "replayed" and not self.is_recorded else path

    def take(self, trainer: Trainer, batch: Any) -> int:
        """One step; the number of its seeds."""
        trainer._step([batch])
        trainer.state.total += 1
        return batch.seeds if isinstance(batch, StaticBatch) else batch.batch.num_seeds

    def inference(self, path: str) -> dict[str, Any]:
        """All training seeds, sampling and loading included; the second pass counts."""
        self.say(f"inference, {path}")
        model = make_model(self.data, self.config).to(self.device).eval()
        seeds, precision = self.data.seeds["train"], self.config.train.precision
        scorer = Scorer(
            model, self.data, self.device, precision=precision, is_recorded=path == "replayed"
        )
        if path == "eager" or self.device.type != "cuda":
            seeds = seeds.take(np.arange(min(len(seeds), EAGER_SEEDS)))
        self.reset_peak()
        taken = []
        for _ in range(2):
            began = time.perf_counter()
            scorer.predict(seeds)
            taken.append(time.perf_counter() - began)
        return {
            "what": "inference",
            "path": self.label(path),
            "ms": round(1e3 * taken[1] / -(-len(seeds) // scorer.batch_size), 3),
            "seeds_per_second": round(len(seeds) / taken[1]),
            **self.peak(),
        }

    # The parts of a step.
    def parts(self) -> list[dict[str, Any]]:
        """Milliseconds of each part of a step, each by itself."""
        self.say("parts of a step")
        trainer = self.trainer("eager")
        steps = RecordedSteps.over(trainer.setup, self.data, trainer.loader)
        for group in trainer.optimiser.param_groups:
            group["lr"] = torch.tensor(float(group["lr"]), device=self.device)
            group["capturable"] = self.device.type == "cuda"
        found = self._host_parts(trainer.loader, steps)
        batch = steps.packer(_plain(trainer.loader, 0))
        assert batch is not None, "the first batch is one of those that were measured"
        found["transfer"] = self._ms(lambda: batch.words.to(self.device, non_blocking=True))
        trainer.model.train()
        before = 0.0
        for name, work in self._growing(steps).items():
            replay = Replay(work, self.device, steps.replay.unchanged)
            replay(batch)
            now = self._ms(lambda replay=replay: replay(batch)) - found["transfer"]  # type: ignore[misc]
            found[name], before = now - before, now
        found["whole step on the device"] = before
        rows = int(batch.shape.rows)
        return [
            {"what": name, "path": "part", "ms": round(ms, 3), "rows": rows}
            for name, ms in found.items()
        ]

    def _host_parts(self, loader: SubgraphLoader, steps: RecordedSteps) -> dict[str, float]:
        order = loader.order(0)
        sampled = [_plain(loader, step) for step in range(min(8, len(loader)))]
        sampling = [
            self._ms(partial(_plain, loader, step, order), 1) for step in range(len(sampled))
        ]
        packing = [self._ms(partial(steps.pack, batch), 1) for batch in sampled]
        return {"sampling (one thread)": median(sampling), "packing (one thread)": median(packing)}

    def _growing(self, steps: RecordedSteps) -> dict[str, Callable[[StaticInput], Tensor]]:
        """Parts of the step, each with all before it."""
        static, precision = steps.static, steps.setup.precision
        model = cast(GelGTModel, static.model)  # no other has a form of fixed shapes

        def encode(inputs: StaticInput) -> Tensor:
            with torch.enable_grad(), precision(), steps.weights.used():
                return model.encode(static.rows(inputs))

        def branches(inputs: StaticInput) -> Tensor:
            with torch.enable_grad(), precision(), steps.weights.used():
                tokens, passed = model.branches(static.rows(inputs))
                return tokens.h if passed is None else passed

        def forward(inputs: StaticInput) -> Tensor:
            with torch.enable_grad(), precision(), steps.weights.used():
                return static(inputs)

        def backward(inputs: StaticInput) -> Tensor:
            gradients = torch.autograd.grad(
                steps.loss(inputs), steps.weights.leaves, allow_unused=True
            )
            return next(g for g in gradients if g is not None)

        return {
            "encoders": encode,
            "refinement and GNN": branches,
            "attention and head": forward,
            "backward": backward,
            "clipping and optimiser": steps._work,
        }

    def _ms(self, work: Callable[[], Any], repeats: int = 20) -> float:
        repeats = repeats if self.device.type == "cuda" else 1
        if repeats > 1:
            work()
        self.wait()
        began = time.perf_counter()
        for _ in range(repeats):
            work()
        self.wait()
        return 1e3 * (time.perf_counter() - began) / repeats


def _endless(loader: SubgraphLoader) -> Any:
    def batches() -> Iterator[Any]:
        for epoch in cycle(range(1, 1000)):
            yield from loader.epoch(epoch)

    return batches()


def _plain(loader: SubgraphLoader, step: int, order: Any = None) -> Any:
    """A batch as it is sampled."""
    plain = SubgraphLoader(loader.sampler, loader.seeds, loader.batch_size, layout="packed")
    return plain._batch(loader.order(0) if order is None else order, step)
