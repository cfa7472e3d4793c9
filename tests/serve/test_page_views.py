"""The other views of the page in Chromium: lists, the model card, tasks of other kinds, hostile
texts, small and dark screens."""

import csv
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gelgt
from gelgt.presets import RunConfig
from gelgt.serve import ServeSettings, Service
from gelgt.serve.service import Origin
from gelgt.training import Options, train_run

from .conftest import TINY, Site, Visits, listen

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
expect = sync_api.expect
SiteOf = Callable[..., Site]
IMAGE = '<img src=x onerror="window.bad=1">'
SCRIPT = "<script>window.bad=2</script>"


@pytest.fixture
def site(site_of: SiteOf) -> Site:
    return site_of("binary")


def listed(page: Any) -> list[str]:
    """The keys of the list."""
    expect(page.locator("#list-body tbody tr").first).to_be_visible()
    expect(page.locator("#list-body[aria-busy]")).to_have_count(0)
    texts: list[str] = page.locator("#list-body tbody th").all_text_contents()
    return texts


def keys_of(site: Site, query: str = "") -> list[str]:
    rows = site.get(f"/v1/overview?limit=50&{query}")["predictions"]
    return [str(row["id"]) for row in rows]


def test_the_highest_and_lowest_are_listed_and_filtered(site: Site, visits: Visits) -> None:
    page = visits(site, "#view=list")
    assert listed(page) == keys_of(site)
    expect(page.locator("#list-aid")).to_contain_text("all 120 eligible rows of customers")
    page.get_by_label("First").select_option("lowest")
    expect(page.locator("#list-body tbody th").first).to_have_text(
        keys_of(site, "direction=lowest")[0]
    )
    assert listed(page) == keys_of(site, "direction=lowest")
    page.get_by_label("country").focus()
    page.get_by_label("country").select_option("DE")
    expect(page.locator("#list-aid")).to_contain_text("fit the filters")
    expect(page.get_by_label("country")).to_be_focused()  # whoever chooses goes on from there
    assert listed(page) == keys_of(site, "direction=lowest&where=country=DE")
    middle = site.get("/v1/overview")["predictions"][25]["probability"]
    page.get_by_label("At most").fill(f"{100 * middle:.6f} %")
    page.get_by_label("At most").press("Enter")
    query = f"direction=lowest&where=country=DE&most={middle:.8f}"
    matching = site.get(f"/v1/overview?{query}")["matching"]
    expect(page.locator("#list-aid")).to_contain_text(f"{matching} of them fit")
    page.go_back()
    expect(page.get_by_label("At most")).to_have_value("")
    assert listed(page) == keys_of(site, "direction=lowest&where=country=DE")
    page.get_by_label("At least").fill("much")
    page.get_by_label("At least").press("Enter")
    expect(page.get_by_role("alert").filter(has_text="'much' is no number.")).to_be_visible()
    expect(page.get_by_label("At least")).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#list-problem .problem")).to_have_count(0)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#list-body tbody tr")).to_have_count(120)
    first = page.locator("#list-body tbody th a").first
    key = first.text_content()
    first.click()
    expect(page.locator("#result-title")).to_have_text(f"customers {key}")


