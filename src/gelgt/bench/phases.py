"""One phase of `gelgt bench graph` in a process of its own:
`python -m gelgt.bench.phases PHASE SOURCE OUT ROWS`.

A fresh process gives each phase its own peak of memory and nothing warm from the phase before.
Libraries are imported before the clock starts and timed by themselves, so that seconds are the work
on the data. The result is one line of JSON on stdout.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

SLICE_ROWS = 1_000


@dataclass(frozen=True)
class Paths:
    """What a phase works on."""

    source: Path  # the generated Parquet folder
    out: Path  # the imported database
    rows: int


def generate(paths: Paths) -> None:
    from gelgt.testing.large import large

    large(paths.source, rows=paths.rows)


def import_(paths: Paths) -> None:
    import gelgt
    from gelgt.testing.large import schema

    gelgt.open(paths.source, schema=schema(), out=paths.out)


def graph(paths: Paths) -> None:
    import gelgt

    gelgt.open(paths.out).graph()


def features(paths: Paths) -> None:
    import gelgt

    gelgt.open(paths.out).features()


def reopen(paths: Paths) -> None:
    """Everything from the cache, down to the rows of a batch."""
    import numpy as np

    import gelgt

    db = gelgt.open(paths.out)
    db.graph()
    table = max(db.table_names, key=db.num_rows)
    rows = np.random.default_rng(0).integers(0, db.num_rows(table), SLICE_ROWS)
    db.features().frame(table, rows)


def pandas_import(paths: Paths) -> None:
    from gelgt.bench.pandas_peer import import_tables

    import_tables(paths.source, paths.out)


def pandas_graph(paths: Paths) -> None:
    from gelgt.bench.pandas_peer import build_graph

    build_graph(paths.out)


_GELGT = (
    "gelgt.sources",
    "gelgt.sources.importer",
    "gelgt.graph",
    "gelgt.features",
    "pandas",
    "pyarrow.parquet",
    "torch_frame",
)
_PANDAS = ("gelgt.bench.pandas_peer",)

# Phase → what it does and the libraries that it has loaded before.
PHASES: dict[str, tuple[Callable[[Paths], None], tuple[str, ...]]] = {
    "generate": (generate, ("pyarrow.parquet",)),
    "import": (import_, _GELGT),
    "graph": (graph, _GELGT),
    "features": (features, _GELGT),
    "reopen": (reopen, _GELGT),
    "pandas_import": (pandas_import, _PANDAS),
    "pandas_graph": (pandas_graph, _PANDAS),
}


def peak_mib() -> float:
    """The most memory this process had resident, memory-mapped pages included.

    `ru_maxrss` of a fresh process on Linux starts from the parent's at the time of the fork, so
    that a heavy parent would be reported as its child; `VmHWM` belongs to this program alone.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024


def run(phase: str, paths: Paths) -> dict[str, float]:
    """Load the libraries, run the phase, and say what it took."""
    work, libraries = PHASES[phase]
    start = time.perf_counter()
    for library in libraries:
        import_module(library)
    loaded = time.perf_counter()
    work(paths)
    done = time.perf_counter()
    return {
        "seconds": round(done - loaded, 3),
        "library_seconds": round(loaded - start, 3),
        "peak_mib": round(peak_mib(), 1),
    }


if __name__ == "__main__":
    print(
        json.dumps(run(sys.argv[1], Paths(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))))
    )
