"""Stored features: hashed by content, shared by path, opened without heavy libraries."""

import pickle
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from gelgt.errors import SchemaError
from gelgt.features import open_features


def opened(make_db: Any, value: float = 1.0, name: str = "n", **options: Any) -> Any:
    return open_features(
        make_db(
            {
                "t": (
                    pa.table({name: [value, 2.0], "s": ["a", "b"]}),
                    {"kinds": {name: "numerical", "s": "text"}},
                )
            },
            **options,
        )
    )


def test_content_hash_follows_the_content_not_the_place(make_db: Any) -> None:
    first = opened(make_db)
    assert opened(make_db, row_group_size=1).content_hash() == first.content_hash()
    assert opened(make_db, value=1.5).content_hash() != first.content_hash()
    assert opened(make_db, name="m").content_hash() != first.content_hash()


def test_whole_numbers_of_either_type_give_the_same_features(make_db: Any) -> None:
    kinds = {"kinds": {"n": "numerical", "c": "categorical"}}
    ints, floats = (
        open_features(
            make_db(
                {"t": (pa.table({"n": pa.array([3, 1, 3], t), "c": pa.array([3, 1, 3], t)}), kinds)}
            )
        )
        for t in (pa.int64(), pa.float64())
    )
    assert ints.content_hash() == floats.content_hash()
    assert ints.statistics.tables["t"]["c"].categories == ("3", "1")


def test_survives_pickling_as_a_path(make_db: Any) -> None:
    features = opened(make_db)
    twin = pickle.loads(pickle.dumps(features))
    assert twin.frame("t", [1]) == features.frame("t", [1])


def test_unknown_table_names_the_nearest(make_db: Any) -> None:
    with pytest.raises(SchemaError, match="no features of a table 'tt'"):
        opened(make_db).columns("tt")


def test_reopening_and_importing_need_no_heavy_library() -> None:
    heavy = "{'torch', 'torch_frame', 'pandas', 'numba'}"
    code = f"import sys, gelgt.features; print({heavy} & set(sys.modules))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "set()"
    )
