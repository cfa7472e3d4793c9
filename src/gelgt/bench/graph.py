"""`gelgt bench graph`: what it costs to turn a large database into a graph and features.

    python -c "import json; from gelgt.bench.graph import bench_graph;
    print(json.dumps(bench_graph((1_400_000,)), indent=1))"

For each size a database is generated (`gelgt.testing.large`; not timed), imported from Parquet,
turned into a graph and features, and opened again, each phase in a process of its own. The smaller
size also runs through a pandas implementation. All files, the cache included, are in one temporary
folder and removed at the end.
"""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gelgt.bench.machine import machine
from gelgt.bench.measure import over, run_phase, short
from gelgt.bench.phases import Work
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
    sizes = checked_sizes(rows)
    say = progress or (lambda line: None)
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gelgt-bench-", dir=folder) as base:
        for size in sizes:
            work = Work(str(Path(base) / str(size)), size)
            say(f"{size:,} rows: generating")
            run_phase("generate", work)
            phases = [("gelgt", phase) for phase in PHASES]
            if peer and size == sizes[0]:
                phases += [("pandas", phase) for phase in PEER_PHASES]
            for tool, phase in phases:
                say(f"{size:,} rows: {phase} ({tool})")
                child = phase if tool == "gelgt" else f"{tool}_{phase}"
                facts = {"tool": tool, "rows": size, "foreign_keys": foreign_keys(size)}
                results.append(facts | {"phase": phase, **run_phase(child, work)})
            shutil.rmtree(work.folder)
    return {"machine": machine(), "results": results, "ratios": _ratios(results, sizes)}


def _ratios(results: list[dict[str, Any]], sizes: list[int]) -> dict[str, float]:
    seconds = {(r["tool"], r["rows"], r["phase"]): r["seconds"] for r in results}
    small, large = sizes[0], sizes[-1]
    ratios = {
        f"{phase}_vs_pandas": over(seconds["pandas", small, phase], seconds["gelgt", small, phase])
        for phase in PEER_PHASES
        if ("pandas", small, phase) in seconds
    }
    if large > small:
        name = f"cost_per_row_{short(large)}_vs_{short(small)}"
        once = [phase for phase in PHASES if phase != "reopen"]
        cost = {
            size: sum(seconds["gelgt", size, phase] for phase in once) / size
            for size in (small, large)
        }
        ratios[name] = over(cost[large], cost[small])
        ratios |= {
            f"{phase}_{name}": over(
                seconds["gelgt", large, phase] / large, seconds["gelgt", small, phase] / small
            )
            for phase in once
        }
    return ratios


def checked_sizes(rows: Sequence[int]) -> list[int]:
    """The sizes, ascending and each once, if a database can be generated at each."""
    sizes = sorted(set(rows))
    if not sizes or sizes[0] < 1000:
        raise GelgtError(
            "bad_size",
            f"Sizes must be at least 1,000 rows, got {list(rows)}.",
            hint="Name one or more sizes of at least 1,000 rows.",
        )
    return sizes
