"""`gelgt bench scale`: seconds and memory of the whole way from rows to predictions, by size.

    python -c "import json; from gelgt.bench.scale import bench_scale;
    print(json.dumps(bench_scale((1_000_000,)), indent=1))"

For each size a database is generated (`gelgt.testing.large` with three feature columns; not timed),
imported from Parquet, turned into a graph and features, given labels by a PREDICT sentence, learned
by the preset `cpu` for some steps and predicted on, each phase in a process of its own. A limit of
memory repeats all phases under it.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gelgt.bench.graph import checked_sizes
from gelgt.bench.machine import machine
from gelgt.bench.measure import MemoryLimit, memory_limit, over, run_phase, short
from gelgt.bench.phases import Work
from gelgt.errors import GelgtError
from gelgt.testing.large import foreign_keys

# Phases and what their cost is counted by.
PHASES = {
    "import": "rows",
    "graph": "rows",
    "features": "rows",
    "task": "rows",
    "train": "labels",
    "predict": "entities",
}
WARM_ROWS = 5_000
DISK_BYTES = 350  # a row of the generated database, with everything that is built from it


@dataclass(frozen=True)
class ScaleOptions:
    """How far each size goes.

    Attributes:
        memory: A hard limit of memory in bytes, under which each size runs a second time.
        labels: Most labels of each split that are learned or scored.
        steps: Training steps.
        entities: Most entities to predict for.
        folder: Where the files go; a temporary folder by default.
        is_kept: Whether the files stay.
    """

    memory: int | None = None
    labels: int = 10_000
    steps: int = 50
    entities: int = 20_000
    folder: Path | None = None
    is_kept: bool = False


def bench_scale(
    rows: Sequence[int] = (1_000_000, 10_000_000),
    options: ScaleOptions | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure every phase at each size.

    Returns:
        ``machine``; ``results``, one for each size, limit and phase: seconds, how many rows, labels
        or entities a second, the most anonymous memory and the most resident memory, ``cost``:
        seconds for each of these over those at the smallest size, and ``cpu_cost``, the same of the
        processor's seconds, which other work on the machine disturbs less; ``ratios``:
        ``cost_per_row_100M_vs_1M`` over import, graph, features and task, and the speed under the
        limit over that without it.

    Raises:
        GelgtError: a size is too small, or the disk.
    """
    options, say = options or ScaleOptions(), progress or (lambda line: None)
    sizes = checked_sizes(rows)
    _check_options(options)
    results: list[dict[str, Any]] = []
    with _folder(options) as base:
        _check_disk(base, sizes[-1])
        _warm_up(replace(Work(str(base / "warm"), WARM_ROWS, True), labels=100, steps=1), say)
        for size in sizes:
            work = Work(
                str(base / str(size)), size, True, options.labels, options.steps, options.entities
            )
            say(f"{size:,} rows: generating")
            run_phase("generate", work)
            results += _measure(work, None, say)
            if options.memory is not None:
                with memory_limit(options.memory) as limit:
                    _forget(work.source)
                    apart = replace(work, folder=f"{work.folder}-limited")
                    Path(apart.folder).mkdir()
                    apart.source.symlink_to(work.source)
                    results += _measure(apart, limit, say)
                    shutil.rmtree(apart.folder)
            if not options.is_kept:
                shutil.rmtree(work.folder)
    _add_costs(results)
    return {"machine": machine(), "results": results, "ratios": _ratios(results, sizes)}


def _warm_up(work: Work, say: Callable[[str], None]) -> None:
    """Every phase on a few rows, so that no size pays for compiling kernels, which are kept."""
    say("compiling")
    for phase in ("generate", *PHASES):
        run_phase(phase, work)
    shutil.rmtree(work.folder)


def _check_options(options: ScaleOptions) -> None:
    for name in ("labels", "steps", "entities"):
        if getattr(options, name) < 1:
            raise GelgtError(
                "bad_option",
                f"{name} must be at least 1, got {getattr(options, name)}.",
                hint="Give a larger number.",
            )
    if options.is_kept and options.folder is None:
        raise GelgtError(
            "bad_option", "--keep needs --folder.", hint="Name a folder for the files."
        )


