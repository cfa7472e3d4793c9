"""Lists of recommendations as training writes them, and with the gaps that happen."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from relbench.metrics import map as relbench_map

from gelgt.errors import GelgtError
from gelgt.metrics import score
from gelgt.runs.intervals import bootstrap, value
from gelgt.runs.rankings import Rankings, read_rankings


def read(folder: Path, k: int | None = None, **columns: Any) -> Rankings:
    table = pa.table({"id": list(range(len(columns["label"]))), **columns})
    times = pa.array([0] * len(table), pa.timestamp("us"))
    pq.write_table(table.add_column(1, "time", times), folder / "test.parquet")
    found = read_rankings(folder / "test.parquet", "gelgt", k)
    assert found is not None
    return found


def test_lists_hits_and_rows_without_any_right(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        3,
        prediction=[["a", "b"], ["c"], [], ["a", "b", "c", "d"]],
        label=[["b", "x"], ["c"], ["a"], []],
        **{"baseline:popular": [["x"], None, ["a"], ["a"]]},
    )
    assert (len(found), found.left_out, found.k) == (3, 1, 3)
    assert found.entity_keys == ["0", "1", "2"]
    assert found.right_count.tolist() == [2, 1, 1]
    assert found.hits["gelgt"].tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert found.hits["popular"].tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    names = dict(zip(found.keys, found.counts("gelgt").tolist()))
    assert {key: n for key, n in names.items() if n} == {"a": 1, "b": 1, "c": 1}


def test_popularity_ranks_share_their_first_place(tmp_path: Path) -> None:
    found = read(tmp_path, prediction=[["z"]] * 3, label=[["a", "b"], ["a", "b"], ["a", "c"]])
    ranks = dict(zip(found.keys, found.popularity.tolist()))
    assert ranks == {"a": 1, "b": 2, "c": 3, "z": 4}


def test_keys_of_several_columns(tmp_path: Path) -> None:
    keys = [[{"year": 2024, "round": 1}, {"year": 2024, "round": 2}]]
    found = read(tmp_path, prediction=keys, label=[keys[0][1:]])
    assert found.hits["gelgt"].tolist() == [[False, True]]
    assert "2024, 2" in found.keys


def test_map_equals_that_of_training_and_of_relbench(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    rows = 40
    ranked = np.array([generator.choice(30, 6, replace=False) for _ in range(rows)])
    right = np.array([generator.choice(30, 9, replace=False) for _ in range(rows)])
    right[:, 4:] = np.where(generator.random((rows, 5)) < 0.5, -1, right[:, 4:])
    lists = [each[each >= 0].tolist() for each in right]
    found = read(tmp_path, 6, prediction=ranked.tolist(), label=lists)
    expected = score("recommendation", right, ranked)["map"]
    assert value("map", found.predictions, "gelgt") == pytest.approx(expected)
    counts = (right >= 0).sum(1)
    assert relbench_map(found.hits["gelgt"], counts) == pytest.approx(expected)
    intervals = bootstrap("map", found.predictions)
    assert intervals is not None
    own = intervals.models["gelgt"]
    assert own.low < own.value < own.high


def test_a_file_of_another_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GelgtError, match="does not hold the predictions of a recommendation"):
        read(tmp_path, prediction=[0.5], label=[1.0])


def test_no_labels(tmp_path: Path) -> None:
    pq.write_table(pa.table({"prediction": [["a"]]}), tmp_path / "test.parquet")
    assert read_rankings(tmp_path / "test.parquet", "gelgt") is None
