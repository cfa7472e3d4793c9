"""Long work says how far it has come, and short work does not."""

import sqlite3
import sys
from pathlib import Path

import pytest

from gelgt import meter
from gelgt.cli import main, waiting
from gelgt.meter import LeftError, Work, is_heard, leaving, listening


def test_a_listener_hears_of_long_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, int]] = []
    now = 100.0
    monkeypatch.setattr(meter.time, "perf_counter", lambda: now)
    assert not is_heard()
    with listening(lambda work: heard.append((work.what, work.done))):
        assert is_heard()
        work = Work("sorting orders", 400, began=now)
        work(100)  # in the first second
        assert not heard
        now += 2.0
        work(100)
        work(100)  # at once: the listener was called just now
        now += 2.0
        assert str(work) == "sorting orders: 300 of 400 rows, 75 a second, 1 s left"
        work(100)
    work(1)
    assert heard == [("sorting orders", 200), ("sorting orders", 400)]


def test_without_a_total_nothing_is_left() -> None:
    work = Work("reading orders", began=meter.time.perf_counter() - 10.0)
    work(1000)
    assert str(work) == "reading orders: 1,000 rows, 100 a second"


def test_an_import_in_a_pipe_says_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, placed_at TEXT)")
        connection.executemany(
            "INSERT INTO orders VALUES (?, '2026-01-02')", [(i,) for i in range(9)]
        )
    monkeypatch.setattr(meter, "AFTER", 0.0)
    monkeypatch.setattr(meter, "EVERY", 0.0)
    monkeypatch.setattr(waiting, "REPORT_SECONDS", 0.0)
    command = ["gelgt", "import", str(tmp_path / "shop.db"), str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    shown = capsys.readouterr().err
    assert "reading orders: 9 rows" in shown
    assert "sorting orders: 9 of 9 rows" in shown


def test_work_that_nobody_waits_for_ends() -> None:
    is_left = False
    work = Work("judging columns")
    with leaving(lambda: is_left):
        work(1)
        is_left = True
        with pytest.raises(LeftError):
            work(1)
    work(1)  # outside of the block
