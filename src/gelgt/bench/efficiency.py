"""`gelgt bench efficiency`: what a training step and a prediction cost, part by part and end to
end, beside the plain path in the same run.

    replayed   packed batches of fixed shapes, a step recorded as one CUDA graph; also of several
               networks at once
    eager      every operation launched by the host, row features sliced on the host: the path for
               everything that cannot be recorded
    columns network, and plain: the network beside them that reads history columns
               (`column_steps.py`)

End to end is the wall clock over whole steps of the fit loop, with sampling, loading and reading
the losses back. `step_parts.py` measures the parts of a step. On a CPU nothing is recorded, and
only ratios say something.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from gelgt.bench.column_steps import OWN as COLUMNS
from gelgt.bench.column_steps import PLAIN, column_steps
from gelgt.bench.machine import machine
from gelgt.bench.step_parts import DeviceTimer, step_parts
from gelgt.nn.static.pack import StaticBatch
from gelgt.presets import RunConfig
from gelgt.registry import BUILT_IN
from gelgt.sampling import SubgraphLoader
from gelgt.scoring import Scorer
from gelgt.training.abreast import Record
from gelgt.training.data import TrainingData
from gelgt.training.fit import Trainer
from gelgt.training.model import make_model, member_config
from gelgt.training.regime import in_regime
from gelgt.training.session import Goal, Session
from gelgt.training.steps import LONG

# The authors' public code, driver-dnf, batch 64, 300 → 200 rows, d = 512, 4 layers, float32, on one
# H200: a reference measured once, not in this run. The step alone, and one batch of its loader (8
# workers), in ms; seeds a second of inference without loading.
AUTHORS = {"step_ms": 117.0, "loader_ms": 425.0, "inference_seeds_per_second": 1290.0}
OWN = "gelgt"
Say = Callable[[str], None]
NETWORKS = (3, 5)  # that are trained side by side
EAGER_SEEDS = 2048  # seeds of an inference that is not recorded
STRETCHES = 3  # that are timed, one after the other


def bench_efficiency(
    dataset: Path,
    task: str = "driver-dnf",
    preset: str = "paper",
    *,
    models: Sequence[str] = (OWN,),
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
        models: Names of `gelgt.registry`; ``all`` for every built-in one. Of models other than
            gelgt, training steps alone are measured.
        steps: Of each of three stretches that are measured end to end; a tenth of them eagerly.
        changes: Settings such as ``{"model.width": 64}``.
        device: ``cuda`` if there is one, else ``cpu``.

    Returns:
        ``machine``, ``results`` (the median of three stretches, and in ``spread_ms`` how far the
        slowest is from the fastest), ``ratios`` (eager over replayed, of other models behind their
        names, and plain over own of the columns network), ``reference`` (the authors' code, as
        measured once).
    """
    from gelgt.sources import open

    say = progress or (lambda line: None)
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if on.type != "cuda":
        say("no CUDA device: nothing is recorded, and only ratios say something about speed")
    db = open(dataset)
    labels = db.task(task)
    results = []
    for name in _names(models):
        config = in_regime(RunConfig.of(preset, labels.task_type, changes, name), labels)
        bench = _Bench(TrainingData.of(db, labels, config), config, DeviceTimer(on), say)
        rows = bench.everything(steps) if name == OWN else bench.steps(steps)
        results += [{"model": name, **row} for row in rows]
    about = machine() | ({"gpu": torch.cuda.get_device_name(on)} if on.type == "cuda" else {})
    return {
        "machine": about,
        "preset": preset,
        "results": results,
        "ratios": _ratios(results),
        "reference": AUTHORS,
    }


def _names(models: Sequence[str]) -> list[str]:
    """Models by name, once each; of all built-in ones those whose packages are installed."""
    every = [name for name in BUILT_IN if name != "rel-llm" or find_spec("transformers")]
    named = [other for name in models for other in (every if name == "all" else [name])]
    return list(dict.fromkeys(named))


def _ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    ratios = {}
    for model, what in dict.fromkeys((row["model"], row["what"]) for row in results):
        of_both = (r for r in results if (r["model"], r["what"]) == (model, what))
        times = {r["path"]: r["ms"] for r in of_both}
        if {"eager", "replayed"} <= times.keys():
            name = f"{'' if model == OWN else f'{model}_'}{what}_eager_over_replayed"
            ratios[name] = round(times["eager"] / times["replayed"], 2)
        if PLAIN in times:
            ratios[f"columns_network_{what}_plain_over_own"] = round(
                times[PLAIN] / times[COLUMNS], 2
            )
    return ratios


