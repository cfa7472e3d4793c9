"""`gelgt bench latency`: which calls are timed, on what, and what is compared."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gelgt.bench import latency
from gelgt.bench.latency import bench_latency
from gelgt.demo.schema import TABLES
from gelgt.errors import GelgtError


def test_each_call_is_timed_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    runs: list[Path] = []

    def case(name: str) -> Any:
        def make(base: Path, rows: int = 0) -> latency._Case:
            add = lambda: told.append(f"{name} grows") or 5  # noqa: E731
            runs.append(base / name / "run")
            return latency._Case(name, "", runs[-1], "1,2", 100, add, {})

        return make

    def predict(of: latency._Case, *options: str) -> tuple[float, float]:
        told.append(f"{of.name} {' '.join(options)}".strip())
        return (6.0 if options else 2.0), 1.0

    monkeypatch.setattr(latency, "_shop", case("shop"))
    monkeypatch.setattr(latency, "_large", case("large"))
    monkeypatch.setattr(latency, "_predict", predict)
    measured = bench_latency(latency.WARM_ROWS, calls=2)
    warm = ["large", "large", "large grows", "large", "large", "large --fresh"]
    timed = ["x"] * 3 + ["x grows"] + ["x"] * 3 + ["x --fresh"]
    assert told[:6] == warm
    assert told[6:] == [t.replace("x", n) for n in ("shop", "large") for t in timed]
    calls = ["first", "again", "new rows", "again after", "whole"]
    assert [r["call"] for r in measured["results"]] == 2 * calls
    assert measured["ratios"] == {"shop_whole_vs_new_rows": 3.0, "large_whole_vs_new_rows": 3.0}
    assert len(set(runs)) == 3  # the warm-up has a folder of its own, whatever its size


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(GelgtError, match="calls must be at least 1"):
        bench_latency(2_000, calls=0)


def test_the_shop_grows_by_later_rows(small_shop: Any, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes(small_shop.path.read_bytes())

    def newest() -> dict[str, Any]:
        timed = {name: t for name, t in TABLES.items() if t.time_column}
        with closing(sqlite3.connect(path)) as connection:
            return {
                name: connection.execute(
                    f"SELECT count(*), max({t.key.name}), max({t.time_column}) FROM {name}"
                ).fetchone()
                for name, t in timed.items()
            }

    before = newest()
    added = latency._add_to_shop(path)
    after = newest()
    assert added == sum(after[name][0] - before[name][0] for name in before) > 100
    assert all(after[name][i] > before[name][i] for name in before for i in range(3))


@pytest.mark.slow
def test_the_command_itself() -> None:
    measured = bench_latency(latency.WARM_ROWS, calls=1)  # as many rows as the warm-up
    assert all(0.1 < r["cpu_seconds"] < 120 for r in measured["results"])
