"""A graph that is extended by new rows is the one that would be built anew."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gelgt.graph import Graph, build, build_graph, grow, open_graph
from gelgt.schema.model import Dating
from gelgt.sources.database import Database
from grown_database import SCHEMA, grown_databases


def built_anew(db: Database, folder: Path) -> Graph:
    folder.mkdir()
    build_graph(db, folder)
    return Graph(folder)


def assert_equal(grown: Graph, anew: Graph) -> None:
    for name in ("node_time", "parents", "indptr", "indices", "list_time"):
        np.testing.assert_array_equal(getattr(grown, name), getattr(anew, name), name)
    assert grown.content_hash() == anew.content_hash()
    texts = [(graph.folder / "graph.json").read_text() for graph in (grown, anew)]
    assert texts[0] == texts[1]


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any share of new rows is taken, and building anew fails."""

    def build_anew(*_: Any) -> None:
        raise AssertionError("built anew")

    monkeypatch.setattr(grow, "MOST_NEW", 1.0)
    monkeypatch.setattr(grow, "BLOCK", 5)
    monkeypatch.setattr(build, "build_graph", build_anew)


@pytest.mark.parametrize("seed", range(60))
def test_equals_a_graph_built_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_build: None, seed: int
) -> None:
    pair = grown_databases(np.random.default_rng(seed), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(build, "build_graph", build_graph)
        open_graph(pair.base)
    assert_equal(open_graph(pair.db), built_anew(pair.db, tmp_path / "anew"))


def test_random_databases_have_what_is_awkward(tmp_path: Path) -> None:
    found: set[str] = set()
    for seed in range(60):
        pair = grown_databases(np.random.default_rng(seed), tmp_path / str(seed))
        graph = open_graph(pair.db)
        found |= {f"{f.code} {f.table}" for f in graph.findings}
        assert pair.db.growth is not None
        for name, rows in pair.db.growth.new_rows.items():
            count, old = pair.db.num_rows(name), pair.base.num_rows(name)
            found |= {"first rows"} if not old else set()
            found |= {"last rows"} if old and rows[0] == old else set()
            found |= {"between"} if old and rows[0] < old <= count else set()
    assert found >= {"first rows", "last rows", "between", "null_time visits", "null_time notes"}
    assert found >= {"dangling_key users", "dangling_key lines", "null_time lines"}


def test_without_a_graph_of_the_older_import(tmp_path: Path) -> None:
    pair = grown_databases(np.random.default_rng(1), tmp_path)
    assert_equal(open_graph(pair.db), built_anew(pair.db, tmp_path / "anew"))
    assert not pair.base.cache_dir.exists()  # nothing is built for the older one


@pytest.mark.parametrize("change", ["rows", "gone", "much"])
def test_builds_anew_where_the_older_graph_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    pair = grown_databases(np.random.default_rng(3), tmp_path, most_rows=30)
    graph = open_graph(pair.base)
    monkeypatch.setattr(grow, "MOST_NEW", 0.0 if change == "much" else 1.0)
    if change == "rows":
        meta = json.loads((graph.folder / "graph.json").read_text())
        meta["rows"][1] += 1
        (graph.folder / "graph.json").write_text(json.dumps(meta))
    elif change == "gone":
        shutil.rmtree(pair.base.folder)
    calls: list[Path] = []

    def build_anew(db: Database, folder: Path) -> None:
        calls.append(folder)
        build_graph(db, folder)

    monkeypatch.setattr(build, "build_graph", build_anew)
    assert_equal(open_graph(pair.db), built_anew(pair.db, tmp_path / "anew"))
    assert len(calls) == 1


def test_tables_come_after_those_that_date_them() -> None:
    order = grow._dating_order(SCHEMA)
    assert order is not None
    assert order.index("orders") < order.index("lines") < order.index("notes")
    dated_by_itself = replace(SCHEMA.tables["lines"], dating=Dating(("order", "next")))
    tables = {**SCHEMA.tables, "lines": dated_by_itself}
    assert grow._dating_order(replace(SCHEMA, tables=tables)) is None
