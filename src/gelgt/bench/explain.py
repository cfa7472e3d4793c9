"""Whether explanations hold: the area between the curves of adding and removing rows, beside the
orders by attention and at random, over test rows of a run; and what an explanation costs."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gelgt.bench.machine import machine
from gelgt.errors import GelgtError
from gelgt.explain import Explainer
from gelgt.explain.explainer import NOTHING
from gelgt.explain.explanation import Explanation
from gelgt.inference import Predictor
from gelgt.inference.task import run_task
from gelgt.runs.folder import load_run
from gelgt.sampling import Seeds, task_seeds

ORDERS = ("area_attention", "area_random")
BOOTSTRAP = 2000
WARM = 24  # further rows that are explained first: loads, compiles and, on CUDA, records


def bench_explain(
    folder: Path,
    rows: int,
    device: str = "auto",
    split: str = "test",
    progress: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Explain some rows of a run's task, drawn at random.

    Args:
        folder: The run; its source is where it was trained.
        rows: How many rows.
        split: Of which labels.
        progress: Is told of every tenth.
    """
    run = load_run(folder)
    predictor = Predictor(run, None, device)
    explainer, task = Explainer(predictor), run_task(run, predictor.db)[0]
    seeds = task_seeds(task, predictor.graph, split)
    rng = np.random.default_rng(0)
    drawn = rng.permutation(len(seeds))
    for place in drawn[rows : rows + WARM] if len(drawn) > rows else drawn[:1]:
        _explained(explainer, seeds.take(np.array([place])))
    explainer.clock.seconds.clear()
    checks: list[Any] = []
    variants: list[int] = []
    misses: list[float] = []
    seconds: list[float] = []
    processor: list[float] = []
    places = np.sort(drawn[:rows])
    for number, place in enumerate(places):
        start, worked = time.perf_counter(), time.process_time()
        why = _explained(explainer, seeds.take(np.array([place])))
        if why is not None:
            seconds.append(time.perf_counter() - start)
            processor.append(time.process_time() - worked)
            checks.append(why.check)
            variants.append(why.variants)
            misses.append(abs(why.prediction - why.base - sum(e.effect for e in why.effects)))
        if number % 10 == 9:
            progress(f"{number + 1} of {len(places)} explained")
    results: list[dict[str, Any]] = [
        {"name": "rows explained", "value": len(checks)},
        {"name": "rows without anything to explain", "value": len(places) - len(checks)},
        {"name": "variants each", "value": float(np.mean(variants))},
        {"name": "effects beside prediction - base, at most", "value": max(misses, default=0.0)},
        *_times(explainer, np.array(seconds), np.array(processor)),
        *_areas(checks, rng),
    ]
    where = machine()
    if predictor.scorer.device.type == "cuda":
        where["gpu"] = torch.cuda.get_device_name(predictor.scorer.device)
    return {"machine": where, "run": folder.name, "results": results, "ratios": {}}


def _explained(explainer: Explainer, seed: Seeds) -> Explanation | None:
    """An explanation; None where there is nothing to explain."""
    try:
        return explainer.explain_seed(seed)
    except GelgtError as error:
        if error.code not in NOTHING:
            raise
        return None


def _times(
    explainer: Explainer, seconds: NDArray[np.float64], processor: NDArray[np.float64]
) -> Iterator[dict[str, Any]]:
    """What an explanation costs, and where its time goes; the processor's own time, of all threads
    together, does not depend on who else is busy on the machine."""
    for name, share in (("median", 0.5), ("90 % of them", 0.9), ("all of them", 1.0)):
        value = 1000 * float(np.quantile(seconds, share))
        yield {"name": f"milliseconds each, {name}", "value": value}
    value = 1000 * float(np.median(processor))
    yield {"name": "milliseconds of the processor each, median", "value": value}
    for phase, spent in sorted(explainer.clock.seconds.items(), key=lambda item: -item[1]):
        yield {"name": f"… {phase}, mean", "value": 1000 * spent / max(1, len(seconds))}


def _areas(checks: list[Any], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """The areas between the curves, and how far they are ahead of other orders."""
    better = float(np.mean([check["is_better_than_random"] for check in checks]))
    yield {"name": "better than random orders", "value": better}
    own = np.array([check["area"] for check in checks])
    yield {"name": "area", "value": float(own.mean())}
    for name in ORDERS:
        if any(check[name] is None for check in checks):
            continue
        other = np.array([check[name] for check in checks])
        drawn = (own - other)[rng.integers(0, len(own), (BOOTSTRAP, len(own)))].mean(1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        yield {"name": name, "value": float(other.mean())}
        difference = float((own - other).mean())
        yield {
            "name": f"area - {name}",
            "value": difference,
            "low": float(low),
            "high": float(high),
        }
