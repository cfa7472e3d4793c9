"""`gelgt bench graph`: what it costs to turn a large database into a graph and features.

    python -c "import json; from gelgt.bench.graph import bench_graph;
    print(json.dumps(bench_graph((1_400_000,)), indent=1))"

For each size a database is generated (`gelgt.testing.large`; not timed), imported from Parquet,
turned into a graph and features, and opened again, each phase in a process of its own. The smaller
size also runs through a pandas implementation. All files, the cache included, are in one temporary
folder and removed at the end.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gelgt.bench.machine import machine
from gelgt.errors import GelgtError
from gelgt.testing.large import foreign_keys

PHASES = ("import", "graph", "features", "reopen")
PEER_PHASES = ("import", "graph")


def bench_graph(
    rows: Sequence[int] = (1_400_000, 14_000_000),
    folder: str | Path | None = None,
    *,
    peer: bool = True,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure import, graph, features and reopening at each size.

    Args:
        rows: Sizes of the generated database, in rows.
        folder: Where the temporary folder goes; 14 million rows need about 15 GB.
        peer: Whether to run the pandas peer at the smallest size.
        progress: Called with a line of text before each phase.

    Returns:
        ``machine``; ``results``, one for each tool, size and phase, with seconds of work, seconds
        of importing libraries and peak memory; ``ratios``: ``import_vs_pandas`` and
        ``graph_vs_pandas`` are the seconds of pandas over those of gelgt (above 1: gelgt is
        faster), ``cost_per_row_14M_vs_1.4M`` is the cost per row at the largest size over that at
        the smallest (1: flat), over all phases but reopening, and the same for each phase.
    """
    sizes = sorted(set(rows))
    if not sizes or sizes[0] < 1000:
        raise GelgtError(
            "bad_size",
            f"Sizes must be at least 1,000 rows, got {list(rows)}.",
            hint="Name one or more sizes of at least 1,000 rows.",
        )
    say = progress or (lambda line: None)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gelgt-bench-", dir=folder) as base:
        for size in sizes:
            work = Path(base) / str(size)
            say(f"{size:,} rows: generating")
            _child("generate", work, "gelgt", size)
            phases = [("gelgt", phase) for phase in PHASES]
            if peer and size == sizes[0]:
                phases += [("pandas", phase) for phase in PEER_PHASES]
            for tool, phase in phases:
                say(f"{size:,} rows: {phase} ({tool})")
                child = phase if tool == "gelgt" else f"{tool}_{phase}"
                facts = {"tool": tool, "rows": size, "foreign_keys": foreign_keys(size)}
                results.append(facts | {"phase": phase, **_child(child, work, tool, size)})
            shutil.rmtree(work)
    return {"machine": machine(), "results": results, "ratios": _ratios(results, sizes)}


def _child(phase: str, work: Path, tool: str, rows: int) -> dict[str, float]:
    """Run one phase in a fresh process with a cache of its own."""
    command = [
        sys.executable,
        "-m",
        "gelgt.bench.phases",
        phase,
        str(work / "source"),
        str(work / tool),
        str(rows),
    ]
    environment = {**os.environ, "GELGT_CACHE": str(work / "cache")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"The phase '{phase}' ended with status {done.returncode}:\n{done.stderr[-4000:]}"
        )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _ratios(results: list[dict[str, Any]], sizes: list[int]) -> dict[str, float]:
    seconds = {(r["tool"], r["rows"], r["phase"]): r["seconds"] for r in results}
    small, large = sizes[0], sizes[-1]
    ratios = {
        f"{phase}_vs_pandas": _over(seconds["pandas", small, phase], seconds["gelgt", small, phase])
        for phase in PEER_PHASES
        if ("pandas", small, phase) in seconds
    }
    if large > small:
        name = f"cost_per_row_{_short(large)}_vs_{_short(small)}"
        once = [phase for phase in PHASES if phase != "reopen"]
        cost = {
            size: sum(seconds["gelgt", size, phase] for phase in once) / size
            for size in (small, large)
        }
        ratios[name] = _over(cost[large], cost[small])
        ratios |= {
            f"{phase}_{name}": _over(
                seconds["gelgt", large, phase] / large, seconds["gelgt", small, phase] / small
            )
            for phase in once
        }
    return ratios


def _over(above: float, below: float) -> float:
    return round(above / max(below, 1e-9), 3)


def _short(rows: int) -> str:
    """14000000 → 14M, 3000 → 3k."""
    return f"{rows / 1e6:g}M" if rows >= 1_000_000 else f"{rows / 1e3:g}k"
