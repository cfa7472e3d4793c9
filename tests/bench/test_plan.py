"""Which runs the studies consist of: their settings and folders, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gelgt import Task
from gelgt.bench import studies
from gelgt.bench.plan import study_cells
from gelgt.bench.study import Study, StudyConfig, Variant
from gelgt.errors import GelgtError

PAIR = Study(
    "ablation",
    "With and without",
    (Variant("gelgt"), Variant("without-gnn", settings=lambda base: {"model.gnn_layers": 0})),
    "gelgt",
)


def test_another_budget_is_another_run(task: Task, out: Path, tiny: dict[str, Any]) -> None:
    folders = {
        study_cells(
            PAIR,
            [task],
            StudyConfig(out, seeds=(0,), settings=changes, budget=budget, preset=preset),
        )[0].folder
        for changes, budget, preset in (
            (tiny, None, "cpu"),
            (tiny, 60, "cpu"),
            ({}, None, "cpu"),
            (tiny, None, "gpu"),
        )
    }
    assert len(folders) == 4


def by_name(study: Study, task: Task, config: StudyConfig) -> dict[str, Any]:
    return {cell.variant: cell.config for cell in study_cells(study, [task], config)}


def test_what_the_studies_change(task: Task, out: Path) -> None:
    config = StudyConfig(out, preset="paper", seeds=(0,))
    cells = by_name(studies.ablation(), task, config)
    assert cells["without-sampling"].sampling.strategy == "random"
    assert cells["without-refinement"].model.keep is None
    assert cells["without-bias"].model.bias == "none"
    assert cells["without-gnn"].model.gnn_layers == 0
    assert cells["without-attention"].model.layers == 0
    assert cells["gelgt"].model.bias == "gaussian"
    assert {name: c.model.bias for name, c in by_name(studies.bias(), task, config).items()} == {
        name: name for name in ("gaussian", "linear-decay", "time-bins", "none")
    }
    sizes = by_name(studies.sweep_size(), task, config)
    assert [(c.sampling.budget, c.model.keep) for c in sizes.values()] == [
        (100, 67),
        (200, 133),
        (300, 200),
        (400, 267),
        (500, 333),
    ]
    assert [c.sampling.hops for c in by_name(studies.sweep_hops(), task, config).values()] == [
        2,
        3,
        4,
        5,
    ]
    # The preset's own values are the preset's own run, whatever the study calls it.
    folders = {
        study_cells(study, [task], config)[place].folder
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
    with_mean, without = (
        StudyConfig(out, seeds=(0,), settings={"train.best_epochs": count}) for count in (3, 1)
    )
    assert "without-best-epochs" in by_name(studies.ablation(), task, with_mean)
    assert "without-best-epochs" not in by_name(studies.ablation(), task, without)
    cells = study_cells(studies.ablation(), [task], without)
    assert len({cell.folder for cell in cells}) == len(cells)


def test_generality_compares_each_model_with_itself(task: Task, out: Path) -> None:
    study = studies.generality()
    cells = by_name(study, task, StudyConfig(out, preset="gpu", seeds=(0,)))
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
        (
            lambda: study_cells(PAIR, [], StudyConfig(Path("x"), settings={"model.wdth": 3})),
            "unknown_setting",
        ),
        (
            lambda: study_cells(PAIR, [], StudyConfig(Path("x"), settings={"train.seed": 3})),
            "bad_option",
        ),
    ],
)
def test_errors(make: Callable[[], Any], code: str) -> None:
    with pytest.raises(GelgtError) as error:
        make()
    assert error.value.code == code
