"""Features that are extended by new rows are those that would be encoded anew."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gelgt.features import Features, HashedNgrams, build, open_features
from gelgt.features.build import build_features
from gelgt.features.fit import fit_statistics
from gelgt.features.statistics import FeatureStatistics
from gelgt.sources.database import Database
from gelgt.sources.row_times import RowTimes
from gelgt.sources.seal import SEAL
from grown_database import Grown, grown_databases

# microseconds: before all rows of random databases, and amid them
EARLIEST, LAST = -10_000_000, 2_250_000


def encoded_anew(db: Database, statistics: FeatureStatistics, folder: Path) -> Features:
    folder.mkdir()
    build_features(db, folder, statistics, HashedNgrams())
    return Features(folder)


def assert_equal(grown: Features, anew: Features) -> None:
    for table in anew.tables:
        assert list(grown.arrays(table)) == list(anew.arrays(table))
        for name, array in anew.arrays(table).items():
            np.testing.assert_array_equal(grown.arrays(table)[name], array, f"{table} {name}")
    assert grown.content_hash() == anew.content_hash()
    for file in ("features.json", "stats.json"):
        assert (grown.folder / file).read_text() == (anew.folder / file).read_text()
    files = [
        sorted(p.relative_to(f.folder) for p in f.folder.rglob("*") if p.name != SEAL)
        for f in (grown, anew)
    ]
    assert files[0] == files[1]


def fail(*_: Any) -> None:
    raise AssertionError("encoded anew")


def come_after(pair: Grown, until: int) -> bool:
    """Whether all new rows become visible after the second of an instant."""
    assert pair.db.growth is not None
    times, second = RowTimes(pair.db), until // 1_000_000 * 1_000_000
    return all(
        bool((times.of(table)[rows] >= second + 1_000_000).all())
        for table, rows in pair.db.growth.new_rows.items()
    )


@pytest.mark.parametrize("seed", range(50))
def test_equals_features_encoded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    pair = grown_databases(rng, tmp_path)
    other = grown_databases(rng, tmp_path / "other").db  # statistics of other rows
    statistics = fit_statistics(other, LAST, HashedNgrams())
    open_features(pair.base, statistics=statistics)
    monkeypatch.setattr(build, "build_features", fail)
    monkeypatch.setattr("gelgt.features.grow.BLOCK", int(rng.integers(1, 9)))
    grown = open_features(pair.db, statistics=statistics)
    assert_equal(grown, encoded_anew(pair.db, statistics, tmp_path / "anew"))


@pytest.mark.parametrize("seed", range(30))
def test_fitted_features_equal_those_fitted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    # Every row of `places` is of the training period.
    until, still = (EARLIEST, ("places",)) if seed % 2 else (LAST, ())
    pair = grown_databases(rng, tmp_path, still=still)
    open_features(pair.base, np.datetime64(until, "us"))
    if come_after(pair, until):
        monkeypatch.setattr(build, "fit_statistics", fail)
        monkeypatch.setattr(build, "build_features", fail)
    else:
        assert until == LAST
    grown = open_features(pair.db, np.datetime64(until, "us"))
    statistics = fit_statistics(pair.db, until, HashedNgrams())
    assert_equal(grown, encoded_anew(pair.db, statistics, tmp_path / "anew"))


def test_the_features_of_a_training_are_extended_for_its_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A prediction gives the statistics that the training fitted."""
    pair = grown_databases(np.random.default_rng(2), tmp_path)
    statistics = open_features(pair.base, np.datetime64(LAST, "us")).statistics
    monkeypatch.setattr(build, "build_features", fail)
    grown = open_features(pair.db, statistics=statistics)
    assert_equal(grown, encoded_anew(pair.db, statistics, tmp_path / "anew"))


def test_all_rows_are_fitted_anew(tmp_path: Path) -> None:
    pair = grown_databases(np.random.default_rng(4), tmp_path)
    open_features(pair.base)
    statistics = fit_statistics(pair.db, None, HashedNgrams())
    assert_equal(open_features(pair.db), encoded_anew(pair.db, statistics, tmp_path / "anew"))


@pytest.mark.parametrize("is_gone", [True, False])
def test_without_features_of_the_older_import(tmp_path: Path, is_gone: bool) -> None:
    pair = grown_databases(np.random.default_rng(1), tmp_path)
    statistics = fit_statistics(pair.db, LAST, HashedNgrams())
    if is_gone:
        open_features(pair.base, statistics=statistics)
        shutil.rmtree(pair.base.folder)
    grown = open_features(pair.db, statistics=statistics)
    assert_equal(grown, encoded_anew(pair.db, statistics, tmp_path / "anew"))
