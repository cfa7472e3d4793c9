"""Runs commands as the `gelgt` script does: in this process with its streams as pipes, or in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt.testing import Shop


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


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("inspect", "shop.db")` in this process."""
    from gelgt.cli import main

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["gelgt", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        streams = capsys.readouterr()
        assert "\x1b" not in streams.out + streams.err, "escape codes in a pipe"
        return Result(int(ended.value.code or 0), streams.out, streams.err)

    return call


@pytest.fixture
def script() -> Run:
    """The same as a process of its own, with both streams as pipes."""

    def call(*arguments: object, **environment: str) -> Result:
        command = [sys.executable, "-c", "from gelgt.cli import main; main()", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False, timeout=120)
        return Result(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture(scope="session")
def shop_source(small_shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small shop, imported once."""
    return gelgt.open(small_shop.url, out=tmp_path_factory.mktemp("imported") / "shop").folder


@pytest.fixture
def project(shop_source: Path, tmp_path: Path) -> Path:
    """A copy of the imported shop that a test may write into."""
    import shutil

    return Path(shutil.copytree(shop_source, tmp_path / "project"))
