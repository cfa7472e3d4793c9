"""`gelgt inspect`: for people, for scripts, and as a drawing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from gelgt.schema.report import inspect
from gelgt.sources import open as open_source
from wide_database import EVENTS, wide_database

Run = Callable[..., Any]


def test_for_people(run: Run, shop_source: Path) -> None:
    result = run("inspect", shop_source)
    assert result.code == 0
    assert result.err == ""
    lines = result.out.splitlines()
    assert lines[0].endswith("8 tables, 14,332 rows")
    orders = next(line for line in lines if line.startswith("orders "))
    assert orders.split()[:4] == ["orders", "1,537", "id", "placed_at*"]
    assert orders.endswith("customer_id → customers")
    assert "* inferred, not declared by the source" in lines
    assert (
        "orders: placed_at timestamp, channel categorical, shipping_fee numerical, coupon "
        "categorical, is_gift categorical" in lines
    )
    assert lines[-1] == "No findings."


def test_for_scripts(run: Run, shop_source: Path) -> None:
    result = run("inspect", shop_source, "--json")
    assert result.code == 0
    assert result.err == ""
    assert result.json == inspect(open_source(shop_source))


def test_some_tables(run: Run, shop_source: Path) -> None:
    assert list(
        run("inspect", shop_source, "--tables", "orders, customers", "--json").json["tables"]
    ) == ["customers", "orders"]


def test_a_schema_file(run: Run, shop_source: Path, tmp_path: Path) -> None:
    (tmp_path / "schema.yaml").write_text("orders: {time_col: null, kinds: {coupon: text}}")
    orders = run("inspect", shop_source, "--schema", tmp_path / "schema.yaml", "--json").json[
        "tables"
    ]["orders"]
    assert orders["time_column"] is None
    assert orders["columns"]["coupon"]["kind"] == "text"


def test_findings_are_listed(run: Run, tmp_path: Path) -> None:
    (tmp_path / "orders.csv").write_text(
        "id,created_at,country\n1,2024-01-01,SE\n2,2024-01-02,SE\n"
    )
    lines = run("inspect", tmp_path).out.splitlines()
    assert "1 finding: 1 notice" in lines
    assert "notice   constant_column: orders.country: one value in all rows: 'SE'" in lines


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wide_database(tmp_path_factory.mktemp("wide") / "wide.db")


@pytest.fixture
def known(tmp_path: Path) -> tuple[object, ...]:
    """States that no date of an event is unknown before it happens."""
    (tmp_path / "known.yaml").write_text(
        "".join(f"{name}: {{event_dates: {{}}}}\n" for name in EVENTS)
    )
    return "--schema", tmp_path / "known.yaml"


def test_a_wide_schema_fits_on_two_screens(run: Run, wide: Path, known: tuple[object, ...]) -> None:
    result = run("inspect", wide, *known)
    lines = result.out.splitlines()
    assert lines[0].endswith("68 tables, 3,243 rows")
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 120
    heads = [line.split()[0] for line in lines if line]
    for name in ("salesorderheader", "personphone", "vendor"):
        assert heads.count(name) == 1, "a line each"
    assert "18 lookup tables (no time, no keys to others): addresstype 19" in result.out
    assert heads.index("leak") < heads.index("warning") < heads.index("notice")
    assert "shipdate of 9 tables: later than 'placed_at'" in result.out
    assert "modifieddate of 35 tables" in result.out
    assert "manifest" not in result.out


def test_a_wide_schema_in_json_keeps_everything(
    run: Run, wide: Path, known: tuple[object, ...]
) -> None:
    report = run("inspect", wide, "--json", *known).json
    assert len(report["tables"]) == 68
    assert all(f["severity"] in ("leak", "warning", "notice") for f in report["findings"])
    late = [f for f in report["findings"] if f["code"] == "suspected_leak"]
    assert len(late) == 9
    assert late[0]["repair"] == {"tables": {late[0]["table"]: {"kinds": {"shipdate": "ignored"}}}}
    assert report["findings"][:9] == late


def test_one_table_with_its_columns(run: Run, wide: Path) -> None:
    out = run("inspect", wide, "--table", "creditcard").out
    assert out.splitlines()[0] == "creditcard: 60 rows"
    assert "currencyrateid → currencyrate (FOREIGN KEY of the database)" in out
    assert "as new as currencyrate.placed_at and employee.created_at" in out
    assert "# creditcard: {dated_by: currencyrateid}" in out
    assert "# creditcard: {dated_by: null}" in out
    assert "constant_column: 2 columns have one value" in out
    assert "salesorderheader" not in out
    report = run("inspect", wide, "--table", "creditcard", "--json").json
    assert list(report["tables"]) == ["creditcard"]
    assert {f["table"] for f in report["findings"]} == {"creditcard"}
    missing = run("inspect", wide, "--table", "creditcards", "--json")
    assert (missing.code, missing.error) == (2, "unknown_table")


def test_how_few_tables_are_dated(run: Run, shop_source: Path, tmp_path: Path) -> None:
    """With the YAML that states otherwise."""
    (tmp_path / "schema.yaml").write_text("order_items: {time_col: null}")
    lines = run("inspect", shop_source, "--schema", tmp_path / "schema.yaml").out.splitlines()
    (about,) = (i for i, line in enumerate(lines) if line.startswith("  order_items: as new as"))
    assert about > lines.index("Tables without a time column")
    through = "(through order_id, customer_id)"
    expected = f"  order_items: as new as orders.placed_at and customers.signed_up_at {through}"
    assert lines[about] == expected
    stated = [line.removeprefix("    to state otherwise: ") for line in lines[about + 1 :][:4]]
    assert [yaml.safe_load(line)["order_items"] for line in stated] == [
        {"dated_by": "order_id"},
        {"dated_by": "customer_id"},
        {"dated_by": None},
        {"time_col": "ordered_at"},
    ]


def test_drawings(run: Run, shop_source: Path, tmp_path: Path) -> None:
    for name in ("schema.svg", "schema.mmd", "schema.md"):
        result = run("inspect", shop_source, "--draw", tmp_path / name)
        assert result.code == 0
        assert result.err == f"drawn to {tmp_path / name}\n"
    assert ElementTree.parse(tmp_path / "schema.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "schema.mmd").read_text().startswith("erDiagram\n")
    assert (tmp_path / "schema.md").read_text().startswith("```mermaid\nerDiagram\n")
    assert (tmp_path / "schema.md").read_text().endswith("```\n")
    assert len(list(tmp_path.iterdir())) == 3


def test_drawing_with_json_prints_json_alone(run: Run, shop_source: Path, tmp_path: Path) -> None:
    result = run("inspect", shop_source, "--draw", tmp_path / "schema.svg", "--json")
    assert "tables" in result.json
    assert (tmp_path / "schema.svg").exists()


def test_drawings_that_cannot_be_made(run: Run, shop_source: Path, tmp_path: Path) -> None:
    result = run("inspect", shop_source, "--draw", tmp_path / "schema.png", "--json")
    assert (result.code, result.error) == (2, "unknown_format")
    result = run("inspect", shop_source, "--draw", tmp_path / "no" / "schema.svg", "--json")
    assert (result.code, result.error) == (2, "not_found")
    assert list(tmp_path.iterdir()) == []


def test_errors_for_people_and_for_scripts(run: Run, tmp_path: Path) -> None:
    for_people = run("inspect", tmp_path / "nope.db")
    assert (for_people.code, for_people.out) == (2, "")
    assert for_people.err.startswith("error (not_found): There is no file or folder")
    for_scripts = run("inspect", tmp_path / "nope.db", "--json")
    assert (for_scripts.code, for_scripts.err) == (2, "")
    assert for_scripts.json["error"].keys() == {"code", "message", "hint"}
    assert for_scripts.error == "not_found"


def test_as_a_process(script: Run, shop_source: Path) -> None:
    result = script("inspect", shop_source, "--json")
    assert (result.code, result.err) == (0, "")
    assert "orders" in result.json["tables"]
    result = script("inspect", shop_source / "nope")
    assert (result.code, result.out) == (2, "")
    assert "\x1b" not in result.err