@dataclass
class _Bench:
    data: TrainingData
    config: RunConfig
    timer: DeviceTimer
    say: Say
    is_recorded: bool = True

    def everything(self, steps: int) -> list[dict[str, Any]]:
        """Training steps of one network and of several, predictions, and the parts of a step."""
        results = self.steps(steps)
        if self.is_recorded:
            results += [self.side_by_side(count, steps) for count in NETWORKS]
        results += [self.inference("replayed"), self.inference("eager")]
        self.say("parts of a step")
        results += step_parts(self.trainer("eager"), self.timer)
        self.say("columns network")
        device = self.timer.device
        return results + column_steps(self.data, self.config, device, steps, self.stretches)

    def steps(self, steps: int) -> list[dict[str, Any]]:
        """Training steps, replayed and eager."""
        return [self.training("replayed", steps), self.training("eager", max(3, steps // 10))]

    def trainer(self, path: str) -> Trainer:
        trainer = Trainer(
            make_model(self.data, self.config),
            self.data,
            self.config.train,
            self.timer.device,
            is_recorded=path == "replayed",
        )
        if path == "replayed" and trainer.recorded is None:
            self.is_recorded = False
            self.say(f"steps are not recorded: {trainer.why_eager}")
        return trainer

    def training(self, path: str, steps: int) -> dict[str, Any]:
        """Whole steps of the fit loop, recording and the first steps left out."""
        self.say(f"training of {self.config.kind}, {path}")
        self.timer.reset_peak()
        trainer = self.trainer(path)
        start = time.perf_counter()
        self.warm_up(trainer, 0)
        first_epoch = time.perf_counter() - start
        self.warm_up(trainer, LONG)  # where every shape is used, and recorded
        batches = _endless(trainer.loader)
        for batch in islice(batches, 3):
            self.step(trainer, batch)
        self.timer.wait()
        waiting, seeds = 0.0, 0

        def stretch() -> None:
            nonlocal waiting, seeds
            for _ in range(steps):
                asked = time.perf_counter()
                batch = next(batches)
                waiting += time.perf_counter() - asked
                seeds += self.step(trainer, batch)
            trainer.collect()

        times = self.stretches(stretch, steps)
        batches.close()
        programs = {"programs": len(trainer.recorded.replay.programs)} if trainer.recorded else {}
        return {
            "what": "training",
            "path": self.label(path),
            **times,
            "seeds_per_second": round(1e3 * seeds / (STRETCHES * steps * times["ms"])),
            **self.timer.peak(),
            "waits_for_loader_ms": round(1e3 * waiting / (STRETCHES * steps), 3),
            "epoch_s": round(times["ms"] / 1e3 * len(trainer.loader), 2),
            "first_epoch_s": round(first_epoch, 2),
            **programs,
        }

    def warm_up(self, trainer: Trainer, epoch: int) -> None:
        """All steps of an epoch, or a few that are not recorded."""
        if trainer.recorded is not None:
            trainer.recorded.begin_epoch(epoch)
        count = 3 if trainer.recorded is None else len(trainer.loader)
        for batch in islice(trainer.loader.epoch(epoch), count):
            self.step(trainer, batch)
        self.timer.wait()

    def side_by_side(self, count: int, steps: int) -> dict[str, Any]:
        """Steps of several networks at once, recording and the first steps left out."""
        self.say(f"training, {count} networks side by side")
        self.timer.reset_peak()
        first = self.trainer("replayed")
        trainers = [first, *(self._beside(first, number) for number in range(1, count))]
        record, batches = Record(trainers), _endless(first.loader)
        for batch in islice(first.loader.epoch(0), len(first.loader)):  # every shape is recorded
            record.step(trainers, batch, _seeds_of(batch))
        self.timer.wait()

        def stretch() -> None:
            for batch in islice(batches, steps):
                record.step(trainers, batch, _seeds_of(batch))
                for trainer in trainers:
                    trainer.state.total += 1
            for trainer in trainers:
                trainer.collect()

        times = self.stretches(stretch, steps)
        batches.close()
        return {
            "what": f"training, {count} networks",
            "path": "replayed",
            **times,
            **self.timer.peak(),
        }

    def stretches(self, work: Callable[[], Any], items: int) -> dict[str, float]:
        """Milliseconds of one of so many items: the median of some stretches, and their range."""
        taken = []
        for _ in range(STRETCHES):
            start = time.perf_counter()
            work()
            self.timer.wait()
            taken.append(1e3 * (time.perf_counter() - start) / items)
        return {"ms": round(median(taken), 3), "spread_ms": round(max(taken) - min(taken), 3)}

    def _beside(self, first: Trainer, number: int) -> Trainer:
        config = member_config(self.config, number, None)
        return Trainer(
            make_model(self.data, config),
            self.data,
            config.train,
            self.timer.device,
            goal=Goal(order=self.config.train.seed),
            session=Session(member=number, beside=first),
        )

    def label(self, path: str) -> str:
        return "not recorded" if path == "replayed" and not self.is_recorded else path

    def step(self, trainer: Trainer, batch: Any) -> int:
        """One training step; gives the number of its seeds."""
        seeds = _seeds_of(batch)
        trainer._step([batch], seeds)
        trainer.state.total += 1
        return seeds

    def inference(self, path: str) -> dict[str, Any]:
        """All training seeds, sampling and loading included, but for the first pass."""
        self.say(f"inference, {path}")
        device = self.timer.device
        model = make_model(self.data, self.config).to(device).eval()
        seeds, precision = self.data.seeds["train"], self.config.train.precision
        scorer = Scorer(
            model, self.data, device, precision=precision, is_recorded=path == "replayed"
        )
        if path == "eager" or device.type != "cuda":
            seeds = seeds.take(np.arange(min(len(seeds), EAGER_SEEDS)))
        self.timer.reset_peak()
        scorer.predict(seeds)  # every shape is recorded
        batches = -(-len(seeds) // scorer.batch_size)
        times = self.stretches(lambda: scorer.predict(seeds), batches)
        return {
            "what": "inference",
            "path": self.label(path),
            **times,
            "seeds_per_second": round(1e3 * len(seeds) / (batches * times["ms"])),
            **self.timer.peak(),
        }


def _seeds_of(batch: Any) -> int:
    return int(batch.seeds if isinstance(batch, StaticBatch) else batch.batch.num_seeds)


def _endless(loader: SubgraphLoader) -> Any:
    def batches() -> Iterator[Any]:
        for epoch in cycle(range(1, 1000)):
            yield from loader.epoch(epoch)

    return batches()