@contextmanager
def _folder(options: ScaleOptions) -> Iterator[Path]:
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    if options.is_kept and options.folder is not None:
        yield Path(tempfile.mkdtemp(prefix="gelgt-scale-", dir=options.folder))
    else:
        with tempfile.TemporaryDirectory(prefix="gelgt-scale-", dir=options.folder) as folder:
            yield Path(folder)


def _check_disk(folder: Path, rows: int) -> None:
    free, needed = shutil.disk_usage(folder).free, rows * DISK_BYTES
    if free < needed:
        raise GelgtError(
            "no_space",
            f"{rows:,} rows need about {needed / 1e9:.1f} GB in {folder}, which has "
            f"{free / 1e9:.1f} GB.",
            hint="Free space, name another folder with --folder, or measure fewer rows.",
        )


def _measure(
    work: Work, limit: MemoryLimit | None, say: Callable[[str], None]
) -> Iterator[dict[str, Any]]:
    under = f"{limit.size / 2**30:g} GiB ({limit.kind})" if limit else "none"
    for phase, unit in PHASES.items():
        say(f"{work.rows:,} rows: {phase}" + (f", memory limit {under}" if limit else ""))
        try:
            measured = run_phase(phase, work, limit)
        except RuntimeError as error:
            if limit is None:
                raise
            say(f"{work.rows:,} rows: {phase} does not work under the limit: {_reason(error)}")
            return
        count = int(measured.get(unit, work.rows))
        seconds = measured["seconds"]
        yield {
            "rows": work.rows,
            "foreign_keys": foreign_keys(work.rows),
            "limit": under,
            "phase": phase,
            "seconds": seconds,
            "cpu_seconds": measured.get("cpu_seconds"),
            "unit": unit,
            "count": count,
            "per_second": round(count / max(seconds, 1e-9)),
            "anonymous_mib": measured.get("anonymous_mib"),
            "peak_mib": measured["peak_mib"],
        }


def _reason(error: RuntimeError) -> str:
    """The line of a failed phase that names its error; libraries may say more as they end."""
    lines = str(error).strip().splitlines()
    named = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(Error|Exception): ", line)]
    return (named or lines)[-1]


def _forget(folder: Path) -> None:
    """Drop the pages of files from the page cache, so that whoever reads them next is charged."""
    if not hasattr(os, "posix_fadvise"):
        return
    for path in folder.iterdir():
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _add_costs(results: list[dict[str, Any]]) -> None:
    """Seconds for a row, label or entity over those of the first size under the same limit."""
    first: dict[tuple[str, str], float] = {}
    for result in results:
        cost = result["seconds"] / result["count"]
        key = (result["limit"], result["phase"])
        result["cost"] = over(cost, first.setdefault(key, cost))
        if result["cpu_seconds"] is not None:
            cost = result["cpu_seconds"] / result["count"]
            key = (result["limit"], f"{result['phase']} cpu")
            result["cpu_cost"] = over(cost, first.setdefault(key, cost))


def _ratios(results: list[dict[str, Any]], sizes: list[int]) -> dict[str, float]:
    seconds = {(r["rows"], r["limit"] == "none", r["phase"]): r["seconds"] for r in results}
    by_row = [phase for phase, unit in PHASES.items() if unit == "rows"]
    cost = {size: sum(seconds[size, True, phase] for phase in by_row) / size for size in sizes}
    ratios = {
        f"cost_per_row_{short(size)}_vs_{short(sizes[0])}": over(cost[size], cost[sizes[0]])
        for size in sizes[1:]
    }
    return ratios | {
        f"{phase}_limited_vs_unlimited_{short(size)}": over(
            seconds[size, True, phase], seconds[size, False, phase]
        )
        for size in sizes
        for phase in PHASES
        if (size, False, phase) in seconds
    }
