"""`gelgt bench attention`: what the Gaussian bias costs, beside flash attention without a bias in
the same run.

    fused          gelgt's kernels: the bias is computed where it is needed
    flash          PyTorch's flash attention, no bias at all: what `fused` is compared with
    materialised   the bias of all pairs written to memory, then PyTorch's attention with it as its
                   mask, as the paper does it
    reference      the formula as it is written
    flex           FlexAttention with learned μ, σ, W and b; hundreds of times slower, so only with
                   --flex

Forward and backward, four heads of 128 and four Gaussians in bf16. A time is the median over CUDA
events around whole calls, with what the host does between launches; `graph_ms` is the same as a
replayed CUDA graph, the device alone. Errors are ‖value - exact‖ / ‖exact‖ against float64 over one
subgraph. On a CPU everything is tiny: it shows that it runs, and says nothing about speed.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gelgt.bench.attention_cases import Case, errors
from gelgt.bench.machine import machine
from gelgt.nn.kernels import why_not

ROWS = (300, 3_000, 30_000)
BATCHES = {300: 64, 3_000: 16, 30_000: 2}
MOST_EXACT = 3_000  # rows; float64 over all pairs of more does not fit
Say = Callable[[str], None]


def bench_attention(
    rows: tuple[int, ...] = ROWS,
    flex: bool = False,
    *,
    repeats: int = 50,
    progress: Say | None = None,
    device: str | None = None,
) -> dict[str, Any]:
    """Measure the backends of attention.

    Args:
        rows: Of a subgraph; on a CPU all become 40.
        flex: Whether FlexAttention is measured too (minutes at 30,000 rows).
        repeats: Calls of which the median counts.
        device: ``cuda`` if there is one, else ``cpu``.

    Returns:
        ``machine``, ``results``, ``ratios`` (times of flash).
    """
    say = progress or (lambda line: None)
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    is_cuda = on.type == "cuda"
    if not is_cuda:
        say("no CUDA device: tiny sizes, and the times say nothing about speed")
    results: list[dict[str, Any]] = []
    for count in rows if is_cuda else (40,):
        for name in ("flash", "fused", "materialised", "reference", *(("flex",) if flex else ())):
            reason = why_not(on, torch.bfloat16, 128, 4) if name == "fused" else None
            if reason is not None:
                say(f"fused is left out: {reason}")
                continue
            say(f"{name}: {count:,} rows")
            results.append(_measure(name, count, on, repeats if is_cuda else 3))
    about = machine() | ({"gpu": torch.cuda.get_device_name(on)} if is_cuda else {})
    return {"machine": about, "results": results, "ratios": _ratios(results)}


def _measure(name: str, rows: int, on: torch.device, repeats: int) -> dict[str, Any]:
    """Time, memory and error of a backend; or that it runs out of memory."""
    is_cuda = on.type == "cuda"
    seeds = BATCHES.get(rows, max(1, 60_000 // rows)) if is_cuda else 2
    result: dict[str, Any] = {"backend": name, "rows": rows, "batch": seeds}
    try:
        run = Case.of(seeds, rows, on, torch.bfloat16 if is_cuda else torch.float32).step(name)
        result |= _times(run, repeats) if is_cuda else _cpu_time(run, repeats)
        del run
        if name != "flash" and rows <= MOST_EXACT:
            result |= {f"error_{part}": error for part, error in errors(name, rows, on)}
    except torch.OutOfMemoryError:
        result["ms"] = "out of memory"
    if is_cuda:
        torch.cuda.empty_cache()
    return result


def _cpu_time(run: Callable[[], Tensor], repeats: int) -> dict[str, Any]:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        taken.append(1e3 * (time.perf_counter() - start))
    return {"ms": round(statistics.median(taken), 2)}


def _times(run: Callable[[], Tensor], repeats: int) -> dict[str, Any]:
    """Milliseconds of a call and of its graph, and GiB at the peak, inputs and outputs included."""
    run()
    repeats = max(3, min(repeats, int(2_000 / _median(run, 1))))  # two seconds are enough
    torch.cuda.reset_peak_memory_stats()
    run()
    peak = torch.cuda.max_memory_allocated() / 2**30
    return {
        "ms": _median(run, repeats),
        "graph_ms": _graph_time(run, repeats),
        "peak_gib": round(peak, 3),
    }


def _median(run: Callable[[], Any], repeats: int) -> float:
    events: list[tuple[Any, Any]] = []
    for _ in range(repeats + 3):  # the first three warm up
        pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        pair[0].record()
        run()
        pair[1].record()
        events.append(pair)
    torch.cuda.synchronize()
    return round(float(statistics.median(start.elapsed_time(end) for start, end in events[3:])), 4)


def _graph_time(run: Callable[[], Tensor], repeats: int) -> float | None:
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            run()
    except RuntimeError:  # what cannot be captured has no such time
        return None
    return _median(graph.replay, repeats)


def _ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    """Time and memory over those of flash, and the materialised bias's time over ours."""
    entries = {(entry["backend"], entry["rows"]): entry for entry in results}
    ratios = {}
    for (name, rows), entry in entries.items():
        flash = entries.get(("flash", rows))
        if name != "flash" and flash is not None:
            for key in ("ms", "graph_ms", "peak_gib"):
                if isinstance(entry.get(key), float) and isinstance(flash.get(key), float):
                    ratios[f"{name}_{key}_vs_flash_{rows}"] = round(entry[key] / flash[key], 2)
    for (name, rows), entry in entries.items():
        other = entries.get(("materialised", rows), {})
        if name == "fused" and isinstance(other.get("ms"), float):
            ratios[f"materialised_ms_vs_fused_{rows}"] = round(other["ms"] / entry["ms"], 2)
    return ratios
