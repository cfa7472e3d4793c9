"""Studies: what is trained, what is not trained twice, what is marked, and what is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from gelgt import Database, Task
from gelgt.bench import studies
from gelgt.bench.plan import study_cells
from gelgt.bench.run import run_study
from gelgt.bench.study import Study, StudyConfig, Variant
from gelgt.bench.tables import study_markdown
from gelgt.bench.write import write_study
from gelgt.config import ModelConfig
from gelgt.errors import GelgtError
from gelgt.nn import ModelContext, ModelInput, RelationalModel
from gelgt.registry import _registered, register_model
from gelgt.runs.record import Epoch
from gelgt.training.progress import Progress


class Count(Progress):
    def __init__(self) -> None:
        self.epochs = 0

    def epoch(self, record: Epoch, best_epoch: int, network: int = 1) -> None:
        self.epochs += 1


class Broken(RelationalModel):
    """A model that cannot be trained."""

    config_type = ModelConfig

    def __init__(self, config: ModelConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        self.add_head(context)

    def embed(self, inputs: ModelInput) -> Any:
        raise RuntimeError("out of ideas")


@pytest.fixture
def broken() -> Any:
    register_model("broken", Broken)
    yield "broken"
    del _registered["broken"]


PAIR = Study(
    "ablation",
    "With and without",
    (Variant("gelgt"), Variant("without-gnn", settings=lambda base: {"model.gnn_layers": 0})),
    "gelgt",
)


def test_nothing_is_trained_twice(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    counts = []
    for seeds in (range(1), range(2), range(2)):
        progress = Count()
        result = run_study(
            PAIR,
            db,
            [task],
            StudyConfig(out, seeds=seeds, settings=tiny),
            progress=progress,
            draws=20,
        )
        counts.append(progress.epochs)
    assert counts == [2, 2, 0]
    assert [(e["model"], e["seeds"]) for e in result["results"]] == [
        ("gelgt", 2),
        ("without-gnn", 2),
    ]
    # Another study in the same folder finds gelgt's runs there.
    progress = Count()
    with_more = studies.with_baselines(studies.quality())
    result = run_study(
        with_more,
        db,
        [task],
        StudyConfig(out, seeds=range(2), settings=tiny),
        progress=progress,
        draws=20,
    )
    assert progress.epochs == 0
    assert [e["model"] for e in result["results"]] == [
        "gelgt",
        "lightgbm",
        "lightgbm-2hop",
        "entity-mean",
    ]
    # a constant is for values
    assert result["models"] == ["gelgt", "lightgbm", "lightgbm-2hop", "entity-mean"]


def test_runs_of_something_else_are_refused(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    config = StudyConfig(out, seeds=(0,), settings=tiny)
    run_study(Study("x", "", (Variant("gelgt"),), "gelgt"), db, [task], config, draws=5)
    cell = study_cells(PAIR, [task], config)[0]
    assert cell.is_done(json.loads((cell.folder / "metrics.json").read_text())["data"]["hash"])
    with pytest.raises(GelgtError, match="other rows"):
        cell.is_done("another hash")
    wider = study_cells(
        PAIR, [task], StudyConfig(out, seeds=(0,), settings=tiny | {"model.width": 32})
    )[0]
    moved = type(cell)(cell.task, cell.variant, cell.kind, cell.seed, wider.config, cell.folder)
    with pytest.raises(GelgtError, match=r"model\.width = 16, not 32"):
        moved.is_done(json.loads((cell.folder / "metrics.json").read_text())["data"]["hash"])


def test_a_failing_run_is_reported_and_the_rest_goes_on(
    db: Database, task: Task, out: Path, tiny: dict[str, Any], broken: str
) -> None:
    events: list[str] = []
    study = studies.quality([broken, "gelgt"])
    changes = tiny | {"model.wiring": "parallel"}  # which only gelgt has
    result = run_study(
        study,
        db,
        [task],
        StudyConfig(out, seeds=(0,), settings=changes),
        on_event=lambda event: events.append(event.what),
        draws=20,
    )
    assert events == ["begin", "failed", "begin", "done"]
    assert result["failed"] == [
        {"task": "soon", "model": "broken", "seed": 0, "error": "RuntimeError: out of ideas"}
    ]
    assert [e["model"] for e in result["results"]] == ["gelgt"]
    text = study_markdown(result)
    assert "| soon | roc_auc ↑ | – |" in text
    assert "- soon, broken, seed 0: RuntimeError: out of ideas" in text
    complaint = next(out.glob("soon/broken*/seed-0.error.txt"))
    assert "in embed" in complaint.read_text()
    # Once it works, it is trained, and the complaint is gone.
    Broken.embed, before = (
        (
            lambda self, inputs: inputs.batch.age.new_zeros(
                len(inputs.batch.index), self.config.width
            )
        ),
        Broken.embed,
    )  # type: ignore[method-assign]
    try:
        result = run_study(
            study, db, [task], StudyConfig(out, seeds=(0,), settings=changes), draws=20
        )
    finally:
        Broken.embed = before  # type: ignore[method-assign]
    assert result["failed"] == []
    assert not complaint.exists()


def test_a_study_that_is_stopped_goes_on(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    class Stop:
        """True from the second time on that somebody asks after a step."""

        asked = 0

        def __call__(self) -> bool:
            self.asked += 1
            return self.asked > 2

    config = StudyConfig(out, seeds=(0,), settings=tiny | {"train.epochs": 3})
    result = run_study(PAIR, db, [task], config, stop=Stop(), draws=20)
    assert [left["model"] for left in result["left"]] == ["gelgt", "without-gnn"]
    assert result["results"] == []
    assert "Stopped before 2 runs" in study_markdown(result)
    resumed = run_study(PAIR, db, [task], config, draws=20)
    whole = run_study(
        PAIR,
        db,
        [task],
        StudyConfig(out.with_name("whole"), seeds=(0,), settings=config.settings),
        draws=20,
    )
    assert [e["scores"] for e in resumed["results"]] == [e["scores"] for e in whole["results"]]


def test_tables_of_several_tasks(
    db: Database, task: Task, amount: Task, out: Path, tiny: dict[str, Any]
) -> None:
    study = studies.with_baselines(studies.quality())
    result = run_study(
        study,
        db,
        [task, amount],
        StudyConfig(out, seeds=(0, 1), settings=tiny, command="gelgt bench quality"),
        draws=20,
    )
    write_study(result, out)
    assert json.loads((out / "quality.json").read_text())["study"] == "quality"
    text = (out / "quality.md").read_text(encoding="utf-8")
    own = "gelgt network alone | gelgt trees alone | gelgt share of trees | gelgt together"
    assert f"| task | metric | {own} | lightgbm | lightgbm-2hop | entity-mean | constant |" in text
    assert "LightGBM learns the labels that gelgt learns (train.windows=1," in text
    wide = [line for line in text.splitlines() if "↑ |" in line or "↓ |" in line]
    assert all(line.count("**") >= 2 for line in wide)  # more where a part is as good as the whole
    # a constant has no ranking
    assert next(line for line in wide if line.startswith("| soon")).endswith("| – |")
    assert "| amount | mae ↓ |" in text
    assert "regime seed-time" in text
    assert "seeds 0, 1" in text
    assert "entity-mean 0." in text  # without a spread: it has no seed


def test_baselines_are_made_once_for_the_same_labels(
    task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    def folders(**changes: Any) -> dict[str, Path]:
        settings = tiny | {name.replace("__", "."): value for name, value in changes.items()}
        cells = study_cells(
            studies.with_baselines(studies.quality()),
            [task],
            StudyConfig(out, seeds=(0,), settings=settings),
        )
        return {cell.kind: cell.folder for cell in cells}

    own, wider, retrained = folders(), folders(model__width=32), folders(train__retrain=True)
    assert own["gelgt"] != wider["gelgt"]
    assert own["lightgbm"] == wider["lightgbm"]
    assert own["lightgbm"] != retrained["lightgbm"], "another model beside it learns other labels"
    assert own["lightgbm"] != own["lightgbm-2hop"]
    assert own["entity-mean"] == retrained["entity-mean"]


def test_baselines_of_an_older_version_are_made_anew(db: Database, task: Task, out: Path) -> None:
    config = StudyConfig(out, seeds=(0,))
    (cell,) = study_cells(studies.quality(["entity-mean"]), [task], config)
    run_study(studies.quality(["entity-mean"]), db, [task], config, draws=5)
    path = cell.folder / "metrics.json"
    content = json.loads(path.read_text())
    assert cell.is_done(content["data"]["hash"])
    path.write_text(json.dumps({key: value for key, value in content.items() if key != "format"}))
    assert not cell.is_done(content["data"]["hash"])


def test_a_study_from_before_parts_were_told_apart(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    study = studies.with_baselines(studies.quality())
    new = run_study(study, db, [task], StudyConfig(out, seeds=(0,), settings=tiny), draws=5)
    old = {key: value for key, value in new.items() if key != "baseline_labels"} | {
        "models": ["gelgt", "lightgbm", "entity-mean"]
    }
    entries = [e for e in new["results"] if e["model"] != "lightgbm-2hop"]
    old["results"] = [
        {key: value for key, value in e.items() if key not in ("parts", "tree_share")}
        for e in entries
    ]
    line = next(
        line for line in study_markdown(old).splitlines() if line.startswith("| soon | roc_auc")
    )
    cells = [cell.strip() for cell in line.split("|")[1:-1]]
    assert cells[2:5] == ["–", "–", "–"]
    assert cells[7] == "–"
    assert "–" not in (cells[5], cells[6], cells[8])
    assert "learned the training labels only" in study_markdown(old)
    assert "learned the training labels only" not in study_markdown(new)
