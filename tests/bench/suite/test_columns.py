"""The columns of a suite, and variants as they are written."""

import pytest

from gelgt.bench.suite.columns import pairs, parse_variants, suite_columns, suite_study
from gelgt.errors import GelgtError


def test_a_variant_may_set_lists() -> None:
    assert parse_variants(["few:model.encoders=table,hop,train.epochs=2"]) == {
        "few": {"model.encoders": ("table", "hop"), "train.epochs": 2}
    }


@pytest.mark.parametrize(
    "texts",
    [["narrow"], ["narrow:"], [":model.width=3"], ["a b:model.width=3"], ["trees:model.width=3"]],
)
def test_what_is_no_variant(texts: list[str]) -> None:
    with pytest.raises(GelgtError) as error:
        parse_variants(texts)
    assert error.value.code == "bad_variant"


def test_two_variants_of_one_name() -> None:
    with pytest.raises(GelgtError, match="already"):
        parse_variants(["a:model.width=8", "a:model.width=16"])


def test_columns_and_what_is_compared() -> None:
    columns = suite_columns(suite_study({"flat": {"model.layers": 0}}, ["getml"]))
    assert [column.name for column in columns] == [
        "network",
        "network without graph",
        "trees",
        "together",
        "lightgbm",
        "lightgbm-2hop",
        "entity's past",
        "getml",
        "flat network",
        "flat together",
    ]
    assert pairs(columns) == [
        ("together", "network"),
        ("together", "trees"),
        ("together", "lightgbm"),
        ("together", "lightgbm-2hop"),
        ("together", "entity's past"),
        ("together", "getml"),
        ("network", "network without graph"),
        ("network", "trees"),
        ("network", "flat network"),
        ("together", "flat together"),
    ]
