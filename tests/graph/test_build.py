"""The graph against a slow, obvious one, on random and on awkward databases."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

import gelgt
from gelgt.errors import SchemaError
from gelgt.graph import NEVER, TIMELESS, Graph, build, open_graph
from gelgt.schema.model import ForeignKey, TimeColumn
from gelgt.sources.database import Database

EPOCH = datetime(2020, 1, 1)


def slow_lists(db: Database) -> tuple[list[int], list[list[int]]]:
    """Times and neighbour lists written from the definition, in plain Python."""
    first, total = {}, 0
    for name in db.table_names:
        first[name] = total
        total += db.num_rows(name)
    times, parents = [], [[] for _ in range(total)]
    for name, table in db.schema.tables.items():
        rows = db.read(name).to_pydict()
        for row in range(db.num_rows(name)):
            if table.time_col is None:
                times.append(TIMELESS)
            else:
                value = rows[table.time_col][row]
                times.append(
                    NEVER
                    if value is None
                    else (value - datetime(1970, 1, 1)) // timedelta(seconds=1)
                )
            for fk in table.foreign_keys:
                key = rows[fk.column][row]
                if (
                    key is not None
                    and key == key
                    and 0 <= key < db.num_rows(fk.table)
                    and key == int(key)
                ):
                    parents[first[name] + row].append(first[fk.table] + int(key))
    children: list[list[int]] = [[] for _ in range(total)]
    for node in sorted(range(total), key=lambda v: (-times[v], v)):
        for parent in parents[node]:
            children[parent].append(node)
    return times, [p + c for p, c in zip(parents, children)]


def assert_same(db: Database, graph: Graph) -> None:
    times, lists = slow_lists(db)
    assert graph.node_time.tolist() == times
    assert [graph.neighbours(v).tolist() for v in range(graph.num_nodes)] == lists
    assert 2 * graph.num_edges == len(graph.indices) == sum(map(len, lists))


NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\x00", exclude_categories=["C"]),
    min_size=1,
    max_size=6,
).filter(lambda s: s.strip(" .") == s)


@st.composite
def databases(draw: st.DrawFn) -> dict[str, tuple[pa.Table, dict[str, Any]]]:
    """Random tables with odd names, nulls, empty tables, self references, cycles and dangling
    keys."""
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.casefold))
    tables = {}
    for name in names:
        rows = draw(st.integers(0, 8))
        columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int64())}
        spec: dict[str, Any] = {"pkey": "id", "time_col": None, "fkeys": {}}
        if draw(st.booleans()):
            seconds = draw(st.lists(st.none() | st.integers(-3, 3), min_size=rows, max_size=rows))
            columns["at"] = pa.array(
                [None if s is None else EPOCH + timedelta(seconds=s / 2) for s in seconds],
                pa.timestamp("us"),
            )
            spec["time_col"] = "at"
        for j, parent in enumerate(draw(st.lists(st.sampled_from(names), max_size=3))):
            keys = draw(st.lists(st.none() | st.integers(-1, 9), min_size=rows, max_size=rows))
            columns[f"fk {j}"] = pa.array(keys, pa.int64() if draw(st.booleans()) else pa.float64())
            spec["fkeys"][f"fk {j}"] = parent
        tables[name] = (pa.table(columns), spec)
    return tables


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tables=databases())
def test_equals_the_definition_on_random_databases(make_db: Any, tables: dict[str, Any]) -> None:
    db = make_db(tables)
    assert_same(db, open_graph(db))


def test_equals_the_definition_on_a_real_database(real_db: Any) -> None:
    db = real_db("rel-stack-beer")
    assert_same(db, open_graph(db))


def test_newest_children_first_then_timeless_and_parents_before_all(make_db: Any) -> None:
    hub = pa.table({"id": pa.array([0, 1]), "up": pa.array([None, 0], pa.int64())})
    event = pa.table(
        {
            "hub": pa.array([0, 0, 0, 1]),
            "at": pa.array([EPOCH, None, EPOCH + timedelta(days=1), EPOCH], pa.timestamp("us")),
        }
    )
    note = pa.table({"hub": pa.array([0.0, float("nan")])})
    graph = open_graph(
        make_db(
            {
                "hub": (hub, {"pkey": "id", "fkeys": {"up": "hub"}}),
                "event": (event, {"time_col": "at", "fkeys": {"hub": "hub"}}),
                "note": (note, {"fkeys": {"hub": "hub"}}),
            }
        )
    )
    # nodes: hub 0-1, event 2-5, note 6-7
    # no time, newer, older, then timeless by node
    assert graph.neighbours(0).tolist() == [3, 4, 2, 1, 6]
    assert graph.neighbours(1).tolist() == [0, 5]  # its parent first
    assert graph.neighbours(7).tolist() == []
    assert [(f.code, f.table, f.column, f.count) for f in graph.findings] == [
        ("null_time", "event", "at", 1)
    ]
    assert [r.tolist() for r in graph.relation_of] == [[0], [1], [2]]
    assert graph.table_parents("note").tolist() == [[0], [-1]]
    assert graph.node_table([0, 2, 5, 7]).tolist() == [0, 1, 1, 2]


def test_dangling_keys_are_null_and_counted(make_db: Any) -> None:
    child = pa.table({"p": pa.array([0.0, 1.0, -1.0, 2.5, float("nan"), None, float("inf")])})
    graph = open_graph(
        make_db(
            {"p": (pa.table({"id": [0, 1]}), {"pkey": "id"}), "c": (child, {"fkeys": {"p": "p"}})}
        )
    )
    assert [(f.code, f.table, f.column, f.count) for f in graph.findings] == [
        ("dangling_key", "c", "p", 3)
    ]
    assert graph.table_parents("c")[:, 0].tolist() == [0, 1, -1, -1, -1, -1, -1]


def test_columns_without_a_single_value_may_have_any_type(make_db: Any) -> None:
    empty = pa.table({"p": pa.nulls(2), "at": pa.nulls(2)})
    graph = open_graph(
        make_db(
            {
                "p": (pa.table({"id": [0]}), {"pkey": "id"}),
                "c": (empty, {"time_col": "at", "fkeys": {"p": "p"}}),
            }
        )
    )
    assert graph.node_time.tolist() == [TIMELESS, NEVER, NEVER]
    assert graph.num_edges == 0


@pytest.mark.parametrize(
    ("column", "change", "code"),
    [
        (["a"], {"foreign_keys": (ForeignKey(("x",), "p"),)}, "bad_key"),
        (["yesterday"], {"time_column": TimeColumn("x")}, "bad_time"),
    ],
)
def test_wrong_types_are_named_and_leave_nothing_behind(
    make_db: Any, column: list[str], change: dict[str, Any], code: str
) -> None:
    db = make_db({"p": (pa.table({"id": [0]}), {"pkey": "id"}), "c": (pa.table({"x": column}), {})})
    changed = {**db.schema.tables, "c": replace(db.schema.tables["c"], **change)}
    db = Database(db.folder, replace(db.schema, tables=changed), "edited")
    with pytest.raises(SchemaError, match=r"'c\.x'") as caught:
        open_graph(db)
    assert caught.value.code == code
    assert list(db.cache_dir.iterdir()) == []


def test_built_once_and_never_half(make_db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    db = make_db({"p": (pa.table({"id": [0, 1]}), {"pkey": "id"})})

    def break_off(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "_connect", break_off)
        with pytest.raises(KeyboardInterrupt):
            open_graph(db)
    assert list(db.cache_dir.iterdir()) == []
    assert open_graph(db).num_nodes == 2
    monkeypatch.setattr(build, "build_graph", break_off)
    assert open_graph(db).num_nodes == 2  # from the cache


def test_a_hub_of_many_children_stays_ordered(make_db: Any) -> None:
    rng = np.random.default_rng(0)
    times = rng.integers(0, 1000, 5000)
    child = pa.table(
        {"p": np.zeros(5000, np.int64), "at": pa.array(times * 1_000_000, pa.timestamp("us"))}
    )
    graph = open_graph(
        make_db(
            {
                "p": (pa.table({"id": [0]}), {"pkey": "id"}),
                "c": (child, {"time_col": "at", "fkeys": {"p": "p"}}),
            }
        )
    )
    assert graph.neighbours(0).tolist() == (np.lexsort((np.arange(5000), -times)) + 1).tolist()


@pytest.mark.parametrize("memory", [20_000, 400_000])
def test_a_graph_larger_than_memory_is_filled_part_by_part(
    memory: int, small_shop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = gelgt.open(small_shop.path)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    build.build_graph(db, whole)
    monkeypatch.setattr(build, "available_memory", lambda: memory)
    parts.mkdir()
    build.build_graph(db, parts)
    assert Graph(whole).content_hash() == Graph(parts).content_hash()
