"""The page at / in Chromium: an entity is found, predicted, explained and compared; what goes wrong
is said in words."""

import json
import re
import shutil
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_plus

import pytest

from .conftest import Site, Visits

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
expect = sync_api.expect
SiteOf = Callable[..., Site]
TOKEN = "a-token-of-this-test"


@pytest.fixture
def site(site_of: SiteOf) -> Site:
    return site_of("binary")


@pytest.fixture
def keys(site: Site) -> list[str]:
    found = site.get("/v1/entities?limit=4")["entities"]
    return [str(entity["key"]) for entity in found]


def combobox(page: Any) -> Any:
    return page.get_by_role("combobox", name=re.compile("Row of"))


def predicted(site: Site, key: str, **more: Any) -> dict[str, Any]:
    answer = site.post("/v1/predictions", {"entities": [key], **more})
    row: dict[str, Any] = answer["predictions"][0]
    return row


def percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"


def test_an_entity_is_found_with_the_keyboard_and_predicted(
    site: Site, keys: list[str], visits: Visits
) -> None:
    page = visits(site)
    box, options = combobox(page), page.get_by_role("option")
    box.press_sequentially(keys[0][:2])
    expect(options.first).to_contain_text("country")
    expect(box).to_have_attribute("aria-expanded", "true")
    box.press("Escape")
    expect(box).to_have_attribute("aria-expanded", "false")
    box.fill(keys[0])
    expect(options).to_have_count(1)
    box.press("ArrowDown")
    expect(options.first).to_have_attribute("aria-selected", "true")
    active = box.get_attribute("aria-activedescendant")
    assert active == options.first.get_attribute("id")
    box.press("Enter")
    row = predicted(site, keys[0])
    result = page.get_by_role("region", name=f"customers {keys[0]}")
    expect(result).to_contain_text(percent(row["probability"]))
    expect(result).to_contain_text("The newest row is from")  # what now means
    expect(page.get_by_role("heading", level=2, name=f"customers {keys[0]}")).to_be_focused()
    expect(page.get_by_role("status").first).to_contain_text(percent(row["probability"]))
    assert page.url.endswith(f"#entity={keys[0]}")


def test_a_typed_key_is_taken_as_it_stands(site: Site, keys: list[str], visits: Visits) -> None:
    page = visits(site)
    combobox(page).fill(keys[1])
    combobox(page).press("Enter")
    row = predicted(site, keys[1])
    expect(page.locator("#result")).to_contain_text(percent(row["probability"]))


def test_a_time_changes_the_answer_and_the_address(
    site: Site, keys: list[str], visits: Visits
) -> None:
    early = str(predicted(site, keys[0])["time"])[:4] + "-06-01T00:00"
    row = predicted(site, keys[0], at=early)
    page = visits(site, f"#entity={keys[0]}")
    expect(page.locator("#result-at")).to_contain_text(predicted(site, keys[0])["time"][:10])
    page.get_by_label("Time").fill(early)
    page.get_by_role("button", name="Predict").click()
    expect(page.locator("#result")).to_contain_text(f"at {early[:10]} 00:00 UTC")
    expect(page.locator("#result")).to_contain_text(percent(row["probability"]))
    assert f"at={early}" in unquote_plus(page.url)
    page.go_back()
    expect(page.locator("#result-at")).not_to_contain_text(early[:10])
    expect(page.get_by_label("Time")).to_have_value("")
    shared = visits(site, f"#entity={keys[0]}&at={early[:10]}")  # as somebody may write it
    expect(shared.locator("#result")).to_contain_text(percent(row["probability"]))
    expect(shared.get_by_label("Time")).to_have_value(early)


def test_a_prediction_is_explained(site: Site, keys: list[str], visits: Visits) -> None:
    page = visits(site, f"#entity={keys[0]}")
    why = site.post("/v1/explanations", {"entity": keys[0]})
    for effect in why["sentences"][:2]:
        expect(page.get_by_role("region", name="Why")).to_contain_text(effect)
    dots = page.locator("#why-timeline svg[role=img] circle")
    expect(dots).to_have_count(len(why["timeline"]))
    assert dots.first.locator("title").text_content()
    colour = dots.first.evaluate("dot => getComputedStyle(dot).fill")
    assert colour not in ("none", "rgb(0, 0, 0)")  # the style sheet reaches it
    page.get_by_text("Effects", exact=True).click()
    effects = page.locator("#why-effects table")
    heading = effects.get_by_role("button", name="Effect", exact=True)
    shown = "table => [...table.tBodies[0].rows].map(row => Number(row.cells[2].dataset.v))"
    for click, sign in ((heading.click, -1), (lambda: heading.press("Enter"), 1)):
        click()
        values = effects.evaluate(shown)
        assert len(values) > 3
        assert values == sorted(values, key=lambda value: sign * value)
    expect(effects.get_by_role("columnheader", name="Effect")).to_have_attribute(
        "aria-sort", "ascending"
    )


def test_what_would_turn_it_is_asked_for(site: Site, keys: list[str], visits: Visits) -> None:
    page = visits(site, f"#entity={keys[0]}")
    body = {"entity": keys[0], "counterfactual": True}
    text = site.post("/v1/explanations", body)["counterfactual"]["text"]
    why = page.get_by_role("region", name="Why")
    expect(why.locator("li").first).to_be_visible()
    expect(why).not_to_contain_text(text)
    page.get_by_label("Show what would turn it").check()
    expect(why).to_contain_text(text)
    assert "turn=1" in page.url


