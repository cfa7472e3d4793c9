"""The head of the page: task, regime, verdict and facts."""

from typing import Any

from pages import metrics_of, update, words

from gelgt.report.run import Run
from gelgt.report.sections import (
    headline,
    profile,
    scores,
)


def test_headline_names_task_regime_score_and_baselines(made_run: Any) -> None:
    folder = made_run()
    update(folder, regime="frozen", horizon="2024-07-01T00:00:00")
    text, found = words(headline.header(Run(folder))), metrics_of(folder)
    own, rival = (
        found["metrics"]["test"]["roc_auc"],
        found["baselines"]["lightgbm"]["test"]["roc_auc"],
    )
    assert (
        "Predicts whether churn is true (yes or no) for each row of customers , over the 30 "
        "days after the seed time." in text
    )
    assert (
        f"gelgt reaches a test ROC-AUC of {own:.3f}, {own - rival:.3f} better than the best "
        "baseline, LightGBM." in text
    )
    assert "does not contain 0: it is more than chance" in text
    assert "Regime frozen : no seed sees rows after the test time" in text
    assert "Ages are measured from 2024-07-01 at the latest" in text
    assert "test rows were used for no selection" in text
    for fact in (
        "5 with 172,011 rows",
        "582,200 edges",
        "51,234 training",
        "1 min 11 s",
        "312,345",
        "PREDICT COUNT",
    ):
        assert fact in text


def test_it_says_who_predicts_and_what_was_learned_last(made_run: Any) -> None:
    folder = made_run()
    assert "Predicted by" not in words(headline.header(Run(folder)))
    assert "LightGBM, which has no temporal bias" not in words(profile.section(Run(folder)).body)
    update(
        folder,
        members=[{"best_epoch": 3, "epochs": 5}] * 3,
        trees={"share": 0.75, "rounds": [70]},
        retrain={"labels": "known", "rows": 8812, "epochs": 5},
    )
    text = words(headline.header(Run(folder)))
    assert "Predicted by the mean of 3 networks, 25% LightGBM on the same history, 75%" in text
    assert "Retrained on the 8,812 labels known at the test time, before test was scored" in text
    assert "25% of the prediction; LightGBM, which has no temporal bias, the rest" in words(
        profile.section(Run(folder)).body
    )
    update(folder, trees=None, retrain={"rows": 99, "epochs": 5})
    text = words(headline.header(Run(folder)))
    assert (
        "Predicted by the mean of 3 networks Retrained on all 99 labels, after it was scored"
        in text
    )


def test_verdict_is_honest_when_behind_or_equal(made_run: Any) -> None:
    folder = made_run()
    found = metrics_of(folder)
    update(
        folder,
        baselines={"lightgbm": {"test": {"roc_auc": found["metrics"]["test"]["roc_auc"] + 0.05}}},
    )
    assert "0.050 worse than the best baseline" in headline.verdict(Run(folder))
    update(
        folder, baselines={"lightgbm": {"test": {"roc_auc": found["metrics"]["test"]["roc_auc"]}}}
    )
    assert "the same as the best baseline" in headline.verdict(Run(folder))


def test_lower_is_better_for_errors(made_run: Any) -> None:
    run = Run(made_run("regression"))
    assert "better than the best baseline, LightGBM." in headline.verdict(run)
    html = scores.section(run).html()
    assert html.count("(lower is better)") == 4
    assert f'<td class="n best">{run.score("gelgt", "test", "mae"):.3f}</td>' in html
