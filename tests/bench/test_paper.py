"""The paper's figures, against numbers read from its tables by hand."""

from pathlib import Path

import pytest

from gelgt.bench.paper import (
    EFFECTIVE_NEIGHBOURS,
    HOMOPHILY,
    is_published,
    published,
    published_models,
    published_tasks,
)
from gelgt.bench.results import collect, results_page


@pytest.mark.parametrize(
    ("study", "dataset", "task", "model", "metric", "value", "spread"),
    [
        ("quality", "rel-f1", "driver-dnf", "gelgt", "roc_auc", 0.7608, 0.0175),
        ("quality", "rel-event", "user-ignore", "hgt-pe", "roc_auc", 0.8161, 0.0007),
        ("quality", "rel-trial", "study-adverse", "griffin", "mae", 59.0902, 0.0022),
        ("quality", "rel-salt", "item-incoterms", "rgp", "mrr", 0.81, None),
        ("quality", "rel-hm", "user-churn", "nodeformer", "roc_auc", 0.61, None),
        ("quality", "rel-amazon", "item-churn", "relgnn", "roc_auc", 0.8043, None),
        ("quality", "rel-f1", "driver-position", "relgnn", "mae", 3.798, None),
        ("ablation", "rel-avito", "ad-ctr", "without-bias", "mae", 0.0370, 0.0004),
        ("ablation", "rel-stack", "user-badge", "without-gnn", "roc_auc", 0.8917, None),
        ("bias", "rel-hm", "user-churn", "time-bins", "roc_auc", 0.67, None),
        ("generality", "rel-event", "user-repeat", "relgnn+sampling", "roc_auc", 0.7898, None),
        # a whole model is the same in all studies
        ("sweep-hops", "rel-f1", "driver-dnf", "gelgt", "roc_auc", 0.7608, 0.0175),
    ],
)
def test_figures(
    study: str, dataset: str, task: str, model: str, metric: str, value: float, spread: float | None
) -> None:
    found = published(study, dataset, task, model, metric)
    assert found is not None
    assert (found.value, found.spread) == (value, spread)
    assert found.to_dict()["regime"] == "frozen"


def test_what_was_not_published_is_none() -> None:
    assert published("quality", "rel-salt", "sales-office", "rgp", "mrr") is None
    assert published("quality", "rel-f1", "driver-dnf", "gelgt", "mae") is None
    assert published("quality", "rel-f1-twin", "driver-dnf", "gelgt", "roc_auc") is None
    assert published("ablation", "rel-f1", "driver-dnf", "without-attention", "roc_auc") is None


def test_data_that_shares_a_name_is_not_the_papers() -> None:
    assert is_published("rel-f1", "driver-position", 7_453)
    assert not is_published("rel-f1", "driver-position", 900)
    assert is_published("rel-hm", "item-sales", 2_000_000)  # sampled
    assert is_published("rel-salt", "item-plant", 1_000_000)
    assert not is_published("rel-salt", "item-plant", 2_000)
    assert not is_published("rel-beer", "item-plant", 1_000_000)


def test_every_task_of_the_paper() -> None:
    tasks = published_tasks()
    assert len(tasks) == 12 + 9 + 8 + 1
    assert set(HOMOPHILY) == set(EFFECTIVE_NEIGHBOURS) <= set(tasks)
    assert {
        "rdl",
        "hgt",
        "hgt-pe",
        "griffin",
        "relgt",
        "relgnn",
        "rgp",
        "nodeformer",
        "rel-llm",
        "lightgbm",
        "gelgt",
    } == set(published_models())
    for dataset, task in tasks[:21]:
        figures = [
            published("quality", dataset, task, model, metric)
            for model in ("rdl", "gelgt")
            for metric in ("roc_auc", "mae")
        ]
        assert sum(figure is not None for figure in figures) == 2


def test_the_preset_paper_stands_beside_the_published_figures() -> None:
    """From the file of means that is kept in docs/results: the figures of the paper in the same
    line, and what is to be said of ours."""
    page = results_page(
        collect([Path(__file__).parents[2] / "docs" / "results" / "rel-f1-paper-preset.json"])
    )
    lines = page.splitlines()
    (line,) = (line for line in lines if line.startswith("| driver-dnf | roc_auc ↑ | 0.7608"))
    assert len(line.split("|")) == 7
    assert "The preset `paper` beside the published figures" in page
