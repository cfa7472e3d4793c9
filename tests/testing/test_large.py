"""The generated database has the size, the degrees and the dirt that it promises."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from gelgt.testing import large as module
from gelgt.testing.large import add_rows, foreign_keys, large, schema, table_sizes

ROWS = 40_000


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("large")
    assert large(folder, rows=ROWS) == schema()
    assert sorted(p.name for p in folder.iterdir()) == sorted(
        f"{name}.parquet" for name in schema()
    )
    return {name: pd.read_parquet(folder / f"{name}.parquet") for name in schema()}


def test_rows_and_foreign_keys_add_up(frames: dict[str, pd.DataFrame]) -> None:
    assert sum(len(f) for f in frames.values()) == ROWS
    cells = sum(len(frames[name]) * len(spec["fkeys"]) for name, spec in schema().items())
    assert cells == foreign_keys(ROWS)
    assert 1.95 <= cells / ROWS <= 2.10
    assert sum(table_sizes(14_000_000).values()) == 14_000_000
    assert foreign_keys(14_000_000) * 0.992 >= 28_000_000  # what is left when 0.8 % are null


def test_keys_are_unique_scattered_and_unordered(frames: dict[str, pd.DataFrame]) -> None:
    for name, spec in schema().items():
        keys = frames[name][spec["pkey"]]
        assert keys.is_unique
        assert not keys.is_monotonic_increasing
        assert pd.api.types.is_string_dtype(keys) == (name == "items")
    assert frames["events"]["key"].max() > 100 * len(frames["events"])
    assert not frames["events"]["happened_at"].is_monotonic_increasing


def test_some_foreign_keys_are_null_and_some_dangle(frames: dict[str, pd.DataFrame]) -> None:
    null = dangling = cells = 0
    for name, spec in schema().items():
        for column, parent in spec["fkeys"].items():
            values = frames[name][column]
            cells += len(values)
            null += int(values.isna().sum())
            dangling += int((~values.dropna().isin(frames[parent]["key"])).sum())
    assert null / cells == pytest.approx(0.008, rel=0.3)
    assert dangling / cells == pytest.approx(0.002, rel=0.5)


def test_degrees_have_a_heavy_tail(frames: dict[str, pd.DataFrame]) -> None:
    degree = pd.concat(
        [frames[t]["places_key"] for t in ("accounts", "items", "sessions")]
    ).value_counts()
    assert degree.iloc[0] > 0.2 * degree.sum()
    assert degree.median() < degree.iloc[0] / 20
    # The hub at full size, by the same law: (1 / places) ** (1 / 6) of the rows that refer to a
    # place.
    sizes = table_sizes(14_000_000)
    hub = (1 / sizes["places"]) ** (1 / 6) * (
        sizes["accounts"] + sizes["items"] + sizes["sessions"]
    )
    assert hub > 1_000_000


def test_eight_feature_columns(frames: dict[str, pd.DataFrame]) -> None:
    for name, spec in schema().items():
        features = set(frames[name].columns) - {spec["pkey"], spec["time_col"], *spec["fkeys"]}
        assert features == {
            "amount",
            "score",
            "units",
            "status",
            "tag",
            "is_active",
            "due_at",
            "note",
        }
    events = frames["events"]
    assert events["status"].nunique() == 8
    assert events["tag"].nunique() > 1000
    assert set(events["note"].str.count(" ").unique()) == {1, 3}
    assert events["amount"].isna().mean() == pytest.approx(0.03, abs=0.01)


def test_same_seed_same_rows_whatever_the_chunks_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK_ROWS", 1000)
    for folder, seed in (("a", 1), ("b", 1), ("c", 2)):
        large(tmp_path / folder, rows=5_000, seed=seed)
    tables = {folder: pq.read_table(tmp_path / folder / "events.parquet") for folder in "abc"}
    assert tables["a"].equals(tables["b"])
    assert not tables["a"].equals(tables["c"])
    scores = tables["a"]["score"].to_numpy()
    assert len(np.unique(scores)) == len(scores)  # no chunk repeats another


def test_further_rows_come_later(tmp_path: Path) -> None:
    large(tmp_path, rows=ROWS, in_parts=True)
    added = add_rows(tmp_path, ROWS, 0.1)
    counts = 0
    for table, spec in schema().items():
        parts = [pq.read_table(path) for path in sorted((tmp_path / table).iterdir())]
        assert len(parts) == (2 if spec["time_col"] else 1)
        if len(parts) == 2:
            old, new = parts
            assert new.schema == old.schema
            assert pc.min(new["happened_at"]).as_py() > pc.max(old["happened_at"]).as_py()
            assert not set(new["key"].to_pylist()) & set(old["key"].to_pylist())
            counts += len(new)
    assert added == counts == pytest.approx(0.095 * ROWS, rel=0.02)