def test_the_list_is_downloaded_whole(site: Site, visits: Visits, tmp_path: Path) -> None:
    page = visits(site, "#view=list&direction=lowest")
    listed(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "all.csv")
    with (tmp_path / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 120
    assert [row["id"] for row in rows[:50]] == keys_of(site, "direction=lowest")


def test_the_list_says_how_far_it_is_and_that_it_is_a_sample(
    site_of: SiteOf, visits: Visits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.serve.overview.MOST", 60)
    site = site_of("binary", rows=9_999)
    with site.service.served.lock:  # which the predictions need
        page = visits(site, "#view=list")
        expect(page.locator("#list-body")).to_contain_text("Predicting")
        expect(page.get_by_role("progressbar")).to_be_visible()
        expect(page.get_by_role("button", name="Download CSV")).to_be_disabled()
    assert len(listed(page)) == 50
    expect(page.locator("#list-aid")).to_contain_text("a sample of 60 of the 120 eligible rows")


def test_the_card_says_what_the_model_is(site: Site, visits: Visits) -> None:
    page = visits(site, "#view=model")
    for name in ("Data", "Task", "Scores beside baselines", "Calibration", "Schema"):
        expect(page.get_by_role("heading", level=2, name=name)).to_be_visible()
    card = site.get("/v1/model")
    expect(page.get_by_role("heading", level=1)).to_have_text(card["task"]["words"])
    expect(page.locator("#model-body")).to_contain_text(card["task"]["sentence"])
    expect(page.locator("#data-facts")).to_contain_text(card["data"]["newest_row"][:10])
    for table in card["schema"]:
        expect(page.get_by_role("rowheader", name=table, exact=True).last).to_be_visible()


def test_new_rows_are_looked_for(
    site_of: SiteOf, growing: Path, add_orders: Callable[[Path], Any], visits: Visits
) -> None:
    site = site_of("binary", source=str(growing))
    page = visits(site, "#view=model")
    button = page.get_by_role("button", name="Look for new rows")
    expect(page.locator("#data-facts")).to_contain_text("not since the start")
    button.click()
    expect(page.locator("#refresh-told")).to_contain_text("There are no new rows.")
    when = add_orders(growing)
    button.click()
    expect(page.locator("#refresh-told")).to_contain_text("New rows answer from now on.")
    expect(page.locator("#data")).to_contain_text(f"Rows up to {when:%Y-%m-%d}")
    growing.write_bytes(b"no database")
    button.click()
    expect(page.locator("#refresh-problem")).to_contain_text("the old rows go on answering")
    expect(page.locator("#data-facts")).to_contain_text("failed")


def test_a_number_has_its_interval(site_of: SiteOf, visits: Visits) -> None:
    site = site_of("regression")
    key = str(site.get("/v1/entities")["entities"][0]["key"])
    page = visits(site, f"#entity={key}")
    for level in (0.9, 0.5):
        page.get_by_label("Interval").select_option(str(level))
        body = {"entities": [key], "interval": level}
        row = site.post("/v1/predictions", body)["predictions"][0]
        expect(page.locator("#result-body")).to_contain_text(f"{100 * level:.0f}\u00a0% interval")
        text = page.locator(".verdict b").text_content()
        low, high = (float(part.replace("−", "-").replace(",", "")) for part in text.split(" to "))
        assert low == pytest.approx(row["lower"], rel=0.01, abs=1e-9)
        assert high == pytest.approx(row["upper"], rel=0.01, abs=1e-9)
    assert "level=0.5" in page.url


def test_rows_are_recommended_and_explained(site_of: SiteOf, visits: Visits) -> None:
    site = site_of("recommendation")
    key = str(site.get("/v1/entities")["entities"][0]["key"])
    page = visits(site, f"#entity={key}")
    body = {"entities": [key], "k": 3, "new_only": True}
    few = site.post("/v1/recommendations", body)["recommendations"]
    rows = page.locator("#result tbody tr")
    expect(rows).to_have_count(10)
    expect(page.get_by_role("link", name="Highest and lowest")).to_be_hidden()
    page.get_by_label("How many").fill("3")
    page.get_by_label("How many").press("Enter")
    expect(rows).to_have_count(3)
    page.get_by_label("Only new ones").check()
    expect(rows.first).to_contain_text(few[0]["sku"])
    expect(rows.last).to_contain_text(few[2]["sku"])
    expect(page.locator("#why details").first).to_contain_text(re.compile("place .* without it"))
    alike = page.locator("#alike table")
    expect(alike.locator("tbody tr").first).to_be_visible()
    assert alike.locator("thead th").all_text_contents() == ["id", "likeness"]


@pytest.fixture(scope="module")
def hostile(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server over keys of two parts, categories and classes that are markup."""
    folder = tmp_path_factory.mktemp("hostile")
    _hostile(folder / "hostile.db")
    db = gelgt.open(folder / "hostile.db")
    task = db.task('PREDICT LAST(events.kind, 0, 20, days) FOR EACH accounts."region+name"')
    config = RunConfig.of("cpu", task.task_type, TINY)
    run = train_run(db, task, folder / "run", config, Options(baseline_hops=(), device="cpu"))
    site = listen(Service(run, Origin(str(folder / "hostile.db")), ServeSettings(), "cpu"))
    yield site
    site.stop()


def _hostile(path: Path) -> None:
    rng, start = np.random.default_rng(3), np.datetime64("2025-01-01T00:00:00")
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE accounts (region TEXT, name TEXT, plan TEXT, opened_at TIMESTAMP, "
        "PRIMARY KEY (region, name));"
        "CREATE TABLE events (id INTEGER PRIMARY KEY, region TEXT, name TEXT, kind TEXT, "
        "amount REAL, at TIMESTAMP, FOREIGN KEY (region, name) REFERENCES accounts (region, name));"
    )
    keys = [("a & b", f"{IMAGE} {n}") for n in range(20)] + [
        ("<b>c</b>", f"q {n}") for n in range(9)
    ]
    plans = [f"{IMAGE} paid", "free"]
    for place, key in enumerate(keys):
        row = (*key, plans[place % 2], str(start))
        connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?)", row)
    for event in range(2000):
        key, kind = keys[rng.integers(len(keys))], [SCRIPT, "web", "shop"][rng.integers(3)]
        when = start + np.timedelta64(int(rng.integers(86_400, 86_400 * 240)), "s")
        row = (event, *key, kind, float(rng.random()), str(when))
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()


def test_markup_in_keys_and_texts_is_text(hostile: Site, visits: Visits) -> None:
    page = visits(hostile)
    name = f"{IMAGE} 7"
    box = page.get_by_role("combobox", name="Row of accounts")
    box.fill(name)
    expect(page.get_by_role("option").first).to_contain_text(name)
    box.press("ArrowDown")
    box.press("Enter")
    expect(page.locator("#result-title")).to_have_text(f"accounts a & b, {name}")
    expect(page.locator("#result tbody th").filter(has_text=SCRIPT)).to_be_visible()
    expect(page.locator("#why-timeline circle").first).to_be_visible()
    expect(page.locator("#alike tbody th").first).to_contain_text(re.compile("a & b|<b>c"))
    page.get_by_role("link", name="Highest and lowest").click()
    expect(page.locator("#list-body tbody th").filter(has_text=name)).to_be_visible()
    page.get_by_label("plan").select_option(f"={IMAGE} paid")
    expect(page.locator("#list-aid")).to_contain_text("15 of them fit")
    page.locator("#list-body tbody th a").first.click()
    expect(page.locator("#result .big")).to_be_visible()
    page.get_by_role("link", name="The model").click()
    expect(page.locator("#card-outcome, #model-body section").first).to_contain_text("Predicts")
    expect(page.get_by_role("columnheader", name=re.compile("script")).first).to_be_attached()
    assert page.evaluate("[window.bad, document.images.length, document.scripts.length]") == [
        None,
        0,
        1,
    ]


def test_phones_do_not_scroll_sideways_and_dark_is_dark(
    site: Site, hostile: Site, visits: Visits
) -> None:
    key = site.get("/v1/entities")["entities"][0]["key"]
    shades = []
    for place, where, scheme in (
        (site, f"#entity={key}", "light"),
        (site, "#view=list", "dark"),
        (site, "#view=model", "dark"),
        (hostile, "#view=list", "light"),
        (hostile, "#view=model", "light"),
    ):
        page = visits(place, where, width=400, scheme=scheme)
        expect(page.locator(".view:visible table").first).to_be_attached()
        expect(page.locator(".view:visible .waiting")).to_have_count(0)
        for details in page.locator("details:visible").all():
            details.evaluate("each => each.open = true")
        assert page.evaluate("document.documentElement.scrollWidth") == 400, where
        # What is wider is reached by keyboard.
        for box in page.locator(".scroll:visible, figure.wide:visible").all():
            page.evaluate("window.dispatchEvent(new Event('resize'))")
            is_wide, index = box.evaluate("b => [b.scrollWidth > b.clientWidth, b.tabIndex]")
            assert index == (0 if is_wide else -1)
        shades.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shades[0] == "rgb(245, 246, 248)"
    assert shades[1] == "rgb(18, 23, 30)"


def test_the_page_can_be_read_and_used_without_seeing_it(site: Site, visits: Visits) -> None:
    key = site.get("/v1/entities")["entities"][0]["key"]
    page = visits(site, f"#entity={key}")
    expect(page.locator("#alike tbody tr").first).to_be_visible()
    for landmark in ("banner", "main", "navigation"):
        expect(page.get_by_role(landmark)).to_have_count(1)
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    nameless = "[...document.querySelectorAll('input,select')].filter(e => !e.labels.length).length"
    assert page.evaluate(nameless) == 0
    headless = "[...document.querySelectorAll('table')].filter(t => !t.querySelector('th')).length"
    assert page.evaluate(headless) == 0
    names = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(names) == len(set(names))
    page.keyboard.press("Tab")
    expect(page.locator(":focus")).to_have_count(1)
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    assert page.url.endswith(f"#entity={key}")  # the address still says what is shown
    order = []
    for _ in range(3):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id"))
        width = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert width == "solid"
    assert order[0] == "search"
    assert "at" in order
