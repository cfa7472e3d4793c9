"""Whether explanations hold: the area between the curves of adding and removing rows, beside the
orders by attention and at random, over test rows of a run; and what an explanation costs."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gelgt.bench.machine import machine
from gelgt.errors import GelgtError
from gelgt.explain import Explainer
from gelgt.explain.explainer import NOTHING
from gelgt.inference import Predictor
from gelgt.inference.task import run_task
from gelgt.runs.folder import load_run
from gelgt.sampling import task_seeds

ORDERS = ("area_attention", "area_random")
BOOTSTRAP = 2000


def bench_explain(
    folder: Path, rows: int, device: str = "auto", progress: Callable[[str], None] = print
) -> dict[str, Any]:
    """Explain some test rows of a run, drawn at random.

    Args:
        folder: The run; its source is where it was trained.
        rows: How many test rows.
        progress: Is told of every tenth.
    """
    run = load_run(folder)
    predictor = Predictor(run, None, device)
    explainer, task = Explainer(predictor), run_task(run, predictor.db)[0]
    seeds = task_seeds(task, predictor.graph, "test")
    rng = np.random.default_rng(0)
    places = np.sort(rng.permutation(len(seeds))[:rows])
    checks, seconds, misses, variants, empty = [], [], [], 0, 0
    for number, place in enumerate(places):
        start = time.perf_counter()
        try:
            why = explainer.explain_seed(seeds.take(np.array([place])))
        except GelgtError as error:
            if error.code not in NOTHING:
                raise
            empty += 1
            continue
        seconds.append(time.perf_counter() - start)
        checks.append(why.check)
        variants += why.variants
        misses.append(abs(why.prediction - why.base - sum(e.effect for e in why.effects)))
        if number % 10 == 9:
            progress(f"{number + 1} of {len(places)} explained")
    results: list[dict[str, Any]] = [
        {"name": "rows explained", "value": len(checks)},
        {"name": "rows without anything to explain", "value": empty},
        {"name": "seconds each, median", "value": float(np.median(seconds))},
        {"name": "variants each", "value": variants / max(1, len(checks))},
        {"name": "effects beside prediction - base, at most", "value": max(misses, default=0.0)},
        {
            "name": "better than random orders",
            "value": float(np.mean([check["is_better_than_random"] for check in checks])),
        },
    ]
    own = np.array([check["area"] for check in checks])
    results.append({"name": "area", "value": float(own.mean())})
    for name in ORDERS:
        if any(check[name] is None for check in checks):
            continue
        other = np.array([check[name] for check in checks])
        drawn = (own - other)[rng.integers(0, len(own), (BOOTSTRAP, len(own)))].mean(1)
        low, high = np.quantile(drawn, [0.025, 0.975])
        results.append({"name": name, "value": float(other.mean())})
        results.append(
            {
                "name": f"area - {name}",
                "value": float((own - other).mean()),
                "low": float(low),
                "high": float(high),
            }
        )
    return {"machine": machine(), "run": folder.name, "results": results, "ratios": {}}
