"""What a graph tells about itself, and what it looks like to PyG."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gelgt.errors import SchemaError
from gelgt.graph import Graph, build_graph, open_graph


def test_content_hash_follows_the_content_not_the_place(real_db: Any, tmp_path: Path) -> None:
    db = real_db("rel-f1")
    graph = open_graph(db)
    (tmp_path / "again").mkdir()
    build_graph(db, tmp_path / "again")
    assert Graph(tmp_path / "again").content_hash() == graph.content_hash()
    assert open_graph(real_db("rel-stack-beer")).content_hash() != graph.content_hash()


def test_a_renamed_column_changes_the_hash(make_db: Any) -> None:
    def graph(column: str) -> Graph:
        rows = pa.table({"id": [0, 1], column: [1, 0]})
        return open_graph(make_db({"t": (rows, {"pkey": "id", "fkeys": {column: "t"}})}))

    assert graph("a").content_hash() == graph("a").content_hash() != graph("b").content_hash()


def test_describe_counts_what_is_there(real_db: Any) -> None:
    db = real_db("rel-f1")
    graph = open_graph(db)
    described = graph.describe()
    degree = np.diff(graph.indptr)
    assert described["nodes"] == sum(db.num_rows(t) for t in db.table_names) == 96_725
    assert described["edges"] == sum(r["edges"] for r in described["relations"]) == 225_513
    assert described["max_degree"] == degree.max()
    assert described["mean_degree"] == pytest.approx(degree.mean())
    assert described["tables"]["results"] == {
        "rows": 25_860,
        "first": "1950-05-13T00:00:00",
        "last": "2023-03-05T15:00:00",
    }
    assert described["tables"]["drivers"]["first"] is None


def test_hetero_data_equals_relbench(real_db: Any) -> None:
    torch = pytest.importorskip("torch")
    db = real_db("rel-stack-beer")
    data = open_graph(db).to_hetero_data()
    votes = db.read("votes").to_pandas()
    filled = votes["UserId"].notna()
    expected = np.stack([np.flatnonzero(filled), votes["UserId"][filled].astype("int64")])
    assert torch.equal(data["votes", "f2p_UserId", "users"].edge_index, torch.from_numpy(expected))
    reverse = data["users", "rev_f2p_UserId", "votes"].edge_index
    assert set(map(tuple, reverse.T.tolist())) == {(u, v) for v, u in expected.T.tolist()}
    assert bool((reverse[0].diff() >= 0).all())
    assert (
        data["votes"].time.tolist()
        == (votes["CreationDate"].astype("datetime64[s]").astype("int64")).tolist()
    )
    assert "time" not in data["tags"]
    assert data.validate()


def test_survives_pickling_as_a_path(make_db: Any) -> None:
    graph = open_graph(
        make_db(
            {"t": (pa.table({"id": [0, 1], "up": [1, 1]}), {"pkey": "id", "fkeys": {"up": "t"}})}
        )
    )
    twin = pickle.loads(pickle.dumps(graph))
    assert twin.content_hash() == graph.content_hash()
    assert twin.neighbours(1).tolist() == [1, 0, 1]  # its own parent, then both children


def test_unknown_table_names_the_nearest(make_db: Any) -> None:
    graph = open_graph(make_db({"orders": (pa.table({"id": [0]}), {"pkey": "id"})}))
    with pytest.raises(SchemaError, match="Did you mean 'orders'"):
        graph.nodes("oders", [0])


def test_opening_needs_no_heavy_library() -> None:
    heavy = "{'torch', 'torch_frame', 'torch_geometric', 'pandas', 'numba'}"
    code = f"import sys, gelgt.graph; print({heavy} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "set()"
    )
