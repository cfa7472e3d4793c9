"""The documentation site builds without a warning, loads nothing from elsewhere, and has a search.

Needs the extra docs; the look in a browser needs Chromium and the package playwright too.
"""

import functools
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer

import gelgt
from gelgt.cli.app import app

ROOT = Path(__file__).parents[1]
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    if find_spec("mkdocs") is None or find_spec("mkdocstrings") is None:
        pytest.skip("needs the extra docs: pip install 'gelgt[docs]'")
    out = tmp_path_factory.mktemp("docs") / "site"
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(gelgt.__file__).parents[1]),
        "NO_MKDOCS_2_WARNING": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out


class Loads(HTMLParser):
    """The addresses that a page loads; links to other pages load nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADING.get(tag, ""))
        if address and dict(attrs).get("rel") != "canonical":
            self.addresses.append(address)


def test_every_page_is_there(site: Path) -> None:
    """Pages that the navigation forgets fail the build; these must be in it."""
    pages = [path.stem for path in (ROOT / "docs").glob("*.md")]
    assert all((site / f"{page}.html").is_file() for page in pages)
    assert not (site / "hooks").exists()


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert [a for a in loads.addresses if re.match(r"(https?:)?//", a)] == [], page
    for style in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import\s+)[\"']?(?:https?:)?//", style.read_text()), style


def test_every_command_and_option_is_described(site: Path) -> None:
    text = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    command = typer.main.get_command(app)
    train = command.commands["train"]  # type: ignore[attr-defined]
    for name in command.commands:  # type: ignore[attr-defined]
        assert f"gelgt {name}" in text
    for option in train.params:
        assert all(f"{name}" in text for name in option.opts if name.startswith("--"))


def test_every_public_name_is_described(site: Path) -> None:
    text = (site / "reference" / "python.html").read_text(encoding="utf-8")
    names = [name for name in gelgt.__all__ if not name.startswith("_")]
    headings = set(re.findall(r'<h2 id="gelgt[\w.]*\.(\w+)"', text))
    assert set(names) <= headings
    assert '<div class="doc doc-contents' in text
    # examples are code, not quotations
    assert "<blockquote>" not in text


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.parametrize("width", [1280, 400])
def test_in_a_browser(served: str, width: int) -> None:
    """Search finds a word, nothing comes from elsewhere, and no page is wider than the window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    programs = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, programs)), None)
    if path is None:
        pytest.skip("needs Chromium (the programs chromium, chromium-browser or google-chrome)")
    problems: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda r: problems.append(r.url) if served not in r.url else None)
        for name in ("index", "training", "reference/commands", "reference/python"):
            page.goto(f"{served}{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        page.goto(f"{served}index.html")
        if width < 1000:
            page.locator("label[for=__search]").first.click()
        page.locator("input.md-search__input").click()
        page.keyboard.type("leakage")
        found = page.locator(".md-search-result__item", has_text="Time and leakage")
        found.first.wait_for()
        browser.close()
    assert problems == []
