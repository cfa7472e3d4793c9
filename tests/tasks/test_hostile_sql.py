"""Label SQL that does not end is stopped, and a part of a SELECT that writes is refused."""

from collections.abc import Callable

import numpy as np
import pytest

from gelgt.errors import TaskError
from gelgt.sources.database import Database
from gelgt.tasks.engine import SECONDS, engine

Make = Callable[..., Database]
TIMES = np.array(["2024-01-01"], dtype="datetime64[us]")
TABLES = {"t": {"columns": {"id": [0, 1]}, "pkey": "id"}}
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"


def test_what_never_ends_is_stopped(make_db: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECONDS, "0.2")
    with engine(make_db(TABLES)) as run:
        with pytest.raises(TaskError) as caught:
            run.run(ENDLESS, TIMES)
        assert caught.value.code == "slow_sql"
        assert SECONDS in caught.value.hint
        assert run.run("SELECT id FROM t", TIMES) == {"id": "BIGINT"}  # it can still be asked


def test_nonsense_as_a_limit_is_no_limit_of_zero(
    make_db: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECONDS, "soon")
    with engine(make_db(TABLES)) as run:
        assert run.run("SELECT id FROM t", TIMES) == {"id": "BIGINT"}


@pytest.mark.parametrize(
    "part",
    [
        "UPDATE timestamps SET timestamp = NULL",
        "/* é */ delete FROM timestamps",
        "INSERT INTO timestamps VALUES (NULL)",
    ],
)
def test_table_expressions_that_write(make_db: Make, part: str) -> None:
    with engine(make_db(TABLES)) as run:
        with pytest.raises(TaskError) as caught:
            run.run(f"WITH x AS ({part} RETURNING *) SELECT * FROM x", TIMES)
        assert caught.value.code == "bad_sql"
        run.run("SELECT count(timestamp) AS n FROM timestamps", TIMES)
        assert next(iter(run.batches({"n": "n"}, "true"))).column(0).to_pylist() == [1]


def test_columns_named_like_writing(make_db: Make) -> None:
    db = make_db({"t": {"columns": {"id": [0], "update": [1], "copy": [2]}, "pkey": "id"}})
    with engine(db) as run:
        found = run.run('SELECT max("update") AS u, ("copy") AS c FROM t GROUP BY ALL', TIMES)
        assert list(found) == ["u", "c"]
