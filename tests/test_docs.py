"""README and docs say nothing that does not run: Python blocks, `gelgt` commands and PREDICT
sentences are tried on the demo shop.

Commands on servers, servers themselves (tests/serve), benchmarks that take minutes, and RelBench
data that is not at hand are left out; models are trained for two steps; links must lead somewhere.
"""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

import gelgt
from gelgt import presets
from gelgt.demo import Shop, shop
from gelgt.testing import to_csv

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RELBENCH = Path(os.environ.get("GELGT_DATA", ROOT.parent / "shared" / "data"))
LEFT_OUT = ("://", "gelgt bench", "gelgt demo", "gelgt serve")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a language; every other part between fences is a block."""
    parts = re.split(r"^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1::2]
    return [part.partition("\n")[2] for part in parts if part.partition("\n")[0] == language]


def commands(page: Path) -> list[str]:
    lines = [
        line.split(" #")[0].strip()
        for block in blocks(page, "")
        for line in block.splitlines()
        if line.startswith("gelgt ")
    ]
    return [
        line for line in lines if not any(word in re.sub(r"\s+", " ", line) for word in LEFT_OUT)
    ]


def sentences(page: Path) -> list[str]:
    return re.findall(r"`(PREDICT [^`]* FOR EACH [^`]*)`", page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A demo shop of fewer customers, where the pages expect it."""
    return shop(tmp_path_factory.mktemp("docs") / "demo" / "shop.db", customers=60)


@pytest.fixture
def place(demo: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with demo/shop.db, exports/, and rel-f1 where it is at hand; presets that
    are done at once."""
    (tmp_path / "demo").symlink_to(demo.path.parent)
    to_csv(demo, tmp_path / "exports")
    if (RELBENCH / "rel-f1" / "manifest.yaml").is_file():
        (tmp_path / "rel-f1").symlink_to(RELBENCH / "rel-f1")
    for section, key, value in (
        ("train", "epochs", 1),
        ("train", "ensemble", 1),
        ("train", "steps_per_epoch", 2),
        ("train", "batch_size", 32),
        ("train", "eval_rows", 200),
        ("train", "windows", 1),
        ("sampling", "budget", 24),
        ("model", "width", 16),
        ("model", "history_columns", 20),
        ("model", "column_members", 1),
    ):
        monkeypatch.setitem(presets._VALUES["cpu"][section], key, value)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p, "python")], ids=lambda page: page.name
)
def test_python_blocks(page: Path, place: Path) -> None:
    names: dict[str, object] = {"gelgt": gelgt}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if commands(p)], ids=lambda page: page.name)
def test_commands(
    page: Path, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from gelgt.cli import main

    is_relbench_here = (place / "rel-f1").exists()
    for command in commands(page):
        if not is_relbench_here and ("rel-f1" in command or "runs/dnf" in command):
            continue
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code, f"{command}\n{capsys.readouterr()}"


def test_sentences(demo: Shop) -> None:
    db = gelgt.open(demo.url)
    found = [sentence for page in PAGES for sentence in sentences(page)]
    assert len(found) > 15
    for sentence in found:
        assert all(db.task(sentence).rows.values()), sentence


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name
)
def test_links(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [t for t in targets if not (page.parent / t).exists()] == []
