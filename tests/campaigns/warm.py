"""What a process that forks others has ready for them: modules, machine code and the description of
the command line, which take longer than most commands on a few rows.

Compiled code comes from numba's own cache, so that only what some process has compiled before is
there; `kill` tries what happens to files, and `tests/test_compiled.py` to that cache.
"""

import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

# What commands load while they run.
_LIGHT = (
    "gelgt.cli",
    "gelgt.sources",
    "gelgt.tasks",
    "gelgt.schema",
    "duckdb",
    "pyarrow.acero",
    "sqlalchemy.dialects.sqlite",
)
_HEAVY = (
    *("gelgt.candidates", "gelgt.explain", "gelgt.features", "gelgt.graph", "gelgt.history"),
    *("gelgt.inference", "gelgt.report", "gelgt.runs", "gelgt.sampling", "gelgt.scoring"),
    *("gelgt.serve", "gelgt.training", "gelgt.baselines", "gelgt.zoo", "gelgt.nn"),
    *(
        "lightgbm",
        "torch_geometric.nn",
        "uvicorn",
        "torch.profiler",
        "pyarrow.dataset",
        "sklearn.metrics",
    ),
)
LOADED = {"light": _LIGHT, "heavy": (*_LIGHT, *_HEAVY)}
_QUICK = 2  # rounds, and resamples that intervals of metrics come from


def load(kind: str) -> None:
    """Do what is the same in each process once."""
    for name in LOADED[kind]:
        if find_spec(name.partition(".")[0]) is not None:
            _import_all(name)
    import typer.main

    from gelgt.cli.app import app

    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(app)
    if kind == "heavy":
        quick()
        compiled()


def _import_all(name: str) -> None:
    """A package, and the modules of a package of gelgt whose dependencies are installed."""
    module = import_module(name)
    if name.startswith("gelgt."):
        for found in iter_modules(module.__path__):
            with suppress(ImportError):
                import_module(f"{name}.{found.name}")


def quick() -> None:
    """Forests and columns networks of a few rounds, and checkpoints after each step: the same code
    paths in a second."""
    from gelgt.baselines import boosting
    from gelgt.history import choose
    from gelgt.runs import intervals
    from gelgt.training import columns_fit, fit, trees

    trees.ROUNDS = choose.ROUNDS = boosting.ROUNDS = columns_fit.EPOCH = _QUICK
    intervals.RESAMPLES_FEW, fit.CHECKPOINT_SECONDS = 20, 1e-3


def compiled() -> None:
    """Take machine code from numba's cache, whatever is there now and was not before."""
    from numba.core.dispatcher import Dispatcher

    for name, module in list(sys.modules.items()):
        if name.startswith("gelgt."):
            for function in vars(module).values():
                if isinstance(function, Dispatcher):
                    _take(function)


def _take(function: Any) -> None:
    index = getattr(function._cache, "_cache_file", None)
    kept = {} if index is None else index._load_index()
    for signature, *_ in kept:
        if signature not in function.overloads:
            function.compile(signature)
