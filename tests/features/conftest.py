"""Tiny RelBench folders, and the real ones where they are at hand."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from gelgt.sources.database import Database
from gelgt.sources.relbench_folder import read_folder

MakeDatabase = Callable[..., Database]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def make_db(tmp_path: Path) -> MakeDatabase:
    """make_db({"orders": (arrow table, {"pkey": …, "time_col": …, "kinds": {…}})},
    val="2020-01-01") -> Database"""
    count = 0

    def make(
        tables: Mapping[str, tuple[pa.Table, Mapping[str, Any]]],
        val: str | None = None,
        row_group_size: int = 1000,
    ) -> Database:
        nonlocal count
        count += 1
        folder = tmp_path / f"db{count}"
        (folder / "db").mkdir(parents=True)
        for name, (rows, _) in tables.items():
            pq.write_table(rows, folder / "db" / f"{name}.parquet", row_group_size=row_group_size)
        manifest = {
            "name": "tiny",
            "val_timestamp": val,
            "tables": {
                name: {k: v for k, v in spec.items() if k != "kinds"}
                for name, (_, spec) in tables.items()
            },
            "gelgt": {
                "tables": {
                    name: {"kinds": spec.get("kinds", {})} for name, (_, spec) in tables.items()
                }
            },
        }
        (folder / "manifest.yaml").write_text(
            yaml.safe_dump(manifest, allow_unicode=True, sort_keys=False), encoding="utf-8"
        )
        return read_folder(folder, "tiny")

    return make


@pytest.fixture
def real_db() -> Callable[[str], Database]:
    def open_real(name: str) -> Database:
        data = Path(os.environ.get("GELGT_DATA") or Path(__file__).parents[3] / "shared" / "data")
        if not (data / name / "manifest.yaml").is_file():
            pytest.skip(f"{name} is not there: set GELGT_DATA to a folder of RelBench v3 databases")
        return read_folder(data / name, name)

    return open_real
