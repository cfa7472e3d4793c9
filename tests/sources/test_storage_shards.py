"""Predictions in parts with their output in object storage that fails now and then: the bytes of a
local folder, whoever is interrupted, and nothing of another question mixed in."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from storage_server import Fault

from gelgt.errors import GelgtError
from gelgt.inference.part_folder import ObjectFolder, part_folder
from gelgt.inference.plan import PLAN, SUCCESS, Plan, agree, commit_name, part_name, read_commits
from gelgt.inference.shards import committed, finish, is_finished, missing, write_part

SHARDS = 4


def plan_of(**changes: Any) -> Plan:
    values = {
        "shards": SHARDS,
        "entities": 40,
        "at": "2025-01-01T00:00:00",
        "model": "m" * 32,
        "data": "d" * 32,
        "options": {"k": None},
        "version": "1",
    }
    return Plan(**{**values, **changes})


def tables(number: int) -> list[pa.Table]:
    """The predictions of a part."""
    ids = list(range(10 * number, 10 * number + 10))
    return [pa.table({"id": ids, "prediction": [0.1 * i for i in ids]})]


def make(folder: Any, plan: Plan) -> None:
    agree(folder, plan)
    for number in missing(folder, plan):
        write_part(folder, plan, number, 10, tables(number))
    finish(folder, plan)


def parts(s3: Any, prefix: str) -> dict[str, bytes]:
    keys = [key for key in s3.keys(prefix) if "/part-" in key]
    return {key.rpartition("/")[2]: s3.get(key) for key in keys}


@pytest.fixture
def local(tmp_path: Path) -> dict[str, bytes]:
    """The parts of a local folder."""
    make(tmp_path / "local", plan_of())
    return {path.name: path.read_bytes() for path in sorted((tmp_path / "local").glob("part-*"))}


def test_the_bytes_of_a_folder_whatever_fails(s3: Any, local: dict[str, bytes]) -> None:
    """Each kind of request fails once, and each is made again."""
    s3.faults += [
        Fault("GET", "list-type=2", 500, times=1),
        Fault("HEAD", PLAN, 500, times=1, skip=1),
        Fault("PUT", "part-00001", 500, times=1),
        Fault("POST", "part-00002", "stall", times=1),
        Fault("PUT", commit_name(2, SHARDS), 503, times=1),
        Fault("POST", SUCCESS, 500, times=1),
    ]
    make(s3.address("churn"), plan_of())
    assert [fault.times for fault in s3.faults] == [0] * 6
    assert parts(s3, "churn") == local
    assert is_finished(s3.address("churn"))
    assert len(s3.keys("churn")) == 2 * SHARDS + 2  # nothing temporary
    order = [path for method, path in s3.requests if method == "POST" and "uploadId" in path]
    names = [path.partition("?")[0].rpartition("/")[2] for path in order]
    assert (names[0], names[-1]) == (PLAN, SUCCESS)
    for number in range(SHARDS):
        assert names.index(part_name(number, SHARDS)) < names.index(commit_name(number, SHARDS))


def test_what_fails_for_good_is_an_error_and_goes_on_later(
    s3: Any, local: dict[str, bytes]
) -> None:
    folder, plan = s3.address("churn"), plan_of()
    s3.faults.append(Fault("POST", part_name(2, SHARDS), 500))
    with pytest.raises(GelgtError) as caught:
        make(folder, plan)
    assert caught.value.code == "storage_failed"
    assert part_name(2, SHARDS) in caught.value.message
    assert missing(folder, plan) == [2, 3]
    assert not finish(folder, plan)
    s3.faults.clear()
    made = len(s3.requests)
    make(folder, plan)
    assert parts(s3, "churn") == local
    again = {path for method, path in s3.requests[made:] if method == "PUT"}
    assert not any(part_name(number, SHARDS) in path for number in (0, 1) for path in again)


def test_a_part_without_its_commit_record_is_made_again(s3: Any, local: dict[str, bytes]) -> None:
    folder, plan = s3.address("churn"), plan_of()
    make(folder, plan)
    s3.delete(f"churn/{commit_name(0, SHARDS)}")
    s3.put(f"churn/{commit_name(1, SHARDS)}", b"{")
    s3.delete(f"churn/{part_name(2, SHARDS)}")
    s3.put(f"churn/{part_name(3, SHARDS)}", b"short")
    assert missing(folder, plan) == [0, 1, 2, 3]
    make(folder, plan)
    assert parts(s3, "churn") == local
    # of the right size, and not what was written: the version tells
    body = local[part_name(1, SHARDS)]
    s3.put(f"churn/{part_name(1, SHARDS)}", body[:-8] + bytes(8))
    with pytest.raises(GelgtError, match="was changed after it was written"):
        finish(folder, plan)
    assert missing(folder, plan) == [1]
    # the same bytes by another upload, with another version
    make(folder, plan)
    s3.put(f"churn/{part_name(1, SHARDS)}", body)
    assert finish(folder, plan)


@pytest.mark.slow
def test_two_processes_that_make_the_same_parts(s3: Any, local: dict[str, bytes]) -> None:
    folder, plan = s3.address("churn"), plan_of()
    processes = [subprocess.Popen(command(folder)) for _ in range(2)]
    assert [process.wait(60) for process in processes] == [0, 0]
    assert is_finished(folder)
    assert parts(s3, "churn") == local
    assert len(read_commits(folder, plan)) == SHARDS


def test_two_plans_at_once_are_never_mixed(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look when there is none; the later one stays, and the other does not finish."""
    folder, mine, other = s3.address("churn"), plan_of(), plan_of(model="o" * 32)
    send, before = ObjectFolder.write, [json.dumps(other.model_dump())]

    def write(self: ObjectFolder, name: str, text: str) -> None:
        while before:
            send(self, PLAN, before.pop())
        send(self, name, text)

    monkeypatch.setattr(ObjectFolder, "write", write)
    agree(folder, mine)  # wrote after the other one
    with pytest.raises(GelgtError) as caught:
        agree(folder, other)
    assert caught.value.code == "model_mismatch"
    for number in range(SHARDS):
        write_part(folder, mine, number, 10, tables(number))
    ObjectFolder(folder).write(PLAN, json.dumps(other.model_dump()))  # as if it had come last
    for plan in (mine, other):
        with pytest.raises(GelgtError) as caught:
            finish(folder, plan)
        assert caught.value.code == "model_mismatch"
    assert not is_finished(folder)


