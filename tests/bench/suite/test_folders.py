"""The databases and tasks of a suite: what is scored, what is left out, and what is refused."""

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gelgt.bench.suite.folders import check_folders, open_folders
from gelgt.errors import GelgtError


def test_every_task_at_every_origin(shops: dict[str, Path]) -> None:
    folders, left_out = open_folders(list(shops.values()), (), 2)
    assert left_out == []
    assert [(u.title, u.origin) for folder in folders for u in folder.units] == [
        ("corner / amount", 1),
        ("corner / amount", 2),
        ("corner / soon", 1),
        ("corner / soon", 2),
        ("market / soon", 1),
        ("market / soon", 2),
    ]


def test_more_origins_than_history(shops: dict[str, Path]) -> None:
    folders, left_out = open_folders([shops["market"]], (), 99)
    reached = len(folders[0].units)
    assert 2 < reached < 99
    assert len(left_out) == 1  # the first one that does not fit, once
    assert f"soon cannot be replayed at origin {reached + 1}: of the" in left_out[0]


def test_tasks_that_are_named(shops: dict[str, Path]) -> None:
    folders, _ = open_folders(list(shops.values()), ["market/soon", "amount"], 0)
    assert [u.title for f in folders for u in f.units] == ["corner / amount", "market / soon"]
    with pytest.raises(GelgtError, match="No folder has a task 'sooner'") as error:
        open_folders(list(shops.values()), ["sooner"], 0)
    assert "soon" in error.value.hint


def test_folders_that_are_none(shops: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(GelgtError, match="does not exist") as error:
        check_folders([tmp_path / "nowhere"])
    assert "gelgt import" in error.value.hint
    with pytest.raises(GelgtError, match="is no database folder"):
        check_folders([tmp_path])
    copy = tmp_path / "corner"
    shutil.copytree(shops["corner"], copy)
    with pytest.raises(GelgtError, match="have the same name") as error:
        check_folders([shops["corner"], copy])
    assert "Rename" in error.value.hint
    assert check_folders([copy, copy]) == {"corner": copy.resolve()}
    shutil.rmtree(copy / "tasks")
    with pytest.raises(GelgtError, match="has no tasks") as error:
        open_folders([copy], (), 0)
    assert "gelgt task" in error.value.hint


def test_a_single_class_and_a_broken_task_are_left_out(
    shops: dict[str, Path], tmp_path: Path
) -> None:
    copy = tmp_path / "corner"
    shutil.copytree(shops["corner"], copy)
    path = copy / "tasks" / "soon" / "val.parquet"
    table = pq.read_table(path)
    zeros = pa.array([0] * len(table), table.schema.field(2).type)
    pq.write_table(table.set_column(2, table.column_names[2], zeros), path)
    (copy / "tasks" / "amount" / "test.parquet").write_bytes(b"no parquet")
    folders, left_out = open_folders([copy, shops["market"]], (), 2)
    # at origin 1 they would be scored, at origin 2 they are later than everything
    assert [(u.title, u.origin) for u in folders[0].units] == [("corner / soon", 2)]
    assert any(
        "soon at origin 1: all" in line and "labels of test are 0" in line for line in left_out
    )
    assert any(line.startswith("corner/amount: ") for line in left_out)
    with pytest.raises(GelgtError, match="No task can be scored") as error:
        open_folders([copy], (), 1)
    assert error.value.code == "no_tasks"
