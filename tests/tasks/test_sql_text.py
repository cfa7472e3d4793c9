import duckdb
import numpy as np

from gelgt.tasks.sql_text import quote, text_literal, time_literal


def test_every_keyword_of_duckdb_works_as_a_name() -> None:
    con = duckdb.connect()
    words = [row[0] for row in con.execute("SELECT keyword_name FROM duckdb_keywords()").fetchall()]
    assert len(words) > 100
    for word in words:
        name = quote(word)
        sql = (
            f"WITH {name} AS (SELECT 1 AS {name}) SELECT a.{name} AS {name} FROM {name} a WHERE "
            f"a.{name} = 1 GROUP BY ALL"
        )
        assert con.execute(sql).fetchall() == [(1,)], word


def test_odd_names() -> None:
    assert [quote(n) for n in ("a1", "_x", "1a", "a b", "ä", "")] == [
        "a1",
        "_x",
        '"1a"',
        '"a b"',
        '"ä"',
        '""',
    ]


def test_values() -> None:
    assert text_literal("a'b") == "'a''b'"
    assert (
        time_literal(np.datetime64("2024-01-01T00:00:00.5", "us"))
        == "TIMESTAMP '2024-01-01 00:00:00.500000'"
    )
