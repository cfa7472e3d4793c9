"""Studies: what is trained, what is not trained twice, what is marked, and what is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gelgt import Database, Task
from gelgt.bench import studies
from gelgt.bench.study import Study, Variant, Wish, plan, run_study
from gelgt.bench.tables import study_markdown
from gelgt.bench.write import write_study
from gelgt.config import ModelConfig
from gelgt.errors import GelgtError
from gelgt.nn import ModelInput, RelationalModel
from gelgt.registry import _registered, register_model
from gelgt.training.progress import Progress


class Count(Progress):
    def __init__(self) -> None:
        self.epochs = 0

    def epoch(self, record: dict[str, Any], best_epoch: int) -> None:
        self.epochs += 1


class Broken(RelationalModel):
    """A model that cannot be trained."""

    config_type = ModelConfig

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.head = self.make_head(1)

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
            PAIR, db, [task], Wish(out, seeds=seeds, changes=tiny), progress=progress, draws=20
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
        with_more, db, [task], Wish(out, seeds=range(2), changes=tiny), progress=progress, draws=20
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


def test_another_budget_is_another_run(task: Task, out: Path, tiny: dict[str, Any]) -> None:
    folders = {
        plan(PAIR, [task], Wish(out, seeds=(0,), changes=changes, budget=budget, preset=preset))[
            0
        ].folder
        for changes, budget, preset in (
            (tiny, None, "cpu"),
            (tiny, 60, "cpu"),
            ({}, None, "cpu"),
            (tiny, None, "gpu"),
        )
    }
    assert len(folders) == 4


def test_runs_of_something_else_are_refused(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    wish = Wish(out, seeds=(0,), changes=tiny)
    run_study(Study("x", "", (Variant("gelgt"),), "gelgt"), db, [task], wish, draws=5)
    cell = plan(PAIR, [task], wish)[0]
    assert cell.is_done(json.loads((cell.folder / "metrics.json").read_text())["data"]["hash"])
    with pytest.raises(GelgtError, match="other rows"):
        cell.is_done("another hash")
    wider = plan(PAIR, [task], Wish(out, seeds=(0,), changes=tiny | {"model.width": 32}))[0]
    moved = type(cell)(cell.task, cell.variant, cell.kind, cell.seed, wider.config, cell.folder)
    with pytest.raises(GelgtError, match=r"model\.width = 16, not 32"):
        moved.is_done(json.loads((cell.folder / "metrics.json").read_text())["data"]["hash"])


def test_a_failing_run_is_reported_and_the_rest_goes_on(
    db: Database, task: Task, out: Path, tiny: dict[str, Any], broken: str
) -> None:
    told: list[str] = []
    study = studies.quality([broken, "gelgt"])
    changes = tiny | {"model.wiring": "parallel"}  # which only gelgt has
    result = run_study(
        study,
        db,
        [task],
        Wish(out, seeds=(0,), changes=changes),
        tell=lambda news: told.append(news.what),
        draws=20,
    )
    assert told == ["begin", "failed", "begin", "done"]
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
        result = run_study(study, db, [task], Wish(out, seeds=(0,), changes=changes), draws=20)
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

    wish = Wish(out, seeds=(0,), changes=tiny | {"train.epochs": 3})
    result = run_study(PAIR, db, [task], wish, stop=Stop(), draws=20)
    assert [left["model"] for left in result["left"]] == ["gelgt", "without-gnn"]
    assert result["results"] == []
    assert "Stopped before 2 runs" in study_markdown(result)
    resumed = run_study(PAIR, db, [task], wish, draws=20)
    whole = run_study(
        PAIR, db, [task], Wish(out.with_name("whole"), seeds=(0,), changes=wish.changes), draws=20
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
        Wish(out, seeds=(0, 1), changes=tiny, command="gelgt bench quality"),
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
        cells = plan(
            studies.with_baselines(studies.quality()),
            [task],
            Wish(out, seeds=(0,), changes=settings),
        )
        return {cell.kind: cell.folder for cell in cells}

    own, wider, retrained = folders(), folders(model__width=32), folders(train__retrain=True)
    assert own["gelgt"] != wider["gelgt"]
    assert own["lightgbm"] == wider["lightgbm"]
    assert own["lightgbm"] != retrained["lightgbm"], "another model beside it learns other labels"
    assert own["lightgbm"] != own["lightgbm-2hop"]
    assert own["entity-mean"] == retrained["entity-mean"]


def test_baselines_of_an_older_version_are_made_anew(db: Database, task: Task, out: Path) -> None:
    wish = Wish(out, seeds=(0,))
    (cell,) = plan(studies.quality(["entity-mean"]), [task], wish)
    run_study(studies.quality(["entity-mean"]), db, [task], wish, draws=5)
    path = cell.folder / "metrics.json"
    content = json.loads(path.read_text())
    assert cell.is_done(content["data"]["hash"])
    path.write_text(json.dumps({key: value for key, value in content.items() if key != "format"}))
    assert not cell.is_done(content["data"]["hash"])


def test_a_study_from_before_parts_were_told_apart(
    db: Database, task: Task, out: Path, tiny: dict[str, Any]
) -> None:
    study = studies.with_baselines(studies.quality())
    new = run_study(study, db, [task], Wish(out, seeds=(0,), changes=tiny), draws=5)
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
    assert "learned the labels of training only" in study_markdown(old)
    assert "learned the labels of training only" not in study_markdown(new)


def by_name(study: Study, task: Task, wish: Wish) -> dict[str, Any]:
    return {cell.variant: cell.config for cell in plan(study, [task], wish)}


def test_what_the_studies_change(task: Task, out: Path) -> None:
    wish = Wish(out, preset="paper", seeds=(0,))
    cells = by_name(studies.ablation(), task, wish)
    assert cells["without-sampling"].sampling.strategy == "random"
    assert cells["without-refinement"].model.keep is None
    assert cells["without-bias"].model.bias == "none"
    assert cells["without-gnn"].model.gnn_layers == 0
    assert cells["without-attention"].model.layers == 0
    assert cells["gelgt"].model.bias == "gaussian"
    assert {name: c.model.bias for name, c in by_name(studies.bias(), task, wish).items()} == {
        name: name for name in ("gaussian", "linear-decay", "time-bins", "none")
    }
    sizes = by_name(studies.sweep_size(), task, wish)
    assert [(c.sampling.budget, c.model.keep) for c in sizes.values()] == [
        (100, 67),
        (200, 133),
        (300, 200),
        (400, 267),
        (500, 333),
    ]
    assert [c.sampling.hops for c in by_name(studies.sweep_hops(), task, wish).values()] == [
        2,
        3,
        4,
        5,
    ]
    # The preset's own values are the preset's own run, whatever the study calls it.
    folders = {
        plan(study, [task], wish)[place].folder
        for study, place in (
            (studies.ablation(), 0),
            (studies.bias(), 0),
            (studies.sweep_size(), 2),
            (studies.sweep_hops(), 0),
        )
    }
    assert len(folders) == 1


def test_a_part_that_the_preset_does_not_have_cannot_be_removed(task: Task, out: Path) -> None:
    """The same run under another name would read as a finding, and two processes would train it in
    one folder."""
    with_mix, without = (
        Wish(out, seeds=(0,), changes={"train.best_epochs": mix}) for mix in (3, 1)
    )
    assert "without-mix" in by_name(studies.ablation(), task, with_mix)
    assert "without-mix" not in by_name(studies.ablation(), task, without)
    cells = plan(studies.ablation(), [task], without)
    assert len({cell.folder for cell in cells}) == len(cells)


def test_generality_compares_each_model_with_itself(task: Task, out: Path) -> None:
    study = studies.generality()
    cells = by_name(study, task, Wish(out, preset="gpu", seeds=(0,)))
    assert study.against == {
        "relgt": "relgt",
        "relgt+sampling": "relgt",
        "relgt+sampling+bias": "relgt",
        "relgnn": "relgnn",
        "relgnn+sampling": "relgnn",
    }
    assert (
        cells["relgt"].sampling.strategy,
        cells["relgt"].model.keep,
        cells["relgt"].model.bias,
    ) == ("random", None, "none")
    both = cells["relgt+sampling+bias"]
    assert (both.sampling.strategy, both.model.keep, both.model.bias) == ("bfs", 200, "gaussian")
    for model in ("relgt", "relgnn"):
        plain, ours = cells[model], cells[f"{model}+sampling"]
        assert ours.sampling.budget == plain.sampling.budget
        assert ours.model.keep == round(plain.sampling.budget * 2 / 3)
        assert ours.kind == plain.kind == model


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: studies.quality(["gelgd"]), "unknown_model"),
        (lambda: plan(PAIR, [], Wish(Path("x"), changes={"model.wdth": 3})), "unknown_setting"),
        (lambda: plan(PAIR, [], Wish(Path("x"), changes={"train.seed": 3})), "bad_option"),
    ],
)
def test_errors(make: Callable[[], Any], code: str) -> None:
    with pytest.raises(GelgtError) as error:
        make()
    assert error.value.code == code
