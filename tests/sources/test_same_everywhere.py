"""One database, seven kinds of source: the graph and the features must be the same, byte for
byte."""

from pathlib import Path

import pytest

import gelgt
from gelgt.demo import Shop
from gelgt.testing import to_csv, to_duckdb, to_frames, to_parquet, to_sql


def fingerprint(db: gelgt.Database) -> tuple[str, str]:
    return db.graph().content_hash(), db.features().content_hash()


@pytest.fixture
def expected(small_shop: Shop) -> tuple[str, str]:
    return fingerprint(gelgt.open(small_shop.url))


def test_the_hash_sees_a_changed_value(small_shop: Shop, expected: tuple[str, str]) -> None:
    frames = to_frames(small_shop)
    frames["products"].loc[0, "price"] += 1.0
    graph, features = fingerprint(gelgt.open(frames))
    assert graph == expected[0]
    assert features != expected[1]


def test_frames(small_shop: Shop, expected: tuple[str, str]) -> None:
    assert fingerprint(gelgt.open(to_frames(small_shop))) == expected


def test_csv_folder(small_shop: Shop, expected: tuple[str, str], tmp_path: Path) -> None:
    to_csv(small_shop, tmp_path / "csv")
    assert fingerprint(gelgt.open(tmp_path / "csv")) == expected


def test_parquet_folder(small_shop: Shop, expected: tuple[str, str], tmp_path: Path) -> None:
    to_parquet(small_shop, tmp_path / "parquet")
    assert fingerprint(gelgt.open(str(tmp_path / "parquet"))) == expected


def test_duckdb_file(small_shop: Shop, expected: tuple[str, str], tmp_path: Path) -> None:
    to_duckdb(small_shop, tmp_path / "shop.duckdb")
    assert fingerprint(gelgt.open(tmp_path / "shop.duckdb")) == expected


@pytest.mark.postgres
def test_postgres(small_shop: Shop, expected: tuple[str, str], postgres: "object") -> None:
    to_sql(small_shop, postgres.url, replace=True)  # type: ignore[attr-defined]
    assert fingerprint(gelgt.open(postgres.url)) == expected  # type: ignore[attr-defined]


@pytest.mark.mysql
def test_mariadb(small_shop: Shop, expected: tuple[str, str], mariadb: "object") -> None:
    to_sql(small_shop, mariadb.url.replace("mysql://", "mysql+pymysql://"), replace=True)  # type: ignore[attr-defined]
    assert fingerprint(gelgt.open(mariadb.url)) == expected  # type: ignore[attr-defined]


def test_import_and_reopen(small_shop: Shop, expected: tuple[str, str], tmp_path: Path) -> None:
    gelgt.open(small_shop.url, out=tmp_path / "project")
    assert fingerprint(gelgt.open(tmp_path / "project")) == expected
