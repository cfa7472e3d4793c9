"""Fixtures that all tests share: real RelBench data where it is at hand, the demo shop, and real
database servers."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

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

sys.path.insert(0, str(Path(__file__).parent))  # for tiny_database.py
from tiny_database import make_task, tiny  # noqa: E402

__all__ = ["make_task", "tiny"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("llm") and find_spec("transformers") is None:
        pytest.skip("rel-llm needs transformers: pip install 'gelgt[llm]'")


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
def quick_columns() -> Iterator[None]:
    """Columns networks of a few steps an epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gelgt.training.columns_fit.EPOCH", 4)
        yield


@pytest.fixture(scope="session", autouse=True)
def quick_rankings() -> Iterator[None]:
    """Recommendations by two forests, whose mean is still one of several, of a few columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gelgt.training.ranking.FORESTS", 2)
        patch.setattr("gelgt.training.recommend.COLUMNS", 10)
        yield


@pytest.fixture
def whole_forests(quick_forests: dict[str, int]) -> Iterator[None]:
    """Forests of as many rounds as users get."""
    with pytest.MonkeyPatch.context() as patch:
        for name, rounds in quick_forests.items():
            patch.setattr(f"gelgt.{name}.ROUNDS", rounds)
        yield


PASSWORD = "s3cr3t/p@ss:w'rd"  # characters that break careless code


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


@dataclass(frozen=True)
class Server:
    """A running database server."""

    url: str
    password: str
    log: Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _binary(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return shutil.which(name) or next((str(p / name) for p in places if (p / name).exists()), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server of our own; it refuses to run as root, so another user starts it
    there."""
    initdb, server = _binary("initdb"), _binary("postgres")
    if initdb is None or server is None:
        pytest.skip("needs PostgreSQL's binaries (initdb, postgres)")
    user = "postgres" if os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="gelgt-postgres-"))
    (home / "password").write_text(PASSWORD)
    if user:
        shutil.chown(home, user)
        shutil.chown(home / "password", user)
    setup = [
        initdb,
        "-D",
        str(home / "data"),
        "-U",
        "tester",
        f"--pwfile={home / 'password'}",
        "--auth=scram-sha-256",
        "-E",
        "UTF8",
        "--no-sync",
    ]
    subprocess.run(setup, check=True, capture_output=True, user=user, cwd=home)
    port, log = free_port(), home / "server.log"
    options = [
        "-p",
        str(port),
        "-k",
        str(home),
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "fsync=off",
        "-c",
        "log_statement=none",
    ]
    with log.open("w") as out:
        process = subprocess.Popen(
            [server, "-D", str(home / "data"), *options],
            stdout=out,
            stderr=out,
            user=user,
            cwd=home,
        )
    try:
        _wait(port, process, log)
        yield Server(
            f"postgresql://tester:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/postgres",
            PASSWORD,
            log,
        )
    finally:
        process.terminate()
        process.wait(timeout=30)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """A MariaDB server of our own."""
    install, server = shutil.which("mariadb-install-db"), shutil.which("mariadbd")
    if install is None or server is None:
        pytest.skip("needs MariaDB's binaries (mariadb-install-db, mariadbd)")
    user = "mysql" if os.geteuid() == 0 else None
    home = Path(tempfile.mkdtemp(prefix="gelgt-mariadb-"))
    if user:
        shutil.chown(home, user)
    as_user = [f"--user={user}"] if user else []
    subprocess.run(
        [
            install,
            "--no-defaults",
            f"--datadir={home / 'data'}",
            "--auth-root-authentication-method=normal",
            *as_user,
        ],
        check=True,
        capture_output=True,
    )
    port, log = free_port(), home / "server.log"
    escaped = PASSWORD.replace("'", "''")
    (home / "init.sql").write_text(
        "CREATE DATABASE shop CHARACTER SET utf8mb4;\n"
        f"CREATE USER tester@'127.0.0.1' IDENTIFIED BY '{escaped}';\n"
        "GRANT ALL ON *.* TO tester@'127.0.0.1';\n"
    )
    (home / "init.sql").chmod(0o644)
    places = [
        f"--datadir={home / 'data'}",
        f"--socket={home / 'socket'}",
        f"--pid-file={home / 'pid'}",
        f"--init-file={home / 'init.sql'}",
    ]
    with log.open("w") as out:
        command = [
            server,
            "--no-defaults",
            *places,
            *as_user,
            f"--port={port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
        ]
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        _wait(port, process, log)
        yield Server(
            f"mysql://tester:{quote(PASSWORD, safe='')}@127.0.0.1:{port}/shop", PASSWORD, log
        )
    finally:
        process.terminate()
        process.wait(timeout=60)
        shutil.rmtree(home, ignore_errors=True)


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(300):
        if process.poll() is not None:
            pytest.fail(f"the server ended at once:\n{log.read_text()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                time.sleep(0.5)
                return
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{log.read_text()}")
