"""How many processes an import has, and that its errors and its progress are those of one."""

from pathlib import Path

import pytest

import gelgt
from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.sources import processes
from gelgt.sources.processes import core_count, process_count


def test_few_cores_or_little_memory_leave_it_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "core_count", lambda: 4)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    for load, memory, count in [
        (0.5, "64GiB", 4),
        (0.5, "7GiB", 3),
        (0.5, "3GiB", 1),
        (0.5, "1GiB", 1),
        (9.0, "64GiB", 2),  # more than half of the machine is busy
        (30.0, "64GiB", 1),
    ]:
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        monkeypatch.setenv("GELGT_MEMORY", memory)
        assert process_count() == count


def test_cores_of_a_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)), raising=False)
    for quota, cores in {"max 100000": 8, "250000 100000": 3, "50000 100000": 1, "": 8}.items():
        (tmp_path / "cpu.max").write_text(quota)
        assert core_count() == cores


def test_errors_of_processes_are_those_of_one(
    two: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    (tmp_path / "b.csv").write_text("id,x\n1,2,3\n")
    errors = []
    for count in (2, 1):
        monkeypatch.setattr(processes, "process_count", lambda count=count: count)
        with pytest.raises(GelgtError) as caught:
            gelgt.open(tmp_path)
        errors.append((type(caught.value), caught.value.to_dict()))
    assert errors[0] == errors[1]
    assert two == ["stage"]


@pytest.mark.slow
def test_what_is_read_is_shown(
    small_shop: Shop, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gelgt import meter

    heard: list[str] = []
    monkeypatch.setattr(meter, "AFTER", 0.0)
    code = "import gelgt.meter as m; m.AFTER = 0; from gelgt.sources.worker import main; main()"
    monkeypatch.setattr(processes, "COMMAND", ["-c", code])
    with meter.listening(lambda work: heard.append(work.what)):
        gelgt.open(small_shop.url)
    assert {"reading customers", "sorting customers"} <= set(heard)
