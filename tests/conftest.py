"""Fixtures that all tests share: real RelBench data where it is at hand, the demo shop, and real
database servers."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import gelgt
from gelgt.demo import Shop, shop

# Some virtual machines announce AMX and then fault on it, which ends the process at the first
# bfloat16 product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
# Threads that wait by spinning take each other's cores, and tests take ten times as long on a busy
# machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tests run side by side, and their tensors are small

# The same examples each time, so that a change is judged by what it changed;
# HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile("fixed", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


# numba does not see changes in what a compiled function calls from another file
# (src/gelgt/compiled.py).
for kernel in Path(gelgt.__file__).parent.rglob("__pycache__/*.nbc"):
    package = Path(gelgt.__file__).parent
    sources = [
        *kernel.parent.parent.glob("*.py"),
        package / "hashing.py",
        package / "sampling" / "search.py",
    ]
    if kernel.stat().st_mtime < max(source.stat().st_mtime for source in sources):
        kernel.unlink(missing_ok=True)

sys.path.insert(0, str(Path(__file__).parent))  # for what tests share
from database_servers import (  # noqa: E402
    MariaServer,
    PostgresServer,
    ServerMissingError,
    free_port,
)
from secrets_watch import _no_secret_is_told, forms_in, secrets_watch  # noqa: E402
from tiny_database import make_task, tiny  # noqa: E402

__all__ = ["_no_secret_is_told", "free_port", "make_task", "secrets_watch", "tiny"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("llm") and find_spec("transformers") is None:
        pytest.skip("rel-llm needs transformers: pip install 'gelgt[llm]'")


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: the garbage collector need not go through them, half a
    second each time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What is frozen when Python ends, libraries take for leaked, and say so."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadfile":
        return None
    from folder_scheduling import FolderScheduling

    return FolderScheduling(config, log)


# Rounds of the forests in a tiny training, most of whose time they would otherwise take.
QUICK_ROUNDS = {
    "training.trees": 15,
    "history.choose": 15,
    "baselines.boosting": 30,
    "baselines.ranking": 15,
}


@pytest.fixture(scope="session", autouse=True)
def quick_forests() -> Iterator[dict[str, int]]:
    """Forests of a few rounds; tests of the forests themselves ask for `whole_forests`."""
    whole = {name: import_module(f"gelgt.{name}").ROUNDS for name in QUICK_ROUNDS}
    with pytest.MonkeyPatch.context() as patch:
        for name, rounds in QUICK_ROUNDS.items():
            patch.setattr(f"gelgt.{name}.ROUNDS", rounds)
        yield whole


@pytest.fixture(scope="session", autouse=True)
def quick_columns() -> Iterator[int]:
    """Columns networks of a few steps an epoch, and columns that are judged on few rows: judging
    thousands of them takes longer than training a tiny network."""
    judged: int = import_module("gelgt.history.choose").SAMPLE
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gelgt.training.columns_fit.EPOCH", 4)
        patch.setattr("gelgt.history.choose.SAMPLE", 1_000)
        yield judged


@pytest.fixture(scope="session", autouse=True)
def quick_rankings() -> Iterator[None]:
    """Recommendations by two forests, whose mean is still one of several, of a few columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gelgt.training.ranking.FORESTS", 2)
        patch.setattr("gelgt.training.recommend.COLUMNS", 10)
        yield


@pytest.fixture
def whole_forests(quick_forests: dict[str, int], quick_columns: int) -> Iterator[None]:
    """Forests of as many rounds as users get, over columns that are judged on as many rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gelgt.history.choose.SAMPLE", quick_columns)
        for name, rounds in quick_forests.items():
            patch.setattr(f"gelgt.{name}.ROUNDS", rounds)
        yield


@pytest.fixture(scope="session")
def relbench_data() -> Callable[[str], Path]:
    """The folder of a real data set, or a skip where it is not at hand."""
    root = Path(os.environ.get("GELGT_DATA", Path(__file__).parents[2] / "shared" / "data"))

    def find(name: str) -> Path:
        if not (root / name / "manifest.yaml").is_file():
            pytest.skip(f"needs the data set {name}: set GELGT_DATA to a folder that holds it")
        return root / name

    return find


@pytest.fixture(scope="session")
def small_shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """The demo shop, small enough for every test."""
    return shop(tmp_path_factory.mktemp("shop") / "shop.db", customers=150, days=400, seed=3)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of our own."""
    try:
        server = PostgresServer()
    except ServerMissingError:
        pytest.skip("needs PostgreSQL's binaries (initdb, postgres)")
    with server:
        yield server
        assert not forms_in(server.log.read_bytes()), "the server's log holds a password"


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaServer]:
    """A MariaDB server of our own."""
    try:
        server = MariaServer()
    except ServerMissingError:
        pytest.skip("needs MariaDB's binaries (mariadb-install-db, mariadbd)")
    with server:
        yield server
        assert not forms_in(server.log.read_bytes()), "the server's log holds a password"
