"""`python -m gelgt.bench.mechanism`: does the Gaussian bias find a lag that was planted, and what
is it worth beside the age encoder?

The label depends on the values of events about L days back alone. Small models (`planted_lag.py`)
are trained with and without the bias:

    alone     no age encoder: the bias is the only part that knows time
    beside    with the age encoder: AUC, and the steps until validation reaches 98 % of its best

The strongest kernel has the largest weights (norm over heads) in its column of W; weights are
positive (docs/research/mechanism.md says what free signs do). `peak_days` is where the bias
averaged over heads is largest.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean as mean
from typing import Any

from gelgt.bench.machine import machine
from gelgt.bench.planted_lag import Data, Training, small_config, train
from gelgt.config import Bias


def run_study(
    lags: Sequence[float] = (7, 30, 180),
    seeds: Sequence[int] = (0, 1, 2),
    rows: Sequence[int] = (1000, 4000, 16_000),
    *,
    alone_rows: int = 16_000,
    training: Training | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """The part `alone` for each lag (days), the part `beside` for each number of training rows; a
    seed fixes database and training.

    Returns:
        ``machine``; ``results``, one for each training; ``ratios``: for each lag the gain in mean
        test AUC and the strongest centre over the lag (the worst of the seeds), for each size the
        gain and the steps to 98 % without the bias over those with it.
    """
    plan = [("alone", lag, alone_rows) for lag in lags] + [("beside", 30.0, size) for size in rows]
    results = []
    for part, lag, size in plan:
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="gelgt-bench-") as base:
                data = Data.of(lag, size, Path(base) / "lag", seed=seed)
                for bias in ("gaussian", "none"):
                    results.append(_entry(part, data, bias, size, seed, training or Training()))
                    progress(json.dumps(results[-1]))
    return {"machine": machine(), "results": results, "ratios": _ratios(results)}


def _entry(
    part: str, data: Data, bias: Bias, rows: int, seed: int, training: Training
) -> dict[str, Any]:
    outcome = train(data, small_config(bias, part == "beside"), seed, training)
    kernels = (
        {"": outcome.kernels[0], "norm_": max(outcome.kernels, key=lambda k: float(k["norm"]))}
        if outcome.kernels
        else {}
    )
    return {
        "part": part,
        "lag": data.database.lag,
        "rows": rows,
        "bias": bias,
        "seed": seed,
        "test_auc": round(outcome.test_auc, 4),
        "oracle_auc": round(data.database.splits["test"].oracle_auc, 4),
        "steps": outcome.steps,
        "steps_to_98": outcome.steps_to(),
        **{
            f"{which}{of}": round(k[of], 2)
            for which, k in kernels.items()
            for of in ("centre_days", "width_days")
        },
        "peak_days": outcome.peak_days,
        "seconds": outcome.seconds,
    }


def _ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    ratios: dict[str, float] = {}
    for part, lag, rows in dict.fromkeys((r["part"], r["lag"], r["rows"]) for r in results):
        with_bias, without = (
            [r for r in results if (r["part"], r["lag"], r["rows"], r["bias"]) == key]
            for key in ((part, lag, rows, "gaussian"), (part, lag, rows, "none"))
        )
        name = f"alone_{lag:g}d" if part == "alone" else f"beside_{rows}"
        ratios[f"{name}_gain"] = round(
            mean(r["test_auc"] for r in with_bias) - mean(r["test_auc"] for r in without), 4
        )
        if part == "alone":
            worst = max(with_bias, key=lambda r: abs(float(r["centre_days"]) - lag))
            ratios[f"{name}_centre_over_lag"] = round(worst["centre_days"] / lag, 3)
        else:
            steps = [mean(r["steps_to_98"] for r in side) for side in (without, with_bias)]
            ratios[f"{name}_steps_without_over_with"] = round(steps[0] / steps[1], 2)
    return ratios


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the study as JSON on stdout, and a line for each training on stderr."""
    parser = argparse.ArgumentParser(prog="python -m gelgt.bench.mechanism")
    parser.add_argument(
        "--lags",
        type=float,
        nargs="*",
        default=[7, 30, 180],
        help="days, for the part without the age encoder",
    )
    parser.add_argument(
        "--alone-rows",
        type=int,
        default=16_000,
        help="of training, for the part without the age encoder",
    )
    parser.add_argument(
        "--rows",
        type=int,
        nargs="*",
        default=[1000, 4000, 16_000],
        help="of training, for the part with it",
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = vars(parser.parse_args(arguments))
    print(
        json.dumps(
            run_study(**options, progress=lambda line: print(line, file=sys.stderr)), indent=1
        )
    )


if __name__ == "__main__":
    main()
