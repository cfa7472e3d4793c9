"""The page in a real browser: it follows a training to its end, loads nothing from elsewhere, and
works at the width of a phone, in the dark and from the keyboard.

Needs Chromium on this machine and the package playwright, which drives it; none is downloaded.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from records import write

from gelgt.live import LiveServer, RunFolder
from gelgt.runs.progress import SILENT

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
SCORES = {"gelgt": {"val": 0.8, "test": 0.79}, "lightgbm": {"val": 0.7, "test": 0.71}}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if not CHROMIUM:
        pytest.skip("needs Chromium (the programs chromium, chromium-browser or google-chrome)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=[(1280, "light"), (400, "dark")], ids=["wide light", "phone dark"])
def page(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page that fails the test on a console error or a request to anywhere but this machine."""
    width, scheme = request.param
    size = {"width": width, "height": 800}
    context = chromium.new_context(viewport=size, color_scheme=scheme)
    page, problems = context.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "console", lambda m: problems.append(m.text) if m.type in ("error", "warning") else None
    )
    page.on(
        "request",
        lambda r: (
            None if r.url.startswith(("http://127.0.0.1:", "data:")) else problems.append(r.url)
        ),
    )
    yield page
    lost = "net::ERR_CONNECTION_REFUSED"  # the browser's own line about a server that has ended
    assert [problem for problem in problems if lost not in problem] == []
    context.close()


def is_within(page: Any) -> bool:
    """Whether nothing is wider than the window."""
    return bool(page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"))


def test_a_training_from_its_start_to_its_end(page: Any, tmp_path: Path) -> None:
    write(tmp_path, curves=(), step=None, phase="data", phases=())
    with LiveServer(RunFolder(tmp_path)) as server:
        page.goto(server.address)
        page.get_by_text("Building graph and features.").wait_for()
        assert page.locator("svg[role=img]").count() == 0
        write(tmp_path)
        page.get_by_text("Training network 2 of 2.").wait_for()
        assert page.locator("svg[role=img]").count() == 2
        assert page.title() == "epoch 3, training network 2 of 2 · churn"
        assert is_within(page)
        write(tmp_path, status="finished", ended="all epochs", scores=SCORES)
        page.get_by_text("Finished: every epoch was taken.").wait_for()
        assert page.locator(".card").first.inner_text().splitlines()[1] == "0.790"
        assert is_within(page)
    page.locator("#lost").get_by_text("no longer serves this page").wait_for()
    assert "Finished" in page.locator("#status").inner_text()  # what was known stays


def test_what_is_open_and_focused_stays_so(page: Any, tmp_path: Path) -> None:
    """The table behind the curves opens from the keyboard, and a new epoch does not close it."""
    write(tmp_path, curves=write(tmp_path).curves[:1])
    with LiveServer(RunFolder(tmp_path)) as server:
        page.goto(server.address)
        page.locator("summary").focus()
        page.keyboard.press("Enter")
        table = page.locator("#numbers table")
        table.wait_for(state="visible")
        rows = table.locator("tbody tr").count()
        write(tmp_path)
        page.get_by_text("Training network 2 of 2.").wait_for()
        page.wait_for_function(f"document.querySelectorAll('#numbers tbody tr').length > {rows}")
        assert table.is_visible()
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_no_sign_of_life(page: Any, tmp_path: Path) -> None:
    content = write(tmp_path)
    with LiveServer(RunFolder(tmp_path)) as server:
        page.goto(server.address)
        page.get_by_text("Training network 2 of 2.").wait_for()
        write(tmp_path, updated=content.updated - SILENT - 1)
        page.get_by_text("No sign of life since").wait_for()
        assert page.locator("progress").count() == 0
        write(tmp_path)  # it was only slow
        page.get_by_text("Training network 2 of 2.").wait_for()
    page.locator("#lost").get_by_text("No sign of life since").wait_for()


def test_names_that_hold_markup_are_text(page: Any, tmp_path: Path) -> None:
    nasty = "<img src=x onerror='document.title=1'>"
    write(tmp_path, run=nasty, task=nasty, notices=(nasty,), baselines={nasty: 0.66})
    with LiveServer(RunFolder(tmp_path)) as server:
        page.goto(server.address)
        page.get_by_role("heading", name=nasty).wait_for()
        page.wait_for_timeout(1200)
        assert page.locator("img").count() == 0


def test_who_listens_hears_changes_alone(page: Any, tmp_path: Path) -> None:
    """The live region holds the sentence and not the seconds, which would be read out each second;
    charts have names, and tables have headings."""
    write(tmp_path)
    with LiveServer(RunFolder(tmp_path)) as server:
        page.goto(server.address)
        live = page.locator("[aria-live]")
        assert live.count() == 1
        assert live.inner_text() == "Training network 2 of 2."
        assert all(
            name and "by epoch" in name
            for name in page.locator("svg[role=img]").evaluate_all(
                "all => all.map(each => each.getAttribute('aria-label'))"
            )
        )
        assert page.locator("h1").count() == 1
        assert page.locator("#phases thead th").count() == 3


def test_without_javascript_it_loads_itself_again(chromium: Any, tmp_path: Path) -> None:
    write(tmp_path)
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    with LiveServer(RunFolder(tmp_path)) as server:
        page.goto(server.address)
        assert page.locator("svg[role=img]").count() == 2
        write(tmp_path, status="finished", ended="all epochs")
        page.get_by_text("Finished: every epoch was taken.").wait_for()
    context.close()
