"""One phase of `gelgt bench graph` or `gelgt bench scale` in a process of its own:
`python -m gelgt.bench.phases PHASE WORK`, where WORK is the JSON of a `Work`.

A fresh process gives each phase its own peak of memory and nothing warm from the phase before.
Libraries are imported before the clock starts and timed by themselves, so that seconds are the work
on the data. The result is one line of JSON on stdout.
"""

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path

SLICE_ROWS = 1_000
LEAN = ("amount", "units", "status")  # feature columns of the database of `gelgt bench scale`
SENTENCE = "PREDICT COUNT(events.*, 0, 30, days) = 0 FOR EACH accounts.key"
TASK = "scale"
Counts = dict[str, int]


@dataclass(frozen=True)
class Work:
    """What a phase works on.

    Attributes:
        folder: Where the source, the imported database, the cache and the run lie.
        rows: Rows of the generated database.
        is_lean: Whether it has three feature columns instead of eight.
        labels: Most labels of each split that are learned or scored.
        steps: Training steps.
        entities: Most entities to predict for.
    """

    folder: str
    rows: int
    is_lean: bool = False
    labels: int = 10_000
    steps: int = 50
    entities: int = 20_000

    @property
    def source(self) -> Path:
        return Path(self.folder) / "source"

    @property
    def out(self) -> Path:
        return Path(self.folder) / "gelgt"

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def generate(work: Work) -> None:
    from gelgt.testing.large import large

    large(work.source, rows=work.rows, columns=LEAN if work.is_lean else None)


def import_(work: Work) -> None:
    import gelgt
    from gelgt.testing.large import schema

    gelgt.open(work.source, schema=schema(), out=work.out)


def graph(work: Work) -> None:
    import gelgt

    gelgt.open(work.out).graph()


def features(work: Work) -> None:
    import gelgt

    gelgt.open(work.out).features()


def reopen(work: Work) -> None:
    """Everything from the cache, down to the rows of a batch."""
    import numpy as np

    import gelgt

    db = gelgt.open(work.out)
    db.graph()
    table = max(db.table_names, key=db.num_rows)
    rows = np.random.default_rng(0).integers(0, db.num_rows(table), SLICE_ROWS)
    db.features().frame(table, rows)


def task(work: Work) -> None:
    """The labels of a PREDICT sentence, with one window each for validation and test, saved."""
    import gelgt

    gelgt.open(work.out).task(SENTENCE, name=TASK, eval_timestamps=1).save()


def train(work: Work) -> Counts:
    """Preset `cpu`, one network, for a given number of steps on a sample of the labels."""
    import numpy as np

    import gelgt

    db = gelgt.open(work.out)
    task = db.task(TASK)
    labels = {
        split: table.take(np.linspace(0, len(table) - 1, min(len(table), work.labels), dtype=int))
        for split, table in task.labels.items()
    }
    settings = {
        "train.epochs": 1,
        "train.steps_per_epoch": work.steps,
        "train.ensemble": 1,
        "train.windows": 1,
    }
    model = gelgt.GelGT("cpu", settings=settings, device="cpu")
    model.fit(db, replace(task, labels=labels), Path(work.folder) / "run")
    return {"labels": sum(map(len, labels.values()))}


def predict(work: Work) -> Counts:
    """All eligible entities are found; every k-th is predicted for and written."""
    import gelgt
    from gelgt.inference import write_predictions

    predictor = gelgt.load(Path(work.folder) / "run").predictor(gelgt.open(work.out))
    seeds = predictor.seeds()
    every = slice(None, None, -(-len(seeds) // work.entities))
    tables = predictor.predict_table(seeds.rows[every], seeds.times[every])
    write_predictions(tables, Path(work.folder) / "predictions.parquet")
    return {"entities": len(seeds.rows[every])}


def pandas_import(work: Work) -> None:
    from gelgt.bench.pandas_peer import import_tables

    import_tables(work.source, Path(work.folder) / "pandas")


def pandas_graph(work: Work) -> None:
    from gelgt.bench.pandas_peer import build_graph

    build_graph(Path(work.folder) / "pandas")


_GELGT = (
    "gelgt.sources",
    "gelgt.sources.importer",
    "gelgt.sources.files",
    "gelgt.sources.folder_import",
    "gelgt.sources.relbench_folder",
    "gelgt.testing.large",
    "gelgt.graph",
    "gelgt.features",
    "duckdb",
    "pandas",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "torch_frame",
)
_MODEL = (*_GELGT, "gelgt.tasks", "gelgt.estimator", "gelgt.training", "gelgt.inference")
_PANDAS = (
    "gelgt.bench.pandas_peer",
    "pyarrow.dataset",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
)

# Phase → what it does and the libraries that it has loaded before.
PHASES: dict[str, tuple[Callable[[Work], Counts | None], tuple[str, ...]]] = {
    "generate": (generate, ("pyarrow.parquet",)),
    "import": (import_, _GELGT),
    "graph": (graph, _GELGT),
    "features": (features, _GELGT),
    "reopen": (reopen, _GELGT),
    "task": (task, _MODEL),
    "train": (train, _MODEL),
    "predict": (predict, _MODEL),
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


def processor_seconds() -> float:
    """Of this process, and of those that it started and that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def run(phase: str, work: Work) -> dict[str, float]:
    """Load the libraries, run the phase, and say what it took."""
    act, libraries = PHASES[phase]
    start = time.perf_counter()
    for library in libraries:
        import_module(library)
    gc.collect()
    gc.freeze()  # otherwise a phase pays now and then for walking all objects of the libraries
    loaded = time.perf_counter()
    busy = processor_seconds()
    counts = act(work)
    done = time.perf_counter()
    return {
        **(counts or {}),
        "seconds": round(done - loaded, 3),
        "cpu_seconds": round(processor_seconds() - busy, 3),
        "library_seconds": round(loaded - start, 3),
        "peak_mib": round(peak_mib(), 1),
    }


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Work(**json.loads(sys.argv[2])))))
