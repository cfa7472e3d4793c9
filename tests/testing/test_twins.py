"""Twins have exactly the schemas and tasks of the databases that they stand for, and rows and
labels that nobody could know too early."""

import filecmp
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

import gelgt
from gelgt.testing.twins import TWINS, make_twin, twin_tasks
from gelgt.testing.twins.facts import read_facts

SCHEMAS = Path(__file__).parents[3] / "shared" / "relbench_schemas.yaml"
SPLITS = ("train", "val", "test")
Twin = Callable[[str], Path]
Open = Callable[[str], gelgt.Database]

every_twin = pytest.mark.parametrize("name", TWINS)

# A clock without a date, which gelgt knows as a category.
OTHER_KINDS = {("races", "time"): "categorical"}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    """The published schemas, independent of the package's own files."""
    if not SCHEMAS.is_file():
        pytest.skip(
            "needs relbench_schemas.yaml, the list of RelBench's schemas, in shared/ beside the "
            "checkout"
        )
    found: dict[str, Any] = yaml.safe_load(SCHEMAS.read_text(encoding="utf-8"))["datasets"]
    return found


# Schemas.
def test_every_database_has_a_twin(schemas: dict[str, Any]) -> None:
    assert sorted(schemas) == sorted(TWINS)
    assert len(TWINS) == 9


@every_twin
def test_tables_keys_times_and_kinds(name: str, database: Open, schemas: dict[str, Any]) -> None:
    published, db = schemas[name], database(name)
    assert (db.schema.val_timestamp, db.schema.test_timestamp) == (
        published["val_timestamp"],
        published["test_timestamp"],
    )
    assert db.table_names == list(published["tables"])
    for table, spec in published["tables"].items():
        found = db.table(table)
        assert (found.pkey, found.time_col) == (spec["pkey"], spec["time_col"]), table
        assert {fk.column: fk.table for fk in found.foreign_keys} == spec["fkeys"], table
        assert list(found.columns) == list(spec["columns"]), table
        features = {
            c: k for c, k in spec["columns"].items() if c != spec["pkey"] and c not in spec["fkeys"]
        }
        kinds = {
            c: OTHER_KINDS.get((table, c), "ignored" if k == "id" else k)
            for c, k in features.items()
        }
        assert {c: k.kind for c, k in found.kinds.items()} == kinds, table
    assert db.follows_contract


def test_columns_and_types_of_a_real_database(
    database: Open, relbench_data: Callable[[str], Path]
) -> None:
    ours, real = database("rel-f1"), gelgt.open(relbench_data("rel-f1"))
    assert ours.table_names == real.table_names
    for name in real.table_names:
        mine, theirs = ours.table(name), real.table(name)
        assert dict(mine.columns) == dict(theirs.columns), name
        assert (mine.pkey, mine.time_col, len(mine.foreign_keys)) == (
            theirs.pkey,
            theirs.time_col,
            len(theirs.foreign_keys),
        ), name


@every_twin
def test_null_references_where_they_are_known(
    name: str, twin: Twin, schemas: dict[str, Any]
) -> None:
    for table, spec in schemas[name]["tables"].items():
        rows = pq.read_table(twin(name) / "db" / f"{table}.parquet")
        if spec["nullable_fkeys"] == {}:
            assert all(rows.column(key).null_count == 0 for key in spec["fkeys"]), table
        for key, reason in (spec["nullable_fkeys"] or {}).items():
            assert reason is None or rows.column(key).null_count > 0, (table, key)


@every_twin
def test_tasks(name: str, database: Open, schemas: dict[str, Any]) -> None:
    db, published = database(name), {task["name"]: task for task in schemas[name]["tasks"]}
    assert list(twin_tasks(name, recommendations=True)) == list(published)
    assert list(twin_tasks(name)) == [
        task for task, spec in published.items() if spec["task_type"] != "recommendation"
    ]
    for task_name, spec in published.items():
        task = db.task(task_name)
        is_link = spec["task_type"] == "recommendation"
        assert task.kind == ("forecast" if is_link else spec["kind"]), task_name
        assert (task.task_type, task.entity_table, task.entity_col) == (
            spec["task_type"],
            spec["entity_table"],
            spec["entity_col"],
        )
        assert (task.label_col, task.time_col) == (
            spec["dst_entity_col" if is_link else "target_col"],
            spec["time_col"],
        )
        assert (task.dst_entity_table, task.eval_k) == (
            spec.get("dst_entity_table"),
            spec.get("eval_k"),
        )
        if task.kind == "forecast":
            assert task.timedelta == pd.Timedelta(days=spec["timedelta_days"])
            assert task.num_eval_timestamps == spec["num_eval_timestamps"]
        else:
            hidden = [tuple(pair) for pair in spec["remove_columns"]] + [
                (spec["entity_table"], spec["target_col"])
            ]
            assert sorted(task.remove_columns) == sorted(hidden)


# Rows.
def test_the_same_seed_gives_the_same_files(twin: Twin, tmp_path: Path) -> None:
    again, other = (
        make_twin("rel-stack", tmp_path / "again"),
        make_twin("rel-stack", tmp_path / "other", seed=1),
    )
    files = [str(path.relative_to(again)) for path in again.rglob("*") if path.is_file()]
    assert len(files) == 1 + len(read_facts("rel-stack").tables) + 4 * len(
        twin_tasks("rel-stack", recommendations=True)
    )
    assert filecmp.cmpfiles(twin("rel-stack"), again, files, shallow=False) == (files, [], [])
    assert not filecmp.cmp(
        again / "db" / "votes.parquet", other / "db" / "votes.parquet", shallow=False
    )


