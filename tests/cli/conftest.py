"""Runs commands as the `gelgt` script does: in this process with its streams as pipes, or in one of
its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt.demo import Shop

# as `gelgt.cli.main` does, before anything here loads torch
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@dataclass(frozen=True)
class Result:
    """What a command left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output: one line that is JSON, and nothing else."""
        lines = self.out.splitlines()
        assert len(lines) == 1, self.out
        content = json.loads(lines[0])
        assert isinstance(content, dict)
        return content

    @property
    def error(self) -> str:
        return str(self.json["error"]["code"])


Run = Callable[..., Result]

SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = (
    "--set",
    "train.epochs=1",
    "--set",
    "train.retrain=false",
    "--set",
    "train.steps_per_epoch=3",
    "--set",
    "train.ensemble=1",
    "--set",
    "train.batch_size=32",
    "--set",
    "train.windows=1",
    "--set",
    "model.history_columns=20",
    "--set",
    "model.column_members=1",
)  # a model that is trained in a second
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # several are slow where other tests run beside


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """`run("inspect", "shop.db")` in this process; what libraries write to its descriptors counts
    too."""
    from gelgt.cli import main

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["gelgt", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        streams = capfd.readouterr()
        assert "\x1b" not in streams.out + streams.err, "escape codes in a pipe"
        return Result(int(ended.value.code or 0), streams.out, streams.err)

    return call


GELGT = (sys.executable, "-c", "from gelgt.cli import main; main()")


def process(*arguments: object, **environment: str) -> Result:
    """A command as a process of its own, with both streams as pipes."""
    own = {**os.environ, **ONE_THREAD, **environment}
    done = subprocess.run(
        [*GELGT, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=own,
        check=False,
        timeout=300,
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def script() -> Run:
    """`script("inspect", "shop.db")` as a process of its own, with both streams as pipes."""
    return process


@dataclass(frozen=True)
class Trained:
    """A run of `gelgt train` on the small shop, and what the command printed."""

    folder: Path
    source: Path
    result: Result


@pytest.fixture(scope="session")
def trained(
    quick_forests: object, small_shop: Shop, tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    """One run for all tests that only read one, trained in this process, where forests are
    quick."""
    from gelgt.cli import main

    folder = tmp_path_factory.mktemp("trained") / "runs" / "soon"
    command = ("train", small_shop.path, SENTENCE, "--out", folder, *TINY, "--json")
    out, err = StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setenv("GELGT_CACHE", str(tmp_path_factory.mktemp("trained-cache")))
        patch.setattr(sys, "argv", ["gelgt", *map(str, command)])
        with pytest.raises(SystemExit) as ended:
            main()
    result = Result(int(ended.value.code or 0), out.getvalue(), err.getvalue())
    return Trained(folder, small_shop.path, result)


@pytest.fixture(scope="session")
def shop_source(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small shop, imported once."""
    return gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("imported") / "shop").folder


@pytest.fixture
def project(shop_source: Path, tmp_path: Path) -> Path:
    """A copy of the imported shop that a test may write into."""
    import shutil

    return Path(shutil.copytree(shop_source, tmp_path / "project"))