def test_look_alikes_lead_to_each_other(site: Site, keys: list[str], visits: Visits) -> None:
    page = visits(site, f"#entity={keys[0]}")
    body = {"entity": keys[0]}
    table = page.locator("#alike table")
    expect(table.get_by_role("columnheader", name="probability")).to_be_visible()
    found = site.post("/v1/look-alikes", body)["look_alikes"]
    first = table.locator("tbody tr").first
    expect(first).to_contain_text(str(found[0]["id"]))
    expect(first).to_contain_text(f"{found[0]['likeness']:.3f}")
    expect(first).to_contain_text(percent(found[0]["probability"]))
    expect(table.locator("tbody tr")).to_have_count(len(found))
    first.get_by_role("link").click()
    expect(page.locator("#result-title")).to_have_text(f"customers {found[0]['id']}")
    expect(combobox(page)).to_have_value(str(found[0]["id"]))
    page.go_back()
    expect(page.locator("#result-title")).to_have_text(f"customers {keys[0]}")


def test_a_slow_answer_does_not_replace_a_newer_one(
    site: Site, keys: list[str], visits: Visits
) -> None:
    page, held = visits(site), []

    def hold(route: Any) -> None:
        if keys[0] in (route.request.post_data or ""):
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/predictions", hold)
    page.evaluate(f"location.hash = 'entity={keys[0]}'")
    expect(page.locator("#result")).to_contain_text("Predicting")
    page.evaluate(f"location.hash = 'entity={keys[1]}'")
    shown = percent(predicted(site, keys[1])["probability"])
    expect(page.locator("#result")).to_contain_text(shown)
    assert len(held) == 1
    held[0].fulfill(json=site.post("/v1/predictions", {"entities": [keys[0]]}))
    expect(page.locator("#alike tbody tr").first).to_be_visible()  # later than that
    expect(page.locator("#result-title")).to_have_text(f"customers {keys[1]}")
    expect(page.locator("#result")).to_contain_text(shown)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("#entity=987654321", ["is not in the table 'customers'", "Check the keys"]),
        ("#entity=KEY&at=1999-01-01", ["does not exist yet", "later time"]),
        ("#entity=KEY&at=soon", ["soon"]),
        ("#entity=1&entity=2", ["2"]),
        ("#view=list&order=colour", ["colour"]),
        ("#view=list&where=colour%3Dred", ["'colour' is no column"]),
    ],
)
def test_errors_are_words_and_the_page_goes_on(
    site: Site, keys: list[str], visits: Visits, where: str, words: list[str]
) -> None:
    page = visits(site, where.replace("KEY", keys[0]))
    alert = page.get_by_role("alert").filter(has_text=re.compile("."))
    for text in words:
        expect(alert).to_contain_text(text)
    expect(alert.get_by_role("button", name="Try again")).to_have_count(0)  # it would be the same
    page.get_by_role("link", name="Predict").click()
    expect(combobox(page)).to_have_value("")  # the page has turned to it
    combobox(page).fill(keys[1])
    combobox(page).press("Enter")
    expect(page.locator("#result")).to_contain_text(
        percent(predicted(site, keys[1])["probability"])
    )
    expect(alert).to_have_count(0)


def test_a_busy_server_is_asked_again(site: Site, keys: list[str], visits: Visits) -> None:
    page = visits(site)
    expect(combobox(page)).to_be_visible()
    waiting, site.service.predictions.limit = site.service.predictions.limit, 0
    try:
        with page.expect_response("**/v1/predictions") as first:
            page.evaluate(f"location.hash = 'entity={keys[0]}'")
        assert first.value.status == 429
    finally:
        site.service.predictions.limit = waiting
    expect(page.locator("#result .big")).to_be_visible()
    expect(page.locator("#result .problem")).to_have_count(0)


def test_a_token_is_asked_for_and_kept_in_this_tab(
    site_of: SiteOf, keys: list[str], visits: Visits
) -> None:
    site = site_of("binary", token=TOKEN)
    page = visits(site, f"#entity={keys[0]}")
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_label("Token")
    expect(field).to_be_focused()
    assert field.get_attribute("type") == "password"
    field.fill("something-else")
    field.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("does not accept")
    field.fill(TOKEN)
    field.press("Enter")
    expect(page.locator("#result .big")).to_be_visible()
    expect(dialog).to_have_count(0)
    storage = "[{...sessionStorage}, {...localStorage}, document.cookie, location.href]"
    session, local, cookie, address = page.evaluate(storage)
    assert list(session.values()) == [TOKEN]
    assert not local
    assert not cookie
    assert TOKEN not in address
    page.reload()
    expect(page.locator("#result .big")).to_be_visible()
    page.get_by_role("link", name="Highest and lowest").click()
    with page.expect_download() as download:  # which needs it as well
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename.endswith(".csv")
    page.evaluate("sessionStorage.setItem('gelgt-token', 'out-of-date-token')")
    page.get_by_label("First").select_option("lowest")
    expect(dialog).to_contain_text("does not accept")
    dialog.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("alert").filter(has_text="asks for a token")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    field.fill(TOKEN)
    field.press("Enter")
    expect(page.locator("#list-body tbody tr").first).to_be_visible()
    site.stop()
    page.get_by_label("First").select_option("highest")
    gone = page.get_by_role("alert").filter(has_text="The server does not answer.")
    expect(gone.get_by_role("button", name="Try again")).to_be_visible()


def test_whole_numbers_keep_their_digits(site: Site, visits: Visits) -> None:
    page = visits(site)
    large = 9223372036854775807
    text = json.dumps({"key": large, "small": 12, "share": 0.12345678901234567, "a": f'"{large}'})
    parsed = page.evaluate("async t => (await import('/static/api.js')).parse(t)", text)
    assert parsed == {
        "key": str(large),
        "small": 12,
        "share": 0.12345678901234567,
        "a": f'"{large}',
    }
