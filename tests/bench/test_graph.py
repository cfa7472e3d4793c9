"""`gelgt bench graph` at a size that takes seconds: the shape of its answer, the peer's
correctness, nothing left behind."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gelgt
from gelgt.bench import graph
from gelgt.bench.graph import bench_graph
from gelgt.bench.measure import run_phase
from gelgt.bench.pandas_peer import build_graph, import_tables
from gelgt.bench.phases import Work
from gelgt.errors import GelgtError
from gelgt.testing.large import foreign_keys, large


def run_small_phase(phase: str, work: Work) -> dict[str, float]:
    """Two phases of the smaller size, each in a process of its own; the others have figures."""
    if phase == "generate" or (work.rows == 3_000 and phase in ("import", "graph")):
        return run_phase(phase, work)
    return {"seconds": 0.5, "cpu_seconds": 0.5, "library_seconds": 1.0, "peak_mib": 90.0}


@pytest.mark.parametrize("run", [run_small_phase, pytest.param(run_phase, marks=pytest.mark.slow)])
def test_it_measures_each_phase_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Callable[..., dict[str, float]]
) -> None:
    monkeypatch.setattr(graph, "run_phase", run)
    lines: list[str] = []
    found = bench_graph((6_000, 3_000), tmp_path, progress=lines.append)
    assert set(found) == {"machine", "results", "ratios"}
    assert found["machine"]["cores"] >= 1
    phases = [(r["tool"], r["rows"], r["phase"]) for r in found["results"]]
    ours = ["import", "graph", "features", "reopen"]
    assert phases == [
        *(("gelgt", 3_000, p) for p in ours),
        *(("pandas", 3_000, p) for p in ("import", "graph")),
        *(("gelgt", 6_000, p) for p in ours),
    ]
    for result in found["results"]:
        assert result["foreign_keys"] == foreign_keys(result["rows"])
        assert result["seconds"] > 0
        assert 20 < result["peak_mib"] < 4_000
    by = {(r["tool"], r["rows"], r["phase"]): r["seconds"] for r in found["results"]}
    ratios = found["ratios"]
    assert ratios["import_vs_pandas"] == pytest.approx(
        by["pandas", 3_000, "import"] / by["gelgt", 3_000, "import"], abs=0.001
    )
    once = {
        size: sum(by["gelgt", size, p] for p in ("import", "graph", "features"))
        for size in (3_000, 6_000)
    }
    assert ratios["cost_per_row_6k_vs_3k"] == pytest.approx(
        once[6_000] / once[3_000] / 2, abs=0.001
    )
    assert len(lines) == 2 + len(phases)
    assert os.listdir(tmp_path) == []


def test_the_peer_builds_the_same_graph_size(tmp_path: Path) -> None:
    """Both see the same rows and the same edges, so the ratio compares the same work."""
    source = tmp_path / "source"
    schema = large(source, rows=3_000)
    import_tables(source, tmp_path / "pandas")
    indptr, indices = build_graph(tmp_path / "pandas")
    ours = gelgt.open(source, schema=schema, out=tmp_path / "gelgt").graph()
    assert len(indptr) - 1 == ours.num_nodes == 3_000
    assert len(indices) == len(ours.indices)
    assert sorted(np.diff(indptr)) == sorted(np.diff(ours.indptr))


def test_sizes_are_checked() -> None:
    with pytest.raises(GelgtError, match="at least 1,000"):
        bench_graph((10,))


def test_a_failing_phase_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "torch_frame.py").write_text("raise ImportError('no frames today')")
    with pytest.raises(RuntimeError, match="no frames today"):
        bench_graph((1_000,), tmp_path)
    assert set(os.listdir(tmp_path)) <= {"torch_frame.py", "__pycache__"}


def test_peak_memory_is_not_the_parents() -> None:
    """A child of a heavy process reports its own peak, not what its parent held when it forked."""
    block = np.ones(2**26)  # 512 MiB
    code = (
        "from gelgt.bench.phases import peak_mib; light = peak_mib(); block = "
        "bytearray(2**27); print(light, peak_mib())"
    )
    light, heavy = map(
        float,
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split(),
    )
    assert block.sum() > 0
    assert light < 200
    assert light + 100 < heavy < light + 200
