"""Types of reflected columns, and addresses that cannot be read."""

from datetime import datetime

import pyarrow as pa
import pytest
import sqlalchemy as sa

import gelgt
from gelgt.sources.address import parse_url
from gelgt.sources.canonical import STRINGS, TIME
from gelgt.sources.mysql import MySQLSource
from gelgt.sources.sql import SQLSource, open_sql


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (sa.BigInteger(), pa.int64()),
        (sa.Numeric(18, 0), pa.int64()),
        (sa.Numeric(20, 0), pa.float64()),
        (sa.Numeric(8, 2), pa.float64()),
        (sa.Numeric(), pa.float64()),
        (sa.Float(), pa.float64()),
        (sa.Boolean(), pa.bool_()),
        (sa.Date(), TIME),
        (sa.TIMESTAMP(), TIME),
        (sa.Enum("a", "b"), pa.string()),
        (sa.Uuid(), pa.string()),
        (sa.ARRAY(sa.Integer()), STRINGS),
        (sa.LargeBinary(), None),
    ],
    ids=str,
)
def test_declared_types(declared: object, expected: pa.DataType | None) -> None:
    source = SQLSource(parse_url("postgresql://me@host/db"))
    assert source._arrow_type("t", {"name": "c", "type": declared}) == expected


class TextTimes(SQLSource):
    """A dialect that adds nothing, over a driver that gives times as text."""

    def _engine(self) -> sa.Engine:
        return sa.create_engine("sqlite://")

    def _begin(self) -> None:
        self._connection.exec_driver_sql("CREATE TABLE t (at DATETIME)")
        self._connection.exec_driver_sql("INSERT INTO t VALUES ('2024-05-01 10:00:00'), (NULL)")


def test_a_new_dialect_reads_times_that_are_text() -> None:
    with TextTimes(parse_url("libsql://host/db")) as source:
        (table,) = source.tables()
        (batch,) = table.batches()
        assert batch.column("at").to_pylist() == [datetime(2024, 5, 1, 10), None]
        source._connection.exec_driver_sql("INSERT INTO t VALUES ('yesterday')")
        with pytest.raises(gelgt.GelgtError, match=r"'t\.at'.*yesterday"):
            list(table.batches())


def test_text_for_a_time_is_a_zero_date_of_mysql() -> None:
    source = MySQLSource(parse_url("mysql://me@host/db"))
    day = datetime(2024, 5, 1)
    assert source._array("t", "at", TIME, (day, "0000-00-00")).to_pylist() == [day, None]


def test_a_missing_driver_is_named() -> None:
    class Missing(SQLSource):
        def _engine(self) -> sa.Engine:
            raise ModuleNotFoundError(name="oracledb")

    with (
        pytest.raises(gelgt.GelgtError, match="pip install 'oracledb'"),
        Missing(parse_url("oracle://host/db")),
    ):
        pass


def test_addresses() -> None:
    assert open_sql("mariadb://me@host/shop").name == "shop"
    with pytest.raises(
        gelgt.GelgtError,
        match=r"gelgt cannot read 'postgrsql' databases.*Did you mean 'postgresql'",
    ):
        open_sql("postgrsql://me@host/db")
    with pytest.raises(gelgt.GelgtError, match="in-memory"):
        open_sql("sqlite://")


def test_a_server_that_is_not_there_is_a_user_error() -> None:
    with pytest.raises(gelgt.GelgtError) as caught:
        gelgt.open("postgresql://me:hunter2@127.0.0.1:9/db")
    assert caught.value.code == "cannot_open"
    assert "hunter2" not in str(caught.value)
