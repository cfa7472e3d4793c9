"""Looks into trained runs: effective neighbours, kernels by epoch; and the page that collects
everything."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from gelgt import Database, Task
from gelgt.bench import studies
from gelgt.bench.gating import effective_neighbours, gates
from gelgt.bench.results import collect, results_page
from gelgt.bench.run import run_study
from gelgt.bench.study import StudyConfig
from gelgt.bench.temporal import kernels_by_epoch, moved, temporal_markdown, temporal_plot
from gelgt.bench.write import write_study
from gelgt.errors import GelgtError
from gelgt.runs.folder import Run, load_run
from gelgt.runs.record import Epoch


@pytest.fixture(scope="module")
def studied(
    db: Database, task: Task, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Path]:
    out = tmp_path_factory.mktemp("studied")
    changes = {
        "model.width": 16,
        "model.heads": 2,
        "model.row_width": 8,
        "sampling.budget": 16,
        "model.keep": 12,
        "train.batch_size": 32,
        "train.epochs": 3,
        "train.steps_per_epoch": 4,
        "train.ensemble": 1,
        "train.windows": 1,
        "model.history_columns": 20,
        "model.column_members": 1,
    }
    command = "gelgt bench sweep hops --dataset /data/shop --task soon"
    config = StudyConfig(out, seeds=(0, 1), settings=changes, command=command)
    result = run_study(studies.sweep_hops((2, 3)), db, [task], config, draws=20)
    write_study(result, out)
    return result, out


@pytest.fixture(scope="module")
def run(studied: tuple[dict[str, Any], Path]) -> Run:
    return load_run(studied[1] / studied[0]["runs"][0]["folder"])


def test_gates_are_between_none_and_all() -> None:
    hop = torch.tensor([0, 1, 1, 2, 2, 3])
    # nothing but the first hop
    assert gates(torch.full((6,), -50.0), hop).sum() == pytest.approx(2)
    assert gates(torch.full((6,), 50.0), hop).sum() == pytest.approx(5)  # everything but the seed
    assert gates(torch.zeros(6), hop).sum() == pytest.approx(2 + 3 / 2)


def test_effective_neighbours(run: Run, db: Database, task: Task) -> None:
    found = effective_neighbours(run, db, task, (8, 64), "cpu")
    assert [entry["budget"] for entry in found] == [8, 16, 64]  # and the run's own
    for entry in found:
        assert entry["first hop"] <= entry["effective"] <= entry["rows"] <= entry["budget"] - 1
        assert 0 <= entry["full"] <= 1
    rows = [entry["rows"] for entry in found]
    assert rows == sorted(rows)
    assert rows[0] < rows[-1]
    own = found[1]["attended"]
    assert 1 <= own <= run.config.model.keep
    assert "attended" not in found[0]


def test_gates_see_what_refinement_sorts_by(run: Run, db: Database, task: Task) -> None:
    """The scores of the analysis order the rows as the model's own refinement does."""
    from gelgt.bench.gating import _scored, _seeds
    from gelgt.nn.refinement import refine
    from gelgt.scoring.load import load_model
    from gelgt.training.data import TrainingData

    data = TrainingData.of(db, task, run.config, run.statistics)
    model: Any = load_model(run, data).first
    inputs = next(iter(data.loader(_seeds(data), 16)))
    with torch.no_grad():
        sampled, scores = _scored(model, inputs)
        tokens, _ = model.branches(inputs)
    keep = run.config.model.keep
    kept = refine(scores, sampled.hop, sampled.offsets, sampled.subgraph, keep)
    assert len(tokens.node) < len(sampled.node)
    assert torch.equal(sampled.node[kept], tokens.node)


def test_kernels_by_epoch(run: Run, tmp_path: Path) -> None:
    epochs = kernels_by_epoch(run.record)
    assert [entry["epoch"] for entry in epochs] == [1, 2, 3]
    assert all(len(entry["centres"]) == len(entry["widths"]) == 2 for entry in epochs)
    assert all(value > 0 for entry in epochs for value in entry["centres"] + entry["widths"])
    assert epochs[0]["centres"] != epochs[2]["centres"]  # they are learned
    assert moved(epochs) > 0  # type: ignore[operator]
    text = temporal_markdown("soon", epochs)
    assert text.count("\n| ") == 5
    assert "days" in text or "years" in text
    temporal_plot("Kernels & epochs", epochs, tmp_path / "kernels.svg")
    assert ElementTree.parse(tmp_path / "kernels.svg").getroot().tag.endswith("svg")
    without = run.record.model_copy(update={"epochs": [Epoch(epoch=1)]})
    assert kernels_by_epoch(without) == []
    assert moved([]) is None


def test_charts_are_whole(studied: tuple[dict[str, Any], Path]) -> None:
    result, out = studied
    chart = out / "sweep-hops-soon-roc_auc.svg"
    text = "".join(ElementTree.parse(chart).getroot().itertext())
    assert "shop, soon: test roc_auc, 2 seeds, seed-time" in text
    assert f"]({chart.name})" in (out / "sweep-hops.md").read_text()
    write_study({**result, "study": "ablation", "points": []}, out / "dots")
    text = "".join(
        ElementTree.parse(out / "dots" / "ablation-soon-roc_auc.svg").getroot().itertext()
    )
    assert "hops=3" in text


def test_the_page_of_results(studied: tuple[dict[str, Any], Path], tmp_path: Path) -> None:
    _, out = studied
    text = results_page(collect([out]))
    assert "### Depth of a neighbourhood" in text
    assert "#### shop, seed-time" in text
    assert "gelgt bench sweep hops --dataset shop --task soon" in text  # no folder of this machine
    assert "/data/" not in text
    assert "no difference shown" in text or "is better" in text or "is worse" in text
    measured, _, left = text.partition("## Published, and not run here")
    assert "| rel-amazon | item-churn | roc_auc ↑ | – | 0.8297 | rdl 0.8281 |" in left
    assert "| rel-hm | item-sales | mae ↓ | – | 0.056 | rdl 0.056 |" in left
    assert "rel-amazon" not in measured
    assert left.count("\n| rel-") == 30


def test_what_was_run_is_not_listed_as_missing(
    studied: tuple[dict[str, Any], Path], tmp_path: Path
) -> None:
    """And a made-up twin is not what the paper ran."""
    result, _ = studied
    for rows, count in ((11_411, 29), (300, 30)):
        tasks = {
            "driver-dnf": {
                "type": "binary_classification",
                "rows": {"train": rows, "val": 1, "test": 1},
            }
        }
        entries = [entry | {"task": "driver-dnf"} for entry in result["results"]]
        content = {
            **result,
            "study": "quality",
            "dataset": "rel-f1",
            "tasks": tasks,
            "results": entries,
        }
        (tmp_path / "quality.json").write_text(json.dumps(content))
        assert (
            results_page(collect([tmp_path / "quality.json"]))
            .partition("not run here")[2]
            .count("\n| rel-")
            == count
        )


def test_the_page_in_docs_is_what_its_files_say() -> None:
    """`make results` writes it."""
    docs = Path(__file__).parents[2] / "docs"
    assert results_page(collect([docs / "results"])) == (docs / "results.md").read_text(
        encoding="utf-8"
    )


def test_a_folder_without_studies_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(GelgtError, match="holds no study"):
        collect([tmp_path])
