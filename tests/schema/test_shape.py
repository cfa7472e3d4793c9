"""Manifests of another shape: told as errors of the file, wherever the wrong value sits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.errors import did_you_mean
from gelgt.schema.manifest import dump_yaml, load_yaml


@pytest.fixture
def imported(small_shop: Shop, tmp_path: Path) -> Path:
    return gelgt.open(small_shop.url, out=tmp_path / "import").folder


SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
DATABASE: list[Callable[[dict[str, Any]], Any]] = [
    lambda c: c.update(gelgt="x"),
    lambda c: c.update(tables=[1]),
    lambda c: c.update(tables={3: {}}),
    lambda c: c["tables"].update(orders="x"),
    lambda c: c["tables"]["orders"].update(pkey=7),
    lambda c: c["tables"]["orders"].update(fkeys=["customer_id"]),
    lambda c: c["gelgt"].update(findings=[{"a": 1}]),
    lambda c: c["gelgt"].update(tables=[]),
    lambda c: c.update(val_timestamp={"a": 1}),
    lambda c: c.update(test_timestamp="soon"),
]


def use(folder: Path) -> None:
    gelgt.open(folder).features()
    gelgt.open(folder).task(SENTENCE)


@pytest.mark.parametrize("number", range(len(DATABASE)))
def test_manifests_of_databases(imported: Path, number: int) -> None:
    content = load_yaml(imported / "manifest.yaml")
    DATABASE[number](content)
    dump_yaml(content, imported / "manifest.yaml")
    with pytest.raises(GelgtError):
        use(imported)


def test_an_entry_about_another_key_does_not_count(imported: Path) -> None:
    content = load_yaml(imported / "manifest.yaml")
    content["gelgt"]["tables"]["orders"]["foreign_keys"]["customer_id"]["columns"] = ["customer_if"]
    dump_yaml(content, imported / "manifest.yaml")
    keys = gelgt.open(imported).table("orders").foreign_keys
    assert "customer_id" in [key.column for key in keys]


@pytest.mark.parametrize(
    "change",
    [{"gelgt": "x"}, {"gelgt": {"labels": "x"}}, {"gelgt": {"classes": 3}}, {"timedelta": [1]},
     {"remove_columns": 3}, {"num_eval_timestamps": "x"}, {"entity_table": 3}],
)  # fmt: skip
def test_manifests_of_tasks(imported: Path, change: dict[str, Any]) -> None:
    db = gelgt.open(imported)
    folder = db.task(SENTENCE).save()
    dump_yaml(load_yaml(folder / "manifest.yaml") | change, folder / "manifest.yaml")
    with pytest.raises(GelgtError):
        db.task(str(folder))


def test_unreadable_yaml(tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    for text in (b"a: 2024-99-99", b"\xff", b"a: [", b"- 1"):
        path.write_bytes(text)
        with pytest.raises(GelgtError) as caught:
            load_yaml(path)
        assert caught.value.code == "bad_manifest"


def test_hints_for_names_that_are_no_text() -> None:
    wrong: Any = 7
    assert did_you_mean(wrong, ["orders"]) == "There is: 'orders'."
