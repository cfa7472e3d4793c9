"""`open_features`: cached whole or not at all, with the findings a user should see, and with given
statistics."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gelgt.errors import GelgtError
from gelgt.features import FeatureStatistics, HashedNgrams, build, open_features

START = datetime(2020, 1, 1)


def events(days: list[int], **columns: Any) -> pa.Table:
    return pa.table(
        {"at": pa.array([START + timedelta(days=d) for d in days], pa.timestamp("us")), **columns}
    )


def test_fitted_until_the_validation_time_by_default(make_db: Any) -> None:
    db = make_db(
        {"t": (events([0, 9], c=["a", "b"]), {"time_col": "at", "kinds": {"c": "categorical"}})},
        val="2020-01-05",
    )
    assert open_features(db).statistics.tables["t"]["c"].categories == ("a",)
    assert open_features(db).statistics.fit_until == "2020-01-05T00:00:00.000000"
    for later in (
        "2020-02-01",
        datetime(2020, 2, 1),
        np.datetime64("2020-02-01"),
        pd.Timestamp("2020-02-01T05:00+05:00"),
    ):
        assert open_features(db, later).statistics.tables["t"]["c"].categories == ("a", "b")
        assert open_features(db, later).statistics.fit_until == "2020-02-01T00:00:00.000000"
    assert open_features(db).arrays("t")["categorical"].tolist() == [[0], [-1]]
    for nonsense in (pd.NaT, "soon"):
        with pytest.raises(GelgtError, match="fit_until must be a time, got"):
            open_features(db, nonsense)


def test_given_statistics_find_the_features_that_were_fitted_with_them(
    make_db: Any,
) -> None:
    rows = events([0, 9], n=[1.0, 2.0])
    db = make_db({"t": (rows, {"time_col": "at", "kinds": {"n": "numerical"}})}, val="2020-01-05")
    fitted, later = open_features(db), open_features(db, "2020-02-01")
    for features in (fitted, later):
        given = FeatureStatistics.from_dict(features.statistics.to_dict())
        assert open_features(db, statistics=given).folder == features.folder
    other = replace(later.statistics, fit_until=fitted.statistics.fit_until)
    encoded = open_features(db, statistics=other)
    assert encoded.folder not in (fitted.folder, later.folder)
    assert open_features(db, statistics=other).folder == encoded.folder


def test_built_once_and_never_half(make_db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    db = make_db({"t": (pa.table({"n": [1.0, 2.0]}), {"kinds": {"n": "numerical"}})})

    def break_off(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build.TableEncoder, "encode", break_off)
        with pytest.raises(KeyboardInterrupt):
            open_features(db)
    assert list(db.cache_dir.iterdir()) == []
    hashed = open_features(db).content_hash()
    monkeypatch.setattr(build, "build_features", break_off)
    assert open_features(db).content_hash() == hashed


def test_findings_name_what_was_lost(make_db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gelgt.features.categories.MAX_CATEGORIES", 2)
    rows = pa.table({"n": [1.0, np.inf, -np.inf], "s": ["1", "two", None], "c": ["a", "b", "c"]})
    kinds = {"n": "numerical", "s": "numerical", "c": "categorical"}
    findings = open_features(make_db({"t": (rows, {"kinds": kinds})})).findings
    assert {(f.code, f.column, f.count) for f in findings} == {
        ("non_finite", "n", 2),
        ("unparsable_number", "s", 1),
        ("many_categories", "c", 1),
        ("unseen_category", "c", 1),
    }
    assert all(f"'t.{f.column}'" in f.message for f in findings)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("timestamp", pa.array([1, 2])),
        ("timestamp", pa.array(["a", "b"])),
        ("multicategorical", pa.array([1.5, 2])),
    ],
)
def test_a_wrong_kind_is_an_error_and_leaves_nothing(
    make_db: Any, kind: str, column: pa.Array
) -> None:
    db = make_db({"my table": (pa.table({"x": column}), {"kinds": {"x": kind}})})
    with pytest.raises(GelgtError, match=rf"'my table\.x' holds .* cannot be {kind}"):
        open_features(db)
    assert not db.cache_dir.exists() or not list(db.cache_dir.iterdir())


def test_given_statistics_encode_a_newer_database(make_db: Any) -> None:
    spec = {"kinds": {"c": "categorical", "n": "numerical", "s": "text"}}
    old = open_features(
        make_db(
            {"t": (pa.table({"c": [1, 2, 2], "n": [1.0, 2.0, 3.0], "s": ["a", "b", "c"]}), spec)}
        )
    )
    newer = pa.table({"s": ["a", None], "c": [2.0, 7.0], "extra": [0, 0], "n": [1e6, None]})
    db = make_db(
        {
            "t": (
                newer,
                {"kinds": {"c": "numerical", "n": "ignored", "s": "ignored", "extra": "numerical"}},
            ),
            "new": (pa.table({"x": [1]}), {}),
        }
    )
    statistics = FeatureStatistics.from_dict(old.statistics.to_dict())
    features = open_features(db, statistics=statistics)
    # the kinds of the training run, not those of the new database
    assert features.statistics == old.statistics
    assert features.arrays("t")["categorical"].tolist() == [[0], [-1]]
    assert np.isnan(features.arrays("t")["numerical"][1, 0])
    assert np.array_equal(features.arrays("t")["text"][0], old.arrays("t")["text"][0])
    assert features.tables == ["t"]


def test_schema_drift_names_what_is_gone(make_db: Any) -> None:
    statistics = open_features(
        make_db({"orders": (pa.table({"price": [1.0, 2.0]}), {"kinds": {"price": "numerical"}})})
    ).statistics
    with pytest.raises(GelgtError, match=r"no table 'orders' any more.*Did you mean 'order'"):
        open_features(make_db({"order": (pa.table({"price": [1.0]}), {})}), statistics=statistics)
    with pytest.raises(
        GelgtError, match=r"no column 'orders.price' any more.*Did you mean 'prices'"
    ) as caught:
        open_features(make_db({"orders": (pa.table({"prices": [1.0]}), {})}), statistics=statistics)
    assert caught.value.code == "schema_drift"


def test_embedders_are_kept_apart(make_db: Any) -> None:
    db = make_db({"t": (pa.table({"s": ["a", "b"]}), {"kinds": {"s": "text"}})})
    wide = open_features(db, embedder=HashedNgrams(128))
    assert wide.arrays("t")["text"].shape == (2, 128)
    assert open_features(db).arrays("t")["text"].shape == (2, 64)
    assert open_features(db, statistics=wide.statistics).arrays("t")["text"].shape == (2, 128)
    with pytest.raises(GelgtError, match="fitted with"):
        open_features(db, statistics=wide.statistics, embedder=HashedNgrams(64))
