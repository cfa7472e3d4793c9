"""What a process may use, and errors before work that would need more."""

from pathlib import Path

import pandas as pd
import pytest

import gelgt
from gelgt import memory
from gelgt.errors import GelgtError
from gelgt.memory import available_memory, byte_count, check_memory
from gelgt.scoring.memory import needed_memory
from gelgt.sources.duckdb_engine import limits

FIRST = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
SECOND = ("memory.max", "memory.current", "")


def cgroup(folder: Path, names: tuple[str, str, str], limit: str) -> None:
    """A cgroup that holds 700 bytes, 200 of which are pages of files."""
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text("700\n")
    stat = f"anon 500\n{names[2]}inactive_file 190\n{names[2]}active_file 10\n"
    (folder / "memory.stat").write_text(stat)


@pytest.fixture
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(memory.VARIABLE, raising=False)


def test_a_cgroup_leaves_its_limit_less_what_is_used_and_cannot_be_given_back(
    tmp_path: Path,
) -> None:
    for names in (FIRST, SECOND):
        cgroup(tmp_path, names, "1000")
        assert memory._left(tmp_path, *names) == 500
        cgroup(tmp_path, names, "max")
        assert memory._left(tmp_path, *names) is None
        assert memory._left(tmp_path / "none", *names) is None


@pytest.mark.usefixtures("no_variable")
def test_the_smallest_limit_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_machine", lambda: 5000)
    monkeypatch.setattr(memory, "_cgroups", lambda: [None, 3000, 9000])
    assert 3000 < (available_memory() or 0) < 3000 + (8 << 30)  # with what is held already
    monkeypatch.setattr(memory, "_machine", lambda: None)
    monkeypatch.setattr(memory, "_cgroups", list)
    assert available_memory() is None
    check_memory(2**60, "Anything")  # a system that says nothing refuses nothing


def test_the_variable_replaces_what_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.VARIABLE, "3GiB")
    assert available_memory() == 3 << 30
    check_memory(3 << 30, "Work")
    with pytest.raises(GelgtError, match=r"Work needs about 4.0 GiB .* 3.0 GiB are") as caught:
        check_memory(4 << 30, "Work")
    assert caught.value.code == "too_little_memory"
    assert "GELGT_MEMORY=4.1GiB" in caught.value.hint


@pytest.mark.parametrize("text", ["2", "GiB", "0GiB", "-1GiB", "much"])
def test_what_is_no_amount_of_memory_is_refused(text: str) -> None:
    with pytest.raises(GelgtError, match="not an amount of memory"):
        byte_count(text)


def test_duckdb_gets_half_of_what_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(memory.VARIABLE, "1GiB")
    assert limits(2 * 10**9)["memory_limit"] == f"{2**29 // 10**6}MB"
    monkeypatch.setenv(memory.VARIABLE, "1MiB")
    assert limits(2 * 10**9)["memory_limit"] == "256MB"
    monkeypatch.setenv(memory.VARIABLE, "64GiB")
    assert limits(2 * 10**9)["memory_limit"] == "2000MB"


def test_too_little_memory_is_an_error_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = pd.DataFrame({"id": [1, 2], "placed_at": pd.date_range("2024-01-01", periods=2)})
    db = gelgt.open({"orders": orders}, out=tmp_path / "enough")
    assert needed_memory(db, 1_000_000) - needed_memory(db, 0) == 1_500 * 1_000_000
    monkeypatch.setenv(memory.VARIABLE, "100MiB")
    with pytest.raises(GelgtError) as caught:
        gelgt.open({"orders": orders}, out=tmp_path / "short")
    assert caught.value.code == "too_little_memory"
    assert [path.name for path in tmp_path.iterdir()] == ["enough"]


def test_an_import_that_runs_out_of_memory_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import duckdb

    from gelgt.sources import importer

    def exhausted(*arguments: object) -> None:
        raise duckdb.OutOfMemoryException("failed to pin a block\nPossible solutions: …")

    monkeypatch.setattr(importer, "check_keys", exhausted)
    with pytest.raises(GelgtError) as caught:
        gelgt.open({"things": pd.DataFrame({"id": [1, 2]})}, out=tmp_path / "out")
    assert caught.value.code == "too_little_memory"
    assert "failed to pin a block" in caught.value.message
    assert memory.VARIABLE in caught.value.hint
    assert list(tmp_path.glob("*out*")) == []


def test_duckdb_gets_a_thread_for_each_gigabyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for amount, threads in (("1GiB", 1), ("3GiB", 1), ("64GiB", 2)):
        monkeypatch.setenv(memory.VARIABLE, amount)
        assert limits(2 * 10**9)["threads"] == threads
