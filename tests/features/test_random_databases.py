"""Random small databases go through graph and features, or fail with an error of ours."""

from datetime import datetime, timedelta
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings

from gelgt.errors import GelgtError
from gelgt.features import open_features
from gelgt.graph import open_graph
from gelgt.schema.model import KINDS

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\x00", exclude_categories=["C"]),
    min_size=1,
    max_size=6,
).filter(lambda s: s.strip(" .") == s)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=8) | st.sampled_from(["a|b", "b|c", "12"]),
    pa.timestamp("us"): st.datetimes(datetime(1000, 1, 1), datetime(9000, 1, 1)),
    pa.list_(pa.string()): st.lists(st.sampled_from(["x", "y", ""]), max_size=3),
}


@st.composite
def columns(draw: st.DrawFn, rows: int) -> pa.Array:
    arrow = draw(st.sampled_from(list(VALUES)))
    value = VALUES[arrow]
    shape = draw(st.sampled_from(["mixed", "constant", "null"]))
    if shape == "null":
        return pa.nulls(rows, arrow)
    if shape == "constant":
        return pa.array([draw(value)] * rows, arrow)
    return pa.array(draw(st.lists(st.none() | value, min_size=rows, max_size=rows)), arrow)


@st.composite
def databases(draw: st.DrawFn) -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique_by=str.casefold))
    tables = {}
    for name in names:
        rows = draw(st.integers(0, 7))
        data: dict[str, pa.Array] = {
            c: draw(columns(rows)) for c in draw(st.lists(NAMES, max_size=4, unique=True))
        }
        spec: dict[str, Any] = {"time_col": None, "fkeys": {}, "kinds": {}}
        for c in data:
            if draw(st.booleans()):
                spec["kinds"][c] = draw(st.sampled_from(KINDS))
        if draw(st.booleans()):
            days = draw(st.lists(st.none() | st.integers(0, 10), min_size=rows, max_size=rows))
            data["the time"] = pa.array(
                [None if d is None else datetime(2020, 1, 1) + timedelta(days=d) for d in days],
                pa.timestamp("us"),
            )
            spec["time_col"] = "the time"
        for j, parent in enumerate(draw(st.lists(st.sampled_from(names), max_size=2))):
            data[f"key {j}"] = pa.array(
                draw(st.lists(st.none() | st.integers(-1, 8), min_size=rows, max_size=rows)),
                pa.int64(),
            )
            spec["fkeys"][f"key {j}"] = parent
        data.setdefault("id", pa.array(range(rows), pa.int64()))
        tables[name] = (pa.table(data), spec)
    return tables


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tables=databases())
@example(
    tables={"t": (pa.table({"x": pa.array([], pa.string())}), {"kinds": {"x": "multicategorical"}})}
)
@example(
    tables={
        "t": (pa.table({"x": pa.nulls(1, pa.list_(pa.string()))}), {"kinds": {"x": "categorical"}})
    }
)
def test_success_or_an_error_of_ours(make_db: Any, tables: dict[str, Any]) -> None:
    db = make_db(tables, val="2020-01-06")
    graph = open_graph(db)
    try:
        features = open_features(db)
    except GelgtError as error:
        if error.code != "bad_kind":  # a kind drawn for a column of another type
            raise
        return
    assert list(features.rows) == graph.tables
    assert list(features.rows.values()) == np.diff(graph.offsets).tolist()
    for table, count in features.rows.items():
        frame = features.frame(table, np.arange(count)[::-1])
        assert len(frame) == count
        shown = {name for names in frame.col_names_dict.values() for name in names}
        assert set(features.col_stats(table)) == shown
