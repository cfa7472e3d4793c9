"""Processes that share a GPU: the service is started once, tried, and ended, whatever happens."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gelgt.bench import shared_gpu as module
from gelgt.bench.shared_gpu import CONTROL, LOGS, PIPES, shared_gpu

Calls = Callable[[], list[str]]


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A control program that writes down how it is called; `status` is its exit code."""
    program, log = tmp_path / "bin" / CONTROL, tmp_path / "calls"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$1 $(cat) ${PIPES}" >> {log}\nexit $(cat {tmp_path}/status)\n'
    )
    program.chmod(0o755)
    (tmp_path / "status").write_text("0")
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.setattr(module, "TRIAL", f"import os; assert os.path.isdir(os.environ['{PIPES}'])")
    return lambda: log.read_text().splitlines() if log.exists() else []


def test_processes_find_the_service_and_it_ends_with_them(calls: Calls) -> None:
    with suppress(KeyboardInterrupt), shared_gpu("cuda", 3) as environment:
        assert environment.keys() == {PIPES, LOGS}
        assert all(Path(place).is_dir() for place in environment.values())
        assert PIPES not in os.environ, "this process takes no part"
        assert calls() == [f"-d  {environment[PIPES]}"]
        raise KeyboardInterrupt
    assert calls() == [f"-d  {environment[PIPES]}", f" quit {environment[PIPES]}"]
    assert not Path(environment[PIPES]).exists()


def test_a_service_that_does_not_work_is_not_used(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRIAL", "raise SystemExit(1)")
    with shared_gpu("auto", 2) as environment:
        assert environment == {}
    assert [call.split()[0] for call in calls()] == ["-d", "quit"]
    (tmp_path / "status").write_text("1")
    with shared_gpu("auto", 2) as environment:
        assert environment == {}
    assert len(calls()) == 3, "what did not start is not ended"


@pytest.mark.parametrize(("device", "processes"), [("cpu", 4), ("cuda", 1)])
def test_nothing_is_started_for_one_or_without_a_gpu(
    calls: Calls, device: str, processes: int
) -> None:
    with shared_gpu(device, processes) as environment:
        assert environment == {}
    assert calls() == []


def test_a_service_of_the_user_is_left_alone(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PIPES, str(tmp_path))
    with shared_gpu("cuda", 4) as environment:
        assert environment == {}
    assert calls() == []
