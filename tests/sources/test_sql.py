"""Types of reflected columns, and addresses that cannot be read."""

import pyarrow as pa
import pytest
import sqlalchemy as sa

import gelgt
from gelgt.sources.address import parse_url
from gelgt.sources.canonical import STRINGS, TIME
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
