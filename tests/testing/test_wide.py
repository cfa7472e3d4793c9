"""The wide database has the shape it promises, and its labels follow the planted truth."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
import pytest

import gelgt
from gelgt.errors import GelgtError
from gelgt.metrics import roc_auc
from gelgt.testing.wide import WideDatabase, wide_database
from gelgt.testing.wide.__main__ import main
from gelgt.testing.wide.schema import KEYS, TABLES, window_start
from gelgt.testing.wide.truth import truth

SCALE = 0.01


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> WideDatabase:
    return wide_database(tmp_path_factory.mktemp("wide") / "db", scale=SCALE)


@pytest.fixture(scope="module")
def opened(wide: WideDatabase, tmp_path_factory: pytest.TempPathFactory) -> gelgt.Database:
    return gelgt.open(wide.folder, out=tmp_path_factory.mktemp("wide") / "imported")


def test_tables_columns_rows_and_labels(wide: WideDatabase) -> None:
    tables = wide.tables()
    assert len(tables) == 24
    numeric = [
        (name, column.name)
        for name, table in tables.items()
        for column in table.schema
        if (pt.is_integer(column.type) or pt.is_floating(column.type))
        and column.name not in (KEYS.get(name, "id"), *TABLES[name].parents)
    ]
    assert len(numeric) == 200
    assert sum(len(t) for t in tables.values()) == pytest.approx(600_000 * SCALE, rel=0.15)
    labels = wide.labels()
    assert sum(len(split.label) for split in labels.values()) == pytest.approx(800, rel=0.15)
    assert all(0.25 < split.label.mean() < 0.5 for split in labels.values())


def test_useless_columns_are_what_their_names_say(wide: WideDatabase) -> None:
    orders = wide.tables()["orders"]
    assert orders["copy_5"].equals(orders["noise_4"])
    assert len(pc.unique(orders["constant_8"])) == 1
    assert orders["sparse_6"].null_count > 0.9 * len(orders)


def test_keys_and_times_are_inferred(wide: WideDatabase, opened: gelgt.Database) -> None:
    for name, table in TABLES.items():
        inferred = opened.table(name)
        assert inferred.primary_key is not None
        assert inferred.primary_key.columns == (KEYS.get(name, "id"),)
        assert {fk.column: fk.table for fk in inferred.foreign_keys} == table.parents, name
        assert inferred.time_col == table.time
    for name, key in (("order_lines", "order_id"), ("page_views", "visit_id")):
        dating = opened.table(name).dating
        assert dating is not None
        assert dating.keys == (key,)


def test_sentence_gives_the_labels(wide: WideDatabase, opened: gelgt.Database) -> None:
    task = opened.task(wide.sentence, val=wide.val_timestamp, test=wide.test_timestamp)
    keys = opened.keys("customers")["id"].to_numpy()
    for split, labels in wide.labels().items():
        table = task.table(split)
        time = table[task.time_col].cast("timestamp[s]").cast("int64").to_numpy()
        customer = keys[table[task.entity_col].to_numpy()]
        order = np.lexsort((customer, time))
        np.testing.assert_array_equal(time[order], labels.time)
        np.testing.assert_array_equal(customer[order], labels.customer)
        np.testing.assert_array_equal(table[task.label_col].to_numpy()[order], labels.label)


def test_oracle_beats_what_one_hop_tells(tmp_path: Path) -> None:
    labels = wide_database(tmp_path / "db", scale=0.1, seed=1).labels()
    for split in labels.values():
        oracle = roc_auc(split.label, split.truth.probability)
        one_hop = roc_auc(split.label, split.truth.one_hop)
        assert oracle is not None
        assert one_hop is not None
        assert 0.75 < oracle < 0.85
        assert 0.62 < one_hop < oracle - 0.05


def test_later_rows_do_not_change_the_truth(wide: WideDatabase) -> None:
    tables, at = wide.tables(), window_start(15)
    limit = pa.scalar(at, pa.timestamp("s")).cast("timestamp[us]")
    earlier = dict(tables)
    for name, table in TABLES.items():
        if table.time is not None:
            earlier[name] = tables[name].filter(pc.less(tables[name][table.time], limit))
    line_order = tables["order_lines"]["order_id"]
    earlier["order_lines"] = tables["order_lines"].filter(
        pc.is_in(line_order, value_set=earlier["orders"]["id"].combine_chunks())
    )
    assert len(earlier["orders"]) < len(tables["orders"])
    customer = earlier["customers"]["id"].to_numpy()
    time = np.full(len(customer), at)
    before, after = truth(earlier, customer, time), truth(tables, customer, time)
    np.testing.assert_array_equal(before.probability, after.probability)
    np.testing.assert_array_equal(before.one_hop, after.one_hop)
    later = truth(tables, customer, np.full(len(customer), window_start(16)))
    assert (later.probability != after.probability).any()


def test_same_seed_same_bytes(wide: WideDatabase, tmp_path: Path) -> None:
    again, other = (wide_database(tmp_path / str(s), scale=SCALE, seed=s) for s in (0, 1))
    for name in TABLES:
        content = (wide.folder / f"{name}.parquet").read_bytes()
        assert content == (again.folder / f"{name}.parquet").read_bytes()
        assert content != (other.folder / f"{name}.parquet").read_bytes()


def test_command_prints_how_to_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "db"), "--scale", "0.01"]) == 0
    printed = capsys.readouterr().out
    assert "--val 2023-12-11 --test 2024-06-08" in printed
    assert "PREDICT" in printed
    assert main([str(tmp_path / "db")]) == 2
    assert "must be empty or new" in capsys.readouterr().err


def test_refuses_a_scale_that_is_not_positive(tmp_path: Path) -> None:
    with pytest.raises(GelgtError, match="scale must be a positive number"):
        wide_database(tmp_path / "db", scale=0)
    assert not (tmp_path / "db").exists()
