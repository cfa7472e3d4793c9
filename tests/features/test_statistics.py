"""Statistics survive JSON unchanged, and foreign JSON is refused."""

from pathlib import Path

import pytest

from gelgt.errors import GelgtError
from gelgt.features.statistics import (
    CategoricalStatistics,
    FeatureStatistics,
    MulticategoricalStatistics,
    NumericalStatistics,
    TextStatistics,
    TimestampStatistics,
)

STATISTICS = FeatureStatistics(
    "2005-01-01T00:00:00.000000",
    {"name": "hashed-ngrams", "version": 1, "dim": 64},
    {
        "a table": {
            "n": NumericalStatistics(3, 0.1 + 0.2, 1e-300, (0.0, 1.0, 2.0, 3.0, 1e308)),
            "c": CategoricalStatistics(("ü", '"', ""), (3, 2, 1), 7),
            "m": MulticategoricalStatistics(("x",), (1,), 0, "|"),
            "t": TimestampStatistics(2, -5, 0, 2**40),
            "s": TextStatistics(128),
        },
        "empty": {},
    },
)


def test_round_trip(tmp_path: Path) -> None:
    STATISTICS.save(tmp_path / "stats.json")
    again = FeatureStatistics.load(tmp_path / "stats.json")
    assert again == STATISTICS
    assert again.key() == STATISTICS.key()
    assert list(again.tables["a table"]) == list("ncmts")


@pytest.mark.parametrize(
    "content",
    [
        "{}",
        "[]",
        "nonsense",
        '{"format": 99}',
        '{"format": 1, "fit_until": null, "embedder": {}, "tables": {"t": {"c": {"kind": "odd"}}}}',
    ],
)
def test_foreign_json_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "stats.json").write_text(content)
    with pytest.raises(GelgtError) as caught:
        FeatureStatistics.load(tmp_path / "stats.json")
    assert caught.value.code == "bad_statistics"


def test_categories_that_are_no_texts_are_refused() -> None:
    content = STATISTICS.to_dict()
    columns = [c for table in content["tables"].values() for c in table.values()]
    entry = next(c for c in columns if c["kind"] == "categorical")
    entry["categories"] = [*entry["categories"], 3]
    with pytest.raises(GelgtError, match="a category is no text") as caught:
        FeatureStatistics.from_dict(content)
    assert caught.value.code == "bad_statistics"
