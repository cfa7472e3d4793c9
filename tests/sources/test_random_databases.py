"""Random small databases through open → graph → features: either success, or a GelgtError. Never
anything else."""

import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gelgt

NAMES = st.one_of(
    st.sampled_from(
        [
            "id",
            "Id",
            "order",
            "select",
            "user_id",
            "parent_id",
            "created_at",
            "date",
            "a b",
            'qu"ote',
            "ümläut",
            "x.y",
            "100%",
            "name;",
        ]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), min_size=1, max_size=6),
)
MOMENTS = st.integers(0, 3_000_000_000).map(lambda s: datetime(1960, 1, 1) + timedelta(seconds=s))
VALUES = {
    "key": st.one_of(st.none(), st.integers(0, 6)),
    "unique": st.integers(-(2**40), 2**40),
    "number": st.one_of(
        st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(-10, 10)
    ),
    "whole": st.one_of(st.none(), st.integers(-(2**62), 2**62)),
    "flag": st.one_of(st.none(), st.booleans()),
    "text": st.one_of(st.none(), st.text(max_size=12)),
    "code": st.one_of(st.none(), st.sampled_from(["a", "b", "a|b", "", "2024-01-01", "7"])),
    "time": st.one_of(st.none(), MOMENTS),
    "iso": st.one_of(st.none(), MOMENTS.map(lambda m: m.isoformat(sep=" "))),
    "null": st.none(),
}


@st.composite
def frames(draw: st.DrawFn) -> dict[str, pd.DataFrame]:
    tables = {}
    for table in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        rows = draw(st.integers(0, 7))
        columns: dict[str, Any] = {}
        for column in draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)):
            kind = draw(st.sampled_from(list(VALUES)))
            unique = kind == "unique" or (column.lower() == "id" and draw(st.booleans()))
            values = VALUES["unique" if unique else kind]
            columns[column] = draw(st.lists(values, min_size=rows, max_size=rows, unique=unique))
        tables[table] = pd.DataFrame(columns)
    return tables


@st.composite
def schemas(draw: st.DrawFn, tables: dict[str, pd.DataFrame]) -> dict[str, dict[str, Any]]:
    """Keys that are stated at random, many of them wrong."""
    stated: dict[str, dict[str, Any]] = {}
    for name, frame in tables.items():
        entry: dict[str, Any] = {}
        if draw(st.booleans()):
            entry["pkey"] = draw(st.sampled_from([None, *frame.columns]))
        if draw(st.booleans()):
            entry["fkeys"] = {
                draw(st.sampled_from(list(frame.columns))): draw(st.sampled_from(list(tables)))
            }
        if draw(st.booleans()):
            entry["time_col"] = draw(st.sampled_from([None, *frame.columns]))
        if draw(st.booleans()):
            entry["kinds"] = {
                draw(st.sampled_from(list(frame.columns))): draw(
                    st.sampled_from(["numerical", "categorical", "text", "timestamp", "ignored"])
                )
            }
        stated[name] = entry
    return stated


def run(source: Any, schema: dict[str, dict[str, Any]] | None) -> bool:
    """Whether the database went all the way."""
    with tempfile.TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GELGT_CACHE", cache)
        try:
            db = gelgt.open(source, schema=schema)
            graph, features = db.graph(), db.features()
        except gelgt.GelgtError as error:
            if not (error.code and error.message):
                pytest.fail(f"an error without a code or a message: {error!r}")
            left = Path(cache) / "imports"
            assert not left.exists() or not any(p.name.startswith(".") for p in left.iterdir())
            return False
        assert graph.num_nodes == sum(db.num_rows(name) for name in db.table_names)
        for name in db.table_names:
            rows = np.arange(db.num_rows(name))
            assert features.frame(name, rows).num_rows == len(rows)
        return True


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_random_frames(data: st.DataObject) -> None:
    tables = data.draw(frames())
    run(tables, data.draw(schemas(tables)) if data.draw(st.booleans()) else None)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(tables=frames())
def test_random_csv_files(tables: dict[str, pd.DataFrame]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number, frame in enumerate(tables.values()):
            frame.to_csv(Path(folder) / f"t{number}.csv", index=False)
        run(folder, None)


def test_the_generator_reaches_the_end() -> None:
    """A property that always ended in an error would prove nothing."""
    tables = {
        "a": pd.DataFrame({"id": [1, 2], "x": [0.5, None]}),
        "b b": pd.DataFrame({"id": [1], "a_id": [2], "at": [datetime(2024, 1, 1)]}),
    }
    assert run(tables, None)
