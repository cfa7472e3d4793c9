"""`gelgt bench cluster`: what is compared with what."""

import json
import os
from pathlib import Path

import pytest

from gelgt import GelgtError
from gelgt.bench import cluster
from gelgt.bench.cluster import bench_cluster


def test_rates_are_those_of_the_work_itself(tmp_path: Path) -> None:
    """From the beginning of the first part to the end of the last, whoever made them."""
    for part, (finished, seconds) in enumerate(((110.0, 10.0), (114.0, 12.0))):
        commit = {"entities": 700, "finished": finished, "seconds": seconds}
        (tmp_path / f"_part-0000{part}-of-00002.commit.json").write_text(json.dumps(commit))
    found = cluster._rates(tmp_path, 30.0)
    assert found == {"count": 1400, "rate": 100.0, "command_seconds": 30.0}


def test_ratios() -> None:
    rates = {
        "predict, one core": 100.0,
        "predict, two processes": 180.0,
        "predict, two cores": 150.0,
        "train, one core": 10.0,
        "train, two workers": 17.0,
    }
    assert cluster._ratios(rates) == {
        "predict_two_processes_vs_one_core": 1.8,
        "predict_two_cores_vs_one_core": 1.5,
        "train_two_workers_vs_one_core": 1.7,
    }
    with_ray = cluster._ratios(rates | {"predict, Ray on two cores": 135.0})
    assert with_ray["predict_ray_vs_two_cores"] == 0.9


def test_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    with pytest.raises(GelgtError, match="two"):
        bench_cluster()


def test_too_few_rows() -> None:
    with pytest.raises(GelgtError, match="10,000"):
        bench_cluster(5)


@pytest.mark.slow
def test_every_command_runs(tmp_path: Path) -> None:
    found = bench_cluster(20_000, 1, folder=tmp_path)
    commands = {result["command"]: result for result in found["results"]}
    assert {"predict, one core", "predict, two processes", "train, two workers"} <= set(commands)
    predicted = {r["count"] for name, r in commands.items() if name.startswith("predict")}
    assert len(predicted) == 1
    assert not list(tmp_path.iterdir())
