"""Frames are what PyTorch Frame expects: its own mappers agree, and its encoders run on real
tables."""

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch_frame import NAStrategy, stype
from torch_frame.data import StatType
from torch_frame.data.mapper import TimestampTensorMapper
from torch_frame.nn import (
    EmbeddingEncoder,
    LinearEmbeddingEncoder,
    LinearEncoder,
    MultiCategoricalEmbeddingEncoder,
    ResNet,
    TimestampEncoder,
)

from gelgt.features import Features, open_features
from gelgt.features.frames import calendar
from gelgt.features.values import MISSING_TIME


def run_through_resnet(
    features: Features, table: str, rows: np.ndarray, hide: tuple[str, ...] = ()
) -> torch.Tensor:
    frame = features.frame(table, rows, hide)
    torch.manual_seed(0)
    model = ResNet(
        channels=16,
        out_channels=8,
        num_layers=2,
        col_stats=features.col_stats(table, hide),
        col_names_dict=frame.col_names_dict,
        stype_encoder_dict={
            stype.categorical: EmbeddingEncoder(),
            stype.numerical: LinearEncoder(na_strategy=NAStrategy.MEAN),
            stype.multicategorical: MultiCategoricalEmbeddingEncoder(),
            stype.embedding: LinearEmbeddingEncoder(),
            stype.timestamp: TimestampEncoder(),
        },
    )
    return model.eval()(frame)


@pytest.mark.parametrize("name", ["rel-f1", "rel-stack-beer"])
def test_encoders_run_on_every_real_table(real_db: Any, name: str) -> None:
    features = open_features(real_db(name))
    rng = np.random.default_rng(0)
    for table, count in features.rows.items():
        out = run_through_resnet(features, table, rng.integers(0, count, 400))
        assert out.shape == (400, 8)
        assert not out.isnan().any(), table
        assert out.std(dim=0).min() > 0, table


def test_encoders_run_where_nothing_was_fitted(make_db: Any) -> None:
    """Every kind without a single fitted value, then rows that are missing, unseen, or older than
    anything fitted."""
    rows = pa.table(
        {
            "at": pa.array([9e14, 9e14], pa.timestamp("us")),
            "n": [1.0, None],
            "c": ["a", None],
            "m": ["a|b", None],
            "w": pa.array([-(10**16), None], pa.timestamp("us")),
            "s": ["x", None],
        }
    )
    kinds = {
        "n": "numerical",
        "c": "categorical",
        "m": {"kind": "multicategorical", "separator": "|"},
        "w": "timestamp",
        "s": "text",
    }
    features = open_features(
        make_db({"t": (rows, {"time_col": "at", "kinds": kinds})}, val="1990-01-01")
    )
    assert not run_through_resnet(features, "t", np.array([0, 1, 1, 0])).isnan().any()


def test_calendar_equals_pytorch_frame() -> None:
    rng = np.random.default_rng(0)
    seconds = np.concatenate(
        [rng.integers(-5_000_000_000, 5_000_000_000, 5000), [0, -1, 951_782_400, -86_400]]
    )
    expected = TimestampTensorMapper.to_tensor(pd.Series(seconds.astype("datetime64[s]")))
    assert np.array_equal(calendar(seconds), expected.numpy())
    assert calendar(np.array([MISSING_TIME])).tolist() == [[-1] * 7]


def database(make_db: Any) -> Features:
    rows = pa.table(
        {
            "n": [1.5, None, 3.0],
            "flag": [True, False, None],
            "m": pa.array([["a", "b"], None, []], pa.list_(pa.string())),
            "m2": ["x", "y,x", None],
            "w": pa.array([0, None, 86_400_000_000], pa.timestamp("us")),
            "s": ["red", None, "blue"],
            "s2": ["one", "two", None],
            "junk": [1, 2, 3],
        }
    )
    kinds = {
        "n": "numerical",
        "flag": "categorical",
        "m": "multicategorical",
        "m2": {"kind": "multicategorical", "separator": ","},
        "w": "timestamp",
        "s": "text",
        "s2": "text",
        "junk": "ignored",
    }
    return open_features(
        make_db(
            {
                "t": (rows, {"kinds": kinds}),
                "keys": (pa.table({"t": [0, 1]}), {"fkeys": {"t": "t"}}),
            }
        )
    )


