"""No future, whole pipeline: predictions at a time are the same bits whether or not the database
goes on after it.

The rows behind the cut are hostile (see conftest.py), and the model was trained on the database
that holds them.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import torch

import gelgt
from gelgt.inference import Predictor
from gelgt.training import Run, load_run

from .conftest import SENTENCES, Twins, tiny_run


def same_bits(left: pa.Table, right: pa.Table) -> None:
    assert left.schema == right.schema
    assert left.num_rows == right.num_rows > 20
    for name in left.column_names:
        a, b = left.column(name).combine_chunks(), right.column(name).combine_chunks()
        assert a.equals(b), name
        if pa.types.is_floating(a.type):
            assert a.to_numpy().tobytes() == b.to_numpy().tobytes(), name


def spread(table: pa.Table) -> float:
    """How much the predictions of a table differ among themselves: a constant would prove
    nothing."""
    columns = [c for c in table.column_names if c.startswith(("prediction", "probability"))]
    return float(
        max(
            table.column(c).to_numpy().std()
            for c in columns
            if pa.types.is_floating(table.schema.field(c).type)
        )
    )


@pytest.mark.parametrize("name", SENTENCES)
def test_predictions_do_not_know_what_came_later(
    twins: Twins, run_of: Callable[[str], Run], name: str
) -> None:
    whole, cut = (Predictor(run_of(name), db) for db in (twins.whole, twins.cut))
    keys = twins.cut.keys(whole.task.entity_table)
    assert keys is not None
    found = [p.predict(keys.column(0), at=twins.at).table for p in (whole, cut)]
    same_bits(*found)
    same_bits(*(p.predict(at=twins.at).table for p in (whole, cut)))  # everyone
    # Values are clamped and may all be one number after a few steps; vectors show what the model
    # saw.
    vectors = [p.embed(keys.column(0), at=twins.at) for p in (whole, cut)]
    same_bits(*(made.table for made in vectors))
    assert vectors[0].vectors.std(0).max() > 1e-3
    later = whole.embed(keys.column(0), at=twins.at + pd.Timedelta(days=9))
    assert not np.array_equal(later.vectors, vectors[0].vectors), (
        "the hostile rows are there to be seen, later"
    )


@pytest.mark.parametrize("name", ["binary", "products"])
def test_many_seed_times(twins: Twins, run_of: Callable[[str], Run], name: str) -> None:
    whole, cut = (Predictor(run_of(name), db, batch_size=64) for db in (twins.whole, twins.cut))
    keys = twins.cut.keys(whole.task.entity_table)
    assert keys is not None
    random = np.random.default_rng(0)
    frame = keys.to_pandas().sample(200, replace=True, random_state=0).reset_index(drop=True)
    # products are timeless, customers sign up
    back = random.integers(0, 40 * 86_400, len(frame)) * (name == "products")
    frame["when"] = twins.at.floor("s") - pd.to_timedelta(back, unit="s")
    same_bits(*(p.predict(frame=frame).table for p in (whole, cut)))


def test_sources_are_opened_without_guessing_from_later_rows(twins: Twins, binary_run: Run) -> None:
    """The same through the addresses, with keys and times that are not stated but taken from the
    run."""
    found = [
        Predictor(binary_run, twins.url(name)).predict(at=twins.at).table
        for name in ("whole", "cut")
    ]
    same_bits(*found)
    same_bits(found[0], Predictor(binary_run, twins.whole).predict(at=twins.at).table)


@pytest.mark.parametrize("visibility", ["seed-time", "frozen"])
def test_training_does_not_know_it_either(twins: Twins, tmp_path: Path, visibility: Any) -> None:
    """A task whose windows end before the cut: the same weights, and so the same predictions."""
    runs = {
        name: tiny_run(db, twins.task("binary", db), tmp_path / name, visibility=visibility)
        for name, db in (("whole", twins.whole), ("cut", twins.cut))
    }
    weights = {name: run.weights() for name, run in runs.items()}
    assert all(
        torch.equal(tensor, weights["cut"][name]) for name, tensor in weights["whole"].items()
    )
    assert runs["whole"].record.metrics == runs["cut"].record.metrics
    assert runs["whole"].statistics == runs["cut"].statistics
    same_bits(
        Predictor(runs["whole"], twins.cut).predict(at=twins.at).table,
        Predictor(runs["cut"], twins.whole).predict(at=twins.at).table,
    )


def test_random_orders_and_structure_noise(twins: Twins, tmp_path: Path) -> None:
    changes = {
        "sampling.order": "random",
        "sampling.budget": 16,
        "model.encoders": ("table", "hop", "age", "row", "structure"),
    }
    run = tiny_run(twins.whole, twins.task("binary"), tmp_path / "run", changes)
    same_bits(*(Predictor(run, db).predict(at=twins.at).table for db in (twins.whole, twins.cut)))


@pytest.mark.parametrize("visibility", ["frozen", "seed-time"])
def test_formula_one(relbench_data: Callable[[str], Path], tmp_path: Path, visibility: Any) -> None:
    """rel-f1, trained whole; the cut folder ends at the time, the other goes on with rows that are
    made hostile."""
    folder, at = relbench_data("rel-f1"), pd.Timestamp("2008-07-01")
    for name in ("cut", "hostile"):
        _copy(folder, tmp_path / name, at, is_cut=name == "cut")
    db = gelgt.open(folder)
    run = tiny_run(db, db.task("driver-dnf"), tmp_path / "run", visibility=visibility)
    found = {
        name: Predictor(run, tmp_path / name).predict(at=at).table for name in ("cut", "hostile")
    }
    same_bits(found["cut"], found["hostile"])
    same_bits(found["cut"], Predictor(run, db).predict(at=at).table)
    assert spread(found["cut"]) > 1e-4
    later = Predictor(load_run(run.folder), tmp_path / "hostile").predict(at="2012-07-01").table
    assert not later.drop_columns("time").equals(found["hostile"].drop_columns("time"))


def _copy(folder: Path, target: Path, at: pd.Timestamp, is_cut: bool) -> None:
    (target / "db").mkdir(parents=True)
    shutil.copy(folder / "manifest.yaml", target)
    for path in (folder / "db").glob("*.parquet"):
        table = pq.read_table(path)
        if "date" in table.column_names and path.stem != "drivers":
            later = pc.greater(
                table.column("date"), pa.scalar(at.to_pydatetime(), table.schema.field("date").type)
            )
            table = table.filter(pc.invert(later)) if is_cut else _hostile(table, later)
        pq.write_table(table, target / "db" / path.name)


def _hostile(table: pa.Table, later: pa.Array) -> pa.Table:
    keys = {name for name in table.column_names if name.endswith("Id")} | {"date"}
    for place, field in enumerate(table.schema):
        if field.name not in keys and pa.types.is_floating(field.type):
            table = table.set_column(
                place,
                field.name,
                pc.if_else(later, pa.scalar(1e9, field.type), table.column(place)),
            )
    return table