def test_scale(database: Open, tmp_path: Path) -> None:
    larger = gelgt.open(make_twin("rel-hm", tmp_path / "hm", scale=2))
    small = database("rel-hm")
    assert {t: larger.num_rows(t) for t in larger.table_names} == {
        t: 2 * small.num_rows(t) for t in small.table_names
    }


@every_twin
def test_references_do_not_point_ahead(name: str, twin: Twin) -> None:
    """A row refers to rows of its own time or before, but for references that are known to point at
    what is to come."""
    facts = read_facts(name)
    tables = {
        table: pq.read_table(twin(name) / "db" / f"{table}.parquet") for table in facts.tables
    }
    times = {
        t.name: tables[t.name].column(t.time_col).to_numpy()
        for t in facts.tables.values()
        if t.time_col
    }
    for table in facts.tables.values():
        for key, parent in table.fkeys.items():
            if table.time_col is None or parent not in times:
                continue
            rows = tables[table.name].column(key)
            own, theirs = (
                times[table.name][pc.is_valid(rows).to_numpy()],
                times[parent][rows.drop_null().to_numpy()],
            )
            ahead = np.count_nonzero(theirs > own)  # never true of a null time
            # A qualifying is a day before its race; an event is shown before it takes place.
            is_expected = key in table.generate.get("future_keys", ()) or (
                key == table.generate.get("time_from") and "time_shift" in table.generate
            )
            assert (ahead > 0) == is_expected, (table.name, key)
            assert parent != table.name or (theirs < own).all()


def test_the_awkward_parts_are_there(twin: Twin) -> None:
    """What real databases do to those who read them."""

    def column(name: str, table: str, of: str) -> Any:
        return pq.read_table(twin(name) / "db" / f"{table}.parquet").column(of)

    assert column("rel-event", "users", "joinedAt").null_count > 0
    years = pc.year(column("rel-event", "events", "start_time")).drop_null().to_pylist()
    assert (min(years), max(years)) == (1912, 2035)
    assert column("rel-trial", "studies", "limitations_and_caveats").null_count == len(
        column("rel-trial", "studies", "nct_id")
    )
    assert set(column("rel-trial", "studies", "has_dmc").to_pylist()) == {"t", "f", None}
    assert set(column("rel-avito", "SearchStream", "IsClick").to_pylist()) == {0.0, 1.0, None}
    assert set(column("rel-hm", "customer", "FN").to_pylist()) == {1.0, None}
    assert "\\N" in column("rel-f1", "drivers", "code").to_pylist()
    assert "" in column("rel-avito", "SearchInfo", "SearchQuery").to_pylist()
    parents, types = (
        column("rel-stack", "posts", "ParentId"),
        column("rel-stack", "posts", "PostTypeId").to_pylist(),
    )
    assert {types[parent] for parent in parents.drop_null().to_pylist()} == {1}
    assert {kind for kind, parent in zip(types, parents.to_pylist()) if parent is not None} == {2}


# Labels.
@every_twin
def test_labels_lie_in_their_splits(name: str, database: Open) -> None:
    db = database(name)
    val, test = np.datetime64(str(db.val_timestamp)), np.datetime64(str(db.test_timestamp))
    for task_name in twin_tasks(name, recommendations=True):
        task = db.task(task_name)
        times = {split: task.table(split).column(task.time_col).to_numpy() for split in SPLITS}
        if task.kind == "autocomplete":
            assert (times["train"] <= val).all()
            assert ((times["val"] > val) & (times["val"] <= test)).all()
            assert (times["test"] > test).all()
            continue
        window = np.timedelta64(task.timedelta)
        assert (times["train"] <= val - window).all(), "no label reaches over the validation time"
        assert ((times["val"] >= val) & (times["val"] <= test - window)).all(), (
            "nor over the test time"
        )
        assert (times["test"] >= test).all()
        assert all(
            len(np.unique(times[split])) <= task.num_eval_timestamps for split in ("val", "test")
        )


@every_twin
def test_there_is_something_to_tell_apart(name: str, database: Open) -> None:
    db = database(name)
    for task_name in twin_tasks(name):
        task = db.task(task_name)
        for split in SPLITS:
            assert len(task.table(split).column(task.label_col).unique()) > 1, (task_name, split)


# RelBench's own loader.
@every_twin
@pytest.mark.filterwarnings("ignore:Column description_score not found")
def test_relbench_reads_them_and_makes_the_same_labels(name: str, twin: Twin) -> None:
    import relbench

    dataset = relbench.load_dataset(twin(name))
    assert dataset.get_task_names() == sorted(twin_tasks(name, recommendations=True))
    known, every = dataset.get_db(), dataset.get_db(upto_test_timestamp=False)
    assert {t: len(known.table_dict[t].df) for t in known.table_dict} != {
        t: len(every.table_dict[t].df) for t in every.table_dict
    }
    for task_name in twin_tasks(name, recommendations=True):
        stored, made = dataset.load_task(task_name), dataset.load_task(task_name, regenerate=True)
        whole = every if stored.kind == "forecast" else made.get_db(upto_test_timestamp=False)
        for split in SPLITS:
            ours = stored.get_table(split, mask_input_cols=False).df
            theirs = made.get_table(split, mask_input_cols=False, db=whole).df
            pd.testing.assert_frame_equal(
                ours, theirs.reset_index(drop=True), check_dtype=False, obj=f"{task_name} {split}"
            )