def test_frame_of_every_kind(make_db: Any) -> None:
    frame = database(make_db).frame("t", [2, 0, 2, 1])
    feats = frame.feat_dict
    assert torch.equal(
        feats[stype.numerical].nan_to_num(-9), torch.tensor([[3.0], [1.5], [3.0], [-9.0]])
    )
    # counts are equal: "false" before "true"
    assert feats[stype.categorical].tolist() == [[-1], [1], [-1], [0]]
    assert feats[stype.timestamp].tolist()[1] == [[1970, 0, 0, 3, 0, 0, 0]]
    assert feats[stype.timestamp].tolist()[3] == [[-1] * 7]
    multi = feats[stype.multicategorical]
    assert [[multi[i, j].tolist() for j in range(2)] for i in range(4)] == [
        [[], [-1]],
        [[0, 1], [0]],
        [[], [-1]],
        [[-1], [0, 1]],
    ]
    text = feats[stype.embedding]
    assert text.values.dtype == torch.float32
    assert text.values.shape == (4, 128)
    assert torch.equal(text[0, 0], text[2, 0])
    assert not text[3, 0].any()
    assert not text[0, 1].any()
    assert frame.col_names_dict[stype.embedding] == ["s", "s2"]
    assert "junk" not in {name for names in frame.col_names_dict.values() for name in names}


def test_hidden_columns_are_gone_from_frame_and_statistics(make_db: Any) -> None:
    features = database(make_db)
    whole, part = (
        features.frame("t", [0, 1]),
        features.frame("t", [0, 1], hide=["s", "m", "n", "no such column"]),
    )
    assert part.col_names_dict == {
        stype.categorical: ["flag"],
        stype.timestamp: ["w"],
        stype.embedding: ["s2"],
        stype.multicategorical: ["m2"],
    }
    assert torch.equal(
        part.feat_dict[stype.embedding].values, whole.feat_dict[stype.embedding].values[:, 64:]
    )
    assert part.feat_dict[stype.multicategorical][1, 0].tolist() == [0, 1]
    assert set(features.col_stats("t", hide=["s", "m", "n"])) == {"flag", "w", "s2", "m2"}


def test_a_table_without_features_gets_a_constant(make_db: Any) -> None:
    features = database(make_db)
    everything = ("n", "flag", "m", "m2", "w", "s", "s2")
    for table, hide in (("keys", ()), ("t", everything)):
        frame = features.frame(table, [1, 0, 1], hide)
        assert frame.col_names_dict == {stype.numerical: ["__const__"]}
        assert frame.feat_dict[stype.numerical].tolist() == [[1.0]] * 3
        assert not run_through_resnet(features, table, np.array([1, 0]), hide).isnan().any()


def test_no_rows_and_rows_that_are_not_there(make_db: Any) -> None:
    features = database(make_db)
    assert len(features.frame("t", [])) == 0
    for rows in ([-1], [3]):
        with pytest.raises(IndexError, match="rows 0…2"):
            features.frame("t", rows)


def test_a_constant_column_has_a_usable_spread(make_db: Any) -> None:
    features = open_features(
        make_db(
            {
                "t": (
                    pa.table({"n": [5.0, 5.0], "big": [1e9, 1e9 + 1]}),
                    {"kinds": {"n": "numerical", "big": "numerical"}},
                )
            }
        )
    )
    stats = features.col_stats("t")
    assert stats["n"][StatType.STD] == 1.0
    assert stats["big"][StatType.STD] == 1.0  # float32 cannot tell these two numbers apart
    assert stats["n"][StatType.MEAN] == 5.0


def test_old_years_count_as_the_first_fitted_one(make_db: Any) -> None:
    rows = pa.table(
        {
            "at": pa.array([10**15, 2 * 10**15], pa.timestamp("us")),
            "w": pa.array([10**15, -(10**15)], pa.timestamp("us")),
        }
    )
    features = open_features(
        make_db(
            {"t": (rows, {"time_col": "at", "kinds": {"at": "ignored", "w": "timestamp"}})},
            val="2010-01-01",
        )
    )
    years = features.frame("t", [0, 1]).feat_dict[stype.timestamp][:, 0, 0].tolist()
    assert years == features.col_stats("t")["w"][StatType.YEAR_RANGE] == [2001, 2001]
