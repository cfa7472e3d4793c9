"""`gelgt bench scale` at a size that takes seconds: each phase, the memory limit, the folder."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gelgt.bench import scale
from gelgt.bench.measure import MemoryLimit, memory_limit, run_phase
from gelgt.bench.phases import Work
from gelgt.bench.scale import PHASES, ScaleOptions, bench_scale
from gelgt.errors import GelgtError

SMALL = {"labels": 60, "steps": 2, "entities": 20}


def run_limited_phase(phase: str, work: Work, limit: MemoryLimit | None = None) -> dict[str, float]:
    """Every phase in a process of its own under the limit; without it the source alone, and
    figures."""
    if limit is not None or phase == "generate":
        return run_phase(phase, work, limit)
    figures = {"seconds": 1.0, "cpu_seconds": 1.0, "peak_mib": 90.0, "anonymous_mib": 60.0}
    return figures | {"labels": SMALL["labels"], "entities": SMALL["entities"]}


@pytest.mark.slow
@pytest.mark.parametrize("run", [run_limited_phase, run_phase])
def test_it_measures_every_phase_and_removes_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., dict[str, float]]
) -> None:
    monkeypatch.setattr(scale, "_warm_up", lambda *_: None)  # the same phases, for their kernels
    monkeypatch.setattr(scale, "run_phase", run)
    options = ScaleOptions(memory=4 << 30, folder=tmp_path, **SMALL)  # type: ignore[arg-type]
    measured = bench_scale((20_000,), options)
    results = measured["results"]
    assert [r["phase"] for r in results] == 2 * list(PHASES)
    assert [r["limit"] == "none" for r in results] == [True] * 6 + [False] * 6
    assert all(kind in results[-1]["limit"] for kind in ("4 GiB", "("))
    for result in results:
        assert result["cost"] == 1.0
        assert 20 < result["anonymous_mib"] <= result["peak_mib"] < 4_000
    count = {r["phase"]: r["count"] for r in results}
    assert count["import"] == 20_000
    assert 20 < count["train"] <= 3 * 60
    assert 10 <= count["predict"] <= 20
    assert set(measured["ratios"]) == {f"{p}_limited_vs_unlimited_20k" for p in PHASES}
    assert os.listdir(tmp_path) == []


def test_costs_and_ratios_compare_with_the_smallest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def fake(phase: str, work: Work, limit: MemoryLimit | None = None) -> dict[str, float]:
        Path(work.folder).mkdir(exist_ok=True)
        seconds = work.rows / 1000 * (1.5 if work.rows == 4000 and phase == "graph" else 1)
        return {"seconds": seconds, "peak_mib": 1.0, "labels": work.rows, "entities": work.rows}

    monkeypatch.setattr(scale, "run_phase", fake)
    measured = bench_scale((4_000, 1_000))
    costs = {(r["rows"], r["phase"]): r["cost"] for r in measured["results"]}
    assert costs[1_000, "graph"] == 1.0
    assert costs[4_000, "graph"] == 1.5
    assert costs[4_000, "train"] == 1.0
    assert measured["ratios"] == {"cost_per_row_4k_vs_1k": 1.125}


def test_a_phase_that_fails_under_the_limit_ends_that_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fake(phase: str, work: Work, limit: MemoryLimit | None = None) -> dict[str, float]:
        Path(work.folder).mkdir(exist_ok=True)
        if limit is not None and phase == "features":
            raise RuntimeError("status 1:\ngelgt.GelgtError: too little memory\nlibrary: bye")
        return {"seconds": 1.0, "peak_mib": 1.0}

    monkeypatch.setattr(scale, "run_phase", fake)
    monkeypatch.setattr(scale, "_forget", lambda folder: None)
    lines: list[str] = []
    measured = bench_scale((1_000,), ScaleOptions(memory=1 << 30), lines.append)
    assert [r["phase"] for r in measured["results"]] == [*PHASES, "import", "graph"]
    assert set(measured["ratios"]) == {f"{p}_limited_vs_unlimited_1k" for p in ("import", "graph")}
    assert (
        lines[-1]
        == "1,000 rows: features does not work under the limit: gelgt.GelgtError: too little memory"
    )


def test_files_stay_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(phase: str, work: Work, limit: MemoryLimit | None = None) -> dict[str, float]:
        Path(work.folder).mkdir(exist_ok=True)
        return {"seconds": 1.0, "peak_mib": 1.0}

    monkeypatch.setattr(scale, "run_phase", fake)
    bench_scale((1_000,), ScaleOptions(folder=tmp_path / "new", is_kept=True))
    (folder,) = (tmp_path / "new").iterdir()
    assert os.listdir(folder) == ["1000"]


def test_a_limit_of_memory_ends_a_process_that_exceeds_it(tmp_path: Path) -> None:
    code = "import sys; block = bytearray(int(sys.argv[1]) << 20); print(len(block))"
    with memory_limit(256 << 20) as limit:
        for size, is_small in ((16, True), (512, False)):
            child = subprocess.run(
                [sys.executable, "-c", code, str(size)],
                preexec_fn=limit.enter,
                capture_output=True,
                check=False,
            )
            assert (child.returncode == 0) == is_small
    assert limit.cgroup is None or not limit.cgroup.exists()


def test_without_a_cgroup_the_limit_is_that_of_anonymous_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.bench.measure._CGROUPS", tmp_path)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_limit(64 << 20) as limit:
        assert limit.kind == "RLIMIT_DATA"
        with pytest.raises(RuntimeError, match="status"):
            run_phase("generate", Work(str(tmp_path), 3_000), limit)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_bad_options_and_a_small_disk_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GelgtError, match="steps must be at least 1"):
        bench_scale((1_000,), ScaleOptions(steps=0))
    with pytest.raises(GelgtError, match="--keep needs --folder"):
        bench_scale((1_000,), ScaleOptions(is_kept=True))
    monkeypatch.setattr(scale, "DISK_BYTES", 2**60)
    with pytest.raises(GelgtError, match=r"1,000 rows need about .* GB"):
        bench_scale((1_000,), ScaleOptions(folder=tmp_path))
