"""`gelgt bench efficiency` without a GPU: tiny, but every part is there."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import gelgt
from gelgt.bench.efficiency import _Bench, _names, _ratios, bench_efficiency
from gelgt.bench.step_parts import DeviceTimer
from gelgt.presets import RunConfig
from gelgt.training import fit
from gelgt.training.data import TrainingData
from gelgt.training.optimiser import make_optimiser
from gelgt.training.regime import in_regime


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without one")
def test_bench_efficiency_without_a_gpu(relbench_data: Callable[[str], Path]) -> None:
    changes = {
        "model.width": 16,
        "model.row_width": 8,
        "sampling.budget": 16,
        "train.batch_size": 32,
    }
    said: list[str] = []
    result = bench_efficiency(
        relbench_data("rel-f1"), preset="cpu", steps=3, changes=changes, progress=said.append
    )
    assert any("only ratios say something" in line for line in said)
    found = {(entry["what"], entry["path"]): entry for entry in result["results"]}
    assert {
        ("training", "not recorded"),
        ("training", "eager"),
        ("inference", "not recorded"),
        ("backward", "part"),
        ("training", "columns network"),
        ("inference", "columns network, plain"),
    } <= found.keys()
    assert all(entry["ms"] > 0 for (_, path), entry in found.items() if path != "part")
    ratios = result["ratios"]
    assert ratios.keys() == {
        "columns_network_training_plain_over_own",
        "columns_network_inference_plain_over_own",
    }, "nothing else is there twice"
    assert result["reference"]["step_ms"] == 117.0


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without one")
def test_networks_side_by_side(
    relbench_data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed steps of two networks without a GPU."""
    monkeypatch.setattr(fit, "PARTS", 1)
    monkeypatch.setattr(fit, "why_not_recorded", lambda *_: None)
    monkeypatch.setattr(
        fit, "make_optimiser", lambda model, config, **_: make_optimiser(model, config)
    )
    changes = {
        "model.width": 16,
        "model.row_width": 8,
        "model.history": 0,
        "model.trees": False,
        "sampling.budget": 4,
        "train.batch_size": 2048,
        "train.windows": 1,
    }
    db = gelgt.open(relbench_data("rel-f1"))
    task = db.task("driver-dnf")
    config = in_regime(RunConfig.of("cpu", task.task_type, changes), task)
    data = TrainingData.of(db, task, config)
    bench = _Bench(data, config, DeviceTimer(torch.device("cpu")), lambda line: None)
    found = bench.side_by_side(2, 2)
    assert found["what"] == "training, 2 networks"
    assert found["ms"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without one")
def test_steps_of_every_model(relbench_data: Callable[[str], Path]) -> None:
    """Rows of the zoo's models, of which hgt-pe has the most to prepare."""
    changes = {
        "model.width": 16,
        "model.row_width": 8,
        "sampling.budget": 8,
        "train.batch_size": 16,
        "train.steps_per_epoch": 4,
    }
    result = bench_efficiency(
        relbench_data("rel-f1"),
        preset="cpu",
        models=["rdl", "hgt-pe", "rdl"],
        steps=2,
        changes=changes,
    )
    found = [(row["model"], row["what"], row["path"]) for row in result["results"]]
    paths = ("not recorded", "eager")
    assert found == [(name, "training", path) for name in ("rdl", "hgt-pe") for path in paths]
    assert _names(["all"])[:2] == ["gelgt", "rdl"]
    recorded = [row | {"path": "replayed", "ms": 2.0} for row in result["results"][:1]]
    eager = [row | {"ms": 9.0} for row in result["results"][1:2]]
    assert _ratios(recorded + eager) == {"rdl_training_eager_over_replayed": 4.5}
