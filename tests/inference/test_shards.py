"""Predictions in parts: every entity once, the same bits whatever the parts, whoever is killed and
started again; nothing of another model, data, time or options is mixed in."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forked import Forked
from gelgt import Database
from gelgt.inference import Predictor, Recommend, SeedRows, write_predictions
from gelgt.inference.fingerprints import data_fingerprint
from gelgt.inference.part_scorer import PartScorer, Question
from gelgt.inference.plan import Plan, agree, commit_name, part_name
from gelgt.inference.shards import Division, committed, finish, is_finished, missing
from gelgt.training import Run

from .conftest import Twins, failure


@pytest.fixture(scope="module")
def question(twins: Twins, binary_run: Run) -> Question:
    return Question(str(binary_run.folder), twins.url("whole"), at=str(twins.at), device="cpu")


@pytest.fixture(scope="module")
def scorer(question: Question) -> PartScorer:
    return PartScorer(question)


def make(scorer: PartScorer, folder: Path, shards: int, only: list[int] | None = None) -> Plan:
    plan = scorer.plan(shards)
    agree(folder, plan)
    for number in missing(folder, plan) if only is None else only:
        scorer.write(folder, plan, number)
    finish(folder, plan)
    return plan


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("part-*"))}


# Which entity is in which part.
class _Keys:
    """The keys of a table, row by row, in place of a database."""

    def __init__(self, keys: list[Any]) -> None:
        parts = list(zip(*keys)) if isinstance(keys[0], tuple) else [keys]
        self.keys = pa.table({f"key {i}": pa.array(list(part)) for i, part in enumerate(parts)})

    def keys_of(self, table: str, rows: np.ndarray) -> pa.Table:
        return self.keys.take(pa.array(rows))


def divided(keys: list[Any]) -> Division:
    count = len(keys)
    rows = SeedRows(np.arange(count), np.zeros(count, np.int64))
    return Division(cast(Database, _Keys(keys)), "table", rows)


KEY_LISTS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True),
    st.lists(st.text(), min_size=1, unique=True),
    st.lists(st.dates(), min_size=1, unique=True),
    st.lists(st.tuples(st.integers(0, 9), st.text()), min_size=1, unique=True),
)


@given(keys=KEY_LISTS, shards=st.integers(1, 40), seed=st.integers(0, 9))
def test_every_key_is_in_one_part_whatever_its_row(keys: list[Any], shards: int, seed: int) -> None:
    shuffled = random.Random(seed).sample(keys, len(keys))
    parts = []
    for order in (keys, shuffled):
        division = divided(order)
        rows = [division.part(number, shards).rows.tolist() for number in range(shards)]
        assert sorted(chain(*rows)) == list(range(len(order)))
        parts.append([[order[row] for row in part] for part in rows])
        assert division.rows.tolist() == list(
            chain(*rows)
        )  # behind each other: the order of hashes
    assert parts[0] == parts[1]


@given(count=st.integers(1, 300), shards=st.integers(1, 40), size=st.integers(1, 50))
def test_batches_of_parts_are_batches_of_the_whole(count: int, shards: int, size: int) -> None:
    division = divided(list(range(count)))
    for number in range(shards):
        own = division.part(number, shards).rows.tolist()
        seeds, before = division.batches(number, shards, size)
        assert seeds.rows.tolist()[before : before + len(own)] == own
        start = division.rows.tolist().index(own[0]) - before if own else 0
        assert start % size == 0
        assert len(seeds) % size == 0 or start + len(seeds) == count or not own


# What the parts hold.
def test_parts_are_the_predictions_of_everyone(
    scorer: PartScorer, twins: Twins, tmp_path: Path
) -> None:
    plain = scorer.predictor.predict(at=twins.at).to_pandas().sort_values("id", ignore_index=True)
    whole = None
    for shards in (1, 3, 50):  # of 50 parts some are empty
        folder = tmp_path / str(shards)
        make(scorer, folder, shards)
        found = pd.read_parquet(folder)  # skips the records
        pd.testing.assert_frame_equal(
            found.sort_values("id", ignore_index=True), plain, rtol=1e-6, check_exact=False
        )
        whole = found if whole is None else whole
        pd.testing.assert_frame_equal(found, whole, check_exact=True)
        assert is_finished(folder)
    assert len(plain) > 50
    assert plain["id"].is_unique


def test_recommendations_in_parts(
    twins: Twins, run_of: Callable[[str], Run], tmp_path: Path
) -> None:
    run = run_of("recommendation")
    question = Question(
        str(run.folder),
        twins.url("whole"),
        at=str(twins.at),
        device="cpu",
        recommend=Recommend(k=3, new_only=True),
    )
    scorer = PartScorer(question)
    found = []
    for shards in (1, 4):
        make(scorer, tmp_path / str(shards), shards)
        found.append(pd.read_parquet(tmp_path / str(shards)))
    pd.testing.assert_frame_equal(*found, check_exact=True)
    plain = scorer.predictor.predict(at=twins.at, recommend=question.recommend).to_pandas()
    order = ["id", "rank"]
    assert found[0].sort_values(order)["sku"].tolist() == plain.sort_values(order)["sku"].tolist()


def test_rows_that_have_times_of_their_own(
    twins: Twins, run_of: Callable[[str], Run], tmp_path: Path
) -> None:
    scorer = PartScorer(
        Question(str(run_of("autocomplete").folder), twins.url("whole"), device="cpu"),
        must_have_time=True,
    )
    assert make(scorer, tmp_path / "out", 3).at is None
    found = pd.read_parquet(tmp_path / "out")
    assert found["time"].nunique() > 10
    plain = scorer.predictor.predict().to_pandas()
    assert sorted(zip(found["id"], found["time"])) == sorted(zip(plain["id"], plain["time"]))


# Interrupted, twice at once, damaged.
def test_only_what_is_missing_is_made(scorer: PartScorer, tmp_path: Path) -> None:
    plan = make(scorer, tmp_path, 4, only=[2])
    first = (tmp_path / part_name(2, 4)).stat().st_mtime_ns
    assert missing(tmp_path, plan) == [0, 1, 3]
    assert not is_finished(tmp_path)
    make(scorer, tmp_path, 4)
    assert (tmp_path / part_name(2, 4)).stat().st_mtime_ns == first
    assert is_finished(tmp_path)
    assert sum(commit.entities for commit in committed(tmp_path)[1]) == plan.entities


def test_a_part_without_its_commit_record_is_made_again(scorer: PartScorer, tmp_path: Path) -> None:
    plan = make(scorer, tmp_path, 3)
    before = files(tmp_path)
    (tmp_path / commit_name(0, 3)).unlink()
    (tmp_path / commit_name(1, 3)).write_text("{")
    (tmp_path / part_name(2, 3)).unlink()
    assert missing(tmp_path, plan) == [0, 1, 2]
    make(scorer, tmp_path, 3)
    assert files(tmp_path) == before


def test_changed_bytes_are_noticed_and_made_again(scorer: PartScorer, tmp_path: Path) -> None:
    plan = make(scorer, tmp_path, 2)
    before = files(tmp_path)
    path = tmp_path / part_name(1, 2)
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert failure(lambda: finish(tmp_path, plan)).code == "damaged_part"
    assert missing(tmp_path, plan) == [1]
    make(scorer, tmp_path, 2)
    assert files(tmp_path) == before


def test_several_at_once(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    make(scorer, tmp_path / "alone", 3)
    others = [scorer, *(PartScorer(question) for _ in range(2))]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda each: make(each, tmp_path / "out", 3, [0, 1, 2]), others))
    assert files(tmp_path / "out") == files(tmp_path / "alone")
    assert is_finished(tmp_path / "out")


def words(question: Question, folder: Path, *more: str) -> list[str]:
    """Of a `gelgt predict`."""
    source = ["--source", str(question.source), "--at", str(question.at), "--device", "cpu"]
    return ["predict", question.run, "--all", "--out", str(folder), *source, *more]


def command(question: Question, folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "gelgt", *words(question, folder, *more)]


def test_killed_and_started_again(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    make(scorer, tmp_path / "alone", 24)
    folder, rng, kills = tmp_path / "out", random.Random(5), 0
    for _ in range(30):
        with Forked(*words(question, folder, "--shards", "24")) as process:
            until = len(list(folder.glob("part-*"))) + rng.randint(1, 8)
            while process.poll() is None and len(list(folder.glob("part-*"))) < until:
                time.sleep(0.001)
            if process.poll() is not None:
                break
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills += 1
    assert process.returncode == 0
    assert kills >= 3
    assert files(folder) == files(tmp_path / "alone")
    assert is_finished(folder)


def test_one_part_for_each_job(question: Question, scorer: PartScorer, tmp_path: Path) -> None:
    make(scorer, tmp_path / "alone", 2)
    folder = tmp_path / "out"
    for number in (1, 0):
        assert not is_finished(folder)
        done = subprocess.run(
            command(question, folder, "--shard", f"{number}/2", "--json"),
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout)["made"] == [number]
    assert json.loads(done.stdout)["is_finished"]
    assert files(folder) == files(tmp_path / "alone")


# Refused.
def test_other_predictions_are_not_mixed_in(
    question: Question, scorer: PartScorer, twins: Twins, tmp_path: Path
) -> None:
    make(scorer, tmp_path, 2, only=[0])
    plan = scorer.plan(2)
    later = {"at": "2030-01-01T00:00:00"}
    for code, change in (
        ("time_mismatch", later),
        ("model_mismatch", {"model": "0" * 32}),
        ("data_mismatch", {"data": "0" * 32}),
        ("version_mismatch", {"version": "0.0.1"}),
        ("options_mismatch", {"options": {**plan.options, "interval": 0.9}}),
        ("options_mismatch", {"shards": 3}),
    ):
        error = failure(lambda: agree(tmp_path, plan.model_copy(update=change)))  # noqa: B023
        assert error.code == code
        assert "give another folder" in error.hint
    before = files(tmp_path)
    record = json.loads((tmp_path / commit_name(0, 2)).read_text())
    record["plan"]["model"] = "0" * 32  # a part that somebody has put there
    (tmp_path / commit_name(0, 2)).write_text(json.dumps(record))
    assert failure(lambda: missing(tmp_path, plan)).code == "model_mismatch"
    assert failure(lambda: finish(tmp_path, plan)).code == "model_mismatch"
    assert files(tmp_path) == before


def test_another_model_and_other_rows_have_other_fingerprints(
    scorer: PartScorer, twins: Twins, run_of: Callable[[str], Run]
) -> None:
    plan = scorer.plan(1)
    other = PartScorer(
        Question(str(run_of("regression").folder), twins.url("whole"), at=str(twins.at))
    ).plan(1)
    cut = PartScorer(
        Question(scorer.question.run, twins.url("cut"), at=str(twins.at), device="cpu")
    ).plan(1)
    assert other.model != plan.model
    assert (cut.model, cut.data != plan.data) == (plan.model, True)


def test_the_fingerprint_of_rows_does_not_depend_on_their_place(
    twins: Twins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = twins.whole
    copied = Path(shutil.copytree(db.folder, tmp_path / "copy"))
    monkeypatch.setenv("GELGT_CACHE", str(tmp_path / "cache"))
    copy = Database(copied, db.schema, "elsewhere")
    assert data_fingerprint(copy) == data_fingerprint(Database(db.folder, db.schema, "here"))
    path = copied / "db" / "customers.parquet"
    table = Database(copied, db.schema, "elsewhere").read("customers")
    write_predictions([table.slice(0, table.num_rows - 1)], path)
    changed = Database(copied, db.schema, "elsewhere")
    assert data_fingerprint(changed) != data_fingerprint(copy)


def test_a_folder_of_something_else(scorer: PartScorer, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert failure(lambda: agree(tmp_path, scorer.plan(2))).code == "folder_in_use"
    assert failure(lambda: committed(tmp_path)).code == "no_parts"


def test_a_single_shard_needs_a_time(question: Question) -> None:
    without = Question(question.run, question.source, device="cpu")
    error = failure(lambda: PartScorer(without, must_have_time=True))
    assert (error.code, "--at" in error.hint) == ("bad_option", True)


@pytest.mark.skipif(os.name != "posix", reason="limits of a process")
def test_a_full_disk(question: Question, tmp_path: Path) -> None:
    """Files may have 2 KiB: the parts do not fit, what they share does."""
    import resource

    script = "import gelgt.cli; gelgt.cli.main()"
    begun = [sys.executable, "-c", script, *words(question, tmp_path, "--shards", "1")]
    PartScorer(question).plan(1)  # the import and what is made of it are in the cache then
    limit = (2048, 2048)
    done = subprocess.run(
        [*begun, "--json"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert done.returncode == 2, done.stderr
    error = json.loads(done.stdout)["error"]
    assert (error["code"], str(tmp_path) in error["message"]) == ("cannot_write", True), error
    assert files(tmp_path) == {}
    assert committed(tmp_path)[1] == []


def test_predictor_and_parts_agree_on_batches(scorer: PartScorer) -> None:
    predictor: Any = SimpleNamespace(scorer=scorer.predictor.scorer)
    for nodes in (10, 3_999_999, 4_000_000, 10_000_001, 10**9):
        predictor.graph = SimpleNamespace(num_nodes=nodes)
        predictor.batch_size = scorer.predictor.batch_size
        assert Predictor._chunk_size(predictor) % scorer.predictor.batch_size == 0
