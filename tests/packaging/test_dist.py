"""Wheel and source distribution: built from a copy of the checkout, and used without it.

`python -m build` makes the source distribution and the wheel from that, so what one lacks the other
lacks too. Building needs the packages build and setuptools, and no network.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import gelgt

ROOT = Path(__file__).parents[2]
SETUPTOOLS = 77  # which [build-system] asks for


def tracked() -> list[str]:
    """The files of the checkout that are not ignored."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs git and a checkout, to know which files belong to the package")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a wheel and a source distribution."""
    if find_spec("build") is None or int(version("setuptools").split(".")[0]) < SETUPTOOLS:
        pytest.skip(f"needs the packages build and setuptools>={SETUPTOOLS}")
    place = tmp_path_factory.mktemp("dist")
    for name in tracked():
        if name.startswith("src/") or "/" not in name:
            (place / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, place / "checkout" / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "out")]
    done = subprocess.run(
        [*command, str(place / "checkout")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "out"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's content as an installer lays it down."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as content:
        content.extractall(folder)
    return folder


def run(installed: Path, code: str, place: Path) -> str:
    """What Python prints where gelgt comes from the wheel."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "GELGT_CACHE": str(place / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_file_of_the_package_and_no_other(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name.removeprefix("src/") for name in tracked() if name.startswith("src/gelgt/")}
    assert {name for name in names if ".dist-info/" not in name} == package
    for name in ("gelgt/py.typed", "gelgt/live/page.js", "gelgt/testing/twins/rel-f1.yaml"):
        assert name in names


def test_the_source_distribution_is_complete(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    assert {name for name in tracked() if name.startswith("src/gelgt/")} <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert not [name for name in names if name.startswith(("tests", "docs", ".venv"))]


def test_its_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        (path,) = (name for name in content.namelist() if name.endswith("/METADATA"))
        metadata: Message = Parser().parsestr(content.read(path).decode())
    assert metadata["Name"] == "gelgt"
    assert metadata["Version"] == gelgt.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Summary"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert {"postgres", "mysql", "docs"} <= set(metadata.get_all("Provides-Extra", []))
    assert not [r for r in metadata.get_all("Requires-Dist", []) if "@" in r]


def test_commands_run_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    code = (
        "import gelgt, sys; print(gelgt.__file__); sys.argv = ['gelgt', '--version'];"
        "from gelgt.cli import script; script()"
    )
    file, printed = run(installed, code, tmp_path).split()
    assert Path(file) == installed / "gelgt" / "__init__.py"
    assert printed == gelgt.__version__
    entry_points = next(installed.glob("*.dist-info/entry_points.txt")).read_text()
    assert "gelgt = gelgt.cli:script" in entry_points


def test_the_files_beside_the_code_are_found(installed: Path, tmp_path: Path) -> None:
    """Twins of RelBench's schemas, and the page of a training with its script and style sheet."""
    code = (
        "from pathlib import Path; from urllib.request import urlopen;"
        "from gelgt.live import LiveServer, RunFolder; from gelgt.testing.twins import TWINS;"
        "print(len(TWINS));"
        "server = LiveServer(RunFolder(Path())); server.__enter__();"
        "print(*(len(urlopen(server.address + name).read()) > 500 for name in ('', 'page.js', "
        "'page.css')))"
    )
    assert run(installed, code, tmp_path).split() == ["9", "True", "True", "True"]