def test_errors_name_the_place(s3: Any) -> None:
    with pytest.raises(GelgtError) as caught:
        agree("s3://no-such-bucket/churn", plan_of())
    assert (caught.value.code, "no-such-bucket" in caught.value.message) == ("not_found", True)
    with pytest.raises(GelgtError) as caught:
        committed(s3.address("nothing"))
    assert (caught.value.code, s3.address("nothing") in caught.value.message) == ("no_parts", True)
    s3.put("used/orders.csv", b"id\n1\n")
    with pytest.raises(GelgtError) as caught:
        agree(s3.address("used"), plan_of())
    assert caught.value.code == "folder_in_use"
    s3.faults.append(Fault("PUT", PLAN, 403))
    with pytest.raises(GelgtError) as caught:
        agree(s3.address("churn"), plan_of())
    assert caught.value.code == "no_access"
    with pytest.raises(GelgtError) as caught:
        part_folder("s3://AKIA:secret@bucket/churn")
    assert caught.value.code == "bad_address"
    assert "secret" not in str(caught.value)


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from test_storage_shards import make, plan_of
make(sys.argv[2], plan_of())
"""


def command(folder: str) -> list[str]:
    """Makes all parts, in a process of its own."""
    return [sys.executable, "-c", SCRIPT, str(Path(__file__).parent), folder]


def test_killed_and_started_again(s3: Any, local: dict[str, bytes], tmp_path: Path) -> None:
    folder = s3.address("churn")
    s3.faults.append(Fault("POST", f"{part_name(2, SHARDS)}?uploadId", "stall", times=1))
    environment = {**os.environ, "GELGT_STORAGE_TIMEOUT": "30", "GELGT_CACHE": str(tmp_path / "c")}
    process = subprocess.Popen(command(folder), env=environment)
    end = time.monotonic() + 60
    while s3.faults[0].times:
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    s3.over.set()
    assert missing(folder, plan_of()) == [2, 3]
    s3.over.clear()
    make(folder, plan_of())
    assert parts(s3, "churn") == local


def test_the_table_is_that_of_all_parts(s3: Any, local: dict[str, bytes], tmp_path: Path) -> None:
    make(s3.address("churn"), plan_of())
    for name, body in parts(s3, "churn").items():
        (tmp_path / name).write_bytes(body)
    read = pd.concat(pd.read_parquet(path) for path in sorted(tmp_path.glob("part-*")))
    assert list(read["id"]) == list(range(40))
