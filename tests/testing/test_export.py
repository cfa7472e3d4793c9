"""Every form of the shop holds the same rows with the right types."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

from gelgt.demo import Shop, shop
from gelgt.demo.schema import TABLES
from gelgt.errors import GelgtError
from gelgt.testing import to_csv, to_duckdb, to_frames, to_parquet, to_sql


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return shop(tmp_path_factory.mktemp("small") / "shop.db", customers=150, days=150)


def same(left: pd.DataFrame, right: pd.DataFrame, table: str) -> None:
    """Equal values, whatever each side uses for a missing one."""
    key = TABLES[table].key.name
    left, right = (f.sort_values(key).reset_index(drop=True) for f in (left, right))
    assert list(left.columns) == list(right.columns)
    assert len(left) == len(right) > 0
    for column in left.columns:
        a, b = left[column], right[column]
        assert a.isna().tolist() == b.isna().tolist(), f"{table}.{column}"
        known = ~a.isna()
        assert a[known].tolist() == b[known].tolist(), f"{table}.{column}"


def test_frames_have_the_types_of_pandas(small: Shop) -> None:
    frames = to_frames(small)
    assert list(frames) == list(TABLES)
    assert frames["orders"]["customer_id"].dtype == np.int64
    assert frames["visits"]["customer_id"].dtype == np.float64  # guests
    assert frames["customers"]["birth_year"].dtype == np.float64
    assert frames["customers"]["wants_newsletter"].dtype == bool
    assert frames["support_tickets"]["is_urgent"].dtype == object
    assert all(
        frames[t.name][t.time_column].dtype.kind == "M" for t in TABLES.values() if t.time_column
    )


def test_csv(small: Shop, tmp_path: Path) -> None:
    folder = to_csv(small, tmp_path / "csv")
    frames = to_frames(small)
    for table in TABLES.values():
        times = [c.name for c in table.columns if c.type == "time"]
        same(
            pd.read_csv(folder / f"{table.name}.csv", parse_dates=times),
            frames[table.name],
            table.name,
        )
    header, first = (folder / "customers.csv").read_text().splitlines()[:2]
    assert header.replace('"', "") == "id,signed_up_at,country,birth_year,wants_newsletter"
    assert first.endswith(("true", "false"))


def test_parquet(small: Shop, tmp_path: Path) -> None:
    folder = to_parquet(small, tmp_path / "parquet")
    frames = to_frames(small)
    for table in TABLES:
        same(pd.read_parquet(folder / f"{table}.parquet"), frames[table], table)
    assert sorted(p.stem for p in folder.iterdir()) == sorted(TABLES)


def test_duckdb(small: Shop, tmp_path: Path) -> None:
    file = to_duckdb(small, tmp_path / "shop.duckdb")
    frames = to_frames(small)
    with duckdb.connect(str(file), read_only=True) as connection:
        for table in TABLES.values():
            same(
                connection.execute(f"SELECT * FROM {table.name}").df(),
                frames[table.name],
                table.name,
            )
        kinds = connection.execute(
            "SELECT constraint_type, COUNT(*) FROM duckdb_constraints() GROUP BY 1"
        ).fetchall()
        types = dict(
            connection.execute(
                "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'orders'"
            ).fetchall()
        )
    assert dict(kinds)["PRIMARY KEY"] == len(TABLES)
    assert dict(kinds)["FOREIGN KEY"] == sum(len(t.foreign_keys) for t in TABLES.values())
    assert types["placed_at"] == "TIMESTAMP"
    assert types["shipping_fee"] == "DOUBLE"
    assert types["is_gift"] == "BOOLEAN"


def test_sql_url(small: Shop, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    to_sql(small, url)
    frames = to_frames(small)
    engine = sa.create_engine(url)
    inspector = sa.inspect(engine)
    for table in TABLES.values():
        assert inspector.get_pk_constraint(table.name)["constrained_columns"] == [table.key.name]
        found = {
            fk["constrained_columns"][0]: fk["referred_table"]
            for fk in inspector.get_foreign_keys(table.name)
        }
        assert found == table.foreign_keys
        reflected = sa.Table(table.name, sa.MetaData(), autoload_with=engine)
        with engine.connect() as connection:
            same(
                pd.DataFrame(connection.execute(sa.select(reflected)).mappings().all()),
                frames[table.name],
                table.name,
            )
    engine.dispose()


def test_sql_url_replaces_only_when_told(small: Shop, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'copy.db'}"
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (precious TEXT)"))
    with pytest.raises(GelgtError, match="already has the tables 'orders'"):
        to_sql(small, url)
    assert sa.inspect(engine).get_table_names() == ["orders"]
    to_sql(small, url, replace=True)
    to_sql(small, url, replace=True)
    assert sorted(sa.inspect(engine).get_table_names()) == sorted(TABLES)
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT COUNT(*) FROM orders")).scalar() == len(
            to_frames(small)["orders"]
        )
    engine.dispose()
