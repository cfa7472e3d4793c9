"""Each section says the right numbers."""

import json
import re
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pages import metrics_of, update, words
from sklearn.metrics import accuracy_score, confusion_matrix, mean_absolute_error, roc_auc_score

from gelgt.report.run import Run
from gelgt.report.sections import (
    attention,
    calibration,
    learning,
    outcome,
    profile,
    scores,
    setup,
    slices,
)


def test_scores_table_bolds_the_best_and_gives_intervals(made_run: Any) -> None:
    run = Run(made_run())
    html = scores.section(run).html()
    for model in run.models:
        for split in ("val", "test"):
            assert f">{run.score(model, split, 'average_precision'):.3f}</td>" in html
    assert html.count('class="n best"') == 6  # three metrics, two splits: gelgt wins all
    assert run.intervals is not None
    one, gain = run.intervals.models["gelgt"], run.intervals.gains["lightgbm"]
    assert f"{one.low:.3f} to {one.high:.3f}" in html
    assert f"+{gain.low:.3f} to +{gain.high:.3f}" in html
    # some customers come twice
    assert "1,000 bootstrap resamples of the entities of the 600 test rows" in words(html)
    assert "95 % interval over entities" in words(html)
    assert "warn" not in html


def test_scores_that_do_not_belong_to_the_predictions_are_pointed_out(made_run: Any) -> None:
    folder = made_run()
    update(folder, metrics={"test": {"roc_auc": 0.99}})
    assert "metrics.json has a test ROC-AUC of 0.990, but predictions/test.parquet gives" in words(
        scores.section(Run(folder)).body
    )


def test_learning_curve_marks_the_best_epoch_and_near_baselines(made_run: Any) -> None:
    folder = made_run()
    text = learning.section(Run(folder)).body
    assert f"Best at epoch 7: {metrics_of(folder)['metrics']['val']['roc_auc']:.3f}." in text
    assert text.count('class="rule"') == 2
    assert "An epoch took 3.2 s (median of 12)" in text
    value = metrics_of(folder)["metrics"]["val"]["roc_auc"] - 0.02
    update(
        folder,
        baselines={
            "lightgbm": {"val": {"roc_auc": value}},
            "entity-mean": {"val": {"roc_auc": 0.1}},
        },
    )
    text = learning.section(Run(folder)).body
    assert "LightGBM" in text
    assert "entity mean" not in text  # so far away that it would flatten the curve


def test_the_loss_says_what_it_holds_besides_labels(made_run: Any) -> None:
    folder, beside = made_run(), "It includes what else the windows of labels hold"
    assert beside not in learning.section(Run(folder)).body
    update(folder, config=metrics_of(folder)["config"] | {"model": {"futures": 3.0}})
    assert beside in learning.section(Run(folder)).body
    update(folder, task=metrics_of(folder)["task"] | {"task_type": "regression"})
    assert beside not in learning.section(Run(folder)).body


def test_roc_captions_equal_scikit_learn(made_run: Any) -> None:
    folder = made_run()
    rows = pq.read_table(folder / "predictions" / "test.parquet").to_pandas()
    text = words(outcome.section(Run(folder)).body)
    for name, column in (
        ("gelgt", "probability"),
        ("LightGBM", "baseline:lightgbm"),
        ("entity mean", "baseline:entity-mean"),
    ):
        assert f"{name} {roc_auc_score(rows['label'], rows[column]):.3f}" in text
    assert f"the share of yes, {rows['label'].mean():.0%}".replace("%", " %") in text


def test_one_class_only_has_no_curve(made_run: Any) -> None:
    folder = made_run()
    for split in ("val", "test"):
        path = folder / "predictions" / f"{split}.parquet"
        rows = pq.read_table(path)
        place = rows.column_names.index("label")
        pq.write_table(rows.set_column(place, "label", [np.zeros(len(rows))]), path)
    run = Run(folder)
    assert "every label is no" in outcome.section(run).body
    assert "cannot be computed" in slices.section(run).body
    assert "cannot be resampled" in scores.section(run).body


def test_residuals_and_sampled_scatter(made_run: Any) -> None:
    run = Run(made_run("regression", rows=2500))
    text = outcome.section(run).body
    assert text.count("<circle") == outcome.DRAWN
    assert "1,500 of 2,500 drawn at random" in text
    assert run.test is not None
    residual = run.test.scores["gelgt"] - run.test.label
    assert f"90 % lie within ±{np.quantile(np.abs(residual), 0.9):.2f}" in text


def test_whole_predictions_are_shown_apart(made_run: Any) -> None:
    folder = made_run("regression", rows=300)
    path = folder / "predictions" / "test.parquet"
    rows = pq.read_table(path)
    for name in ("label", "prediction"):
        values = np.rint(rows.column(name).to_numpy() / 3)
        rows = rows.set_column(rows.column_names.index(name), name, [values])
    pq.write_table(rows, path)
    text = outcome.section(Run(folder)).body
    assert "moved a little" in text
    dots = set(re.findall(r'<circle[^>]* cx="([\d.]+)" cy="([\d.]+)"', text))
    assert len(dots) > 250


@pytest.mark.parametrize("reach", [1.0, 8.3, 15.0, 15.4, 16.0, 100.0, 1e6])
def test_bars_of_whole_errors_hold_equally_many(reach: float) -> None:
    edges = outcome._edges(reach, is_whole=True)
    assert 3 <= len(edges) - 1 <= outcome.BARS
    assert edges[-1] == -edges[0] >= reach
    held = np.histogram(np.arange(np.ceil(edges[0]), edges[-1]), edges)[0]
    assert len(set(held.tolist())) == 1


def test_confusion_matrix_equals_scikit_learn(made_run: Any) -> None:
    folder = made_run("multiclass_classification")
    rows = pq.read_table(folder / "predictions" / "test.parquet").to_pandas()
    names = ["delivered", "returned", "lost"]
    matrix = confusion_matrix(rows["label"], rows["prediction"], labels=names)
    html = outcome.section(Run(folder)).body
    assert [int(n) for n in re.findall(r'title="(\d+) rows"', html)] == matrix.ravel().tolist()
    assert accuracy_score(rows["label"], rows["prediction"]) == pytest.approx(
        np.trace(matrix) / matrix.sum()
    )


def test_per_label_scores(made_run: Any) -> None:
    folder = made_run("multilabel_classification")
    rows = pq.read_table(folder / "predictions" / "test.parquet").to_pandas()
    text = words(outcome.section(Run(folder)).body)
    has_toys = rows["label"].map(lambda given: "toys" in given)
    share = f"{has_toys.mean():.0%}".replace("%", " %")
    assert (
        f"toys {has_toys.sum()} {share} {roc_auc_score(has_toys, rows['probability_toys']):.3f}"
        in text
    )


def test_calibration_bins_and_error() -> None:
    probability = np.array([0.05] * 10 + [0.95] * 10)
    label = np.array([0.0] * 10 + [1.0] * 5 + [0.0] * 5)
    made = calibration.bins(label, probability)
    assert [(b.rows, round(b.predicted, 2), b.observed) for b in made] == [
        (10, 0.05, 0.0),
        (10, 0.95, 0.5),
    ]
    assert calibration.calibration_error(made) == pytest.approx((0.05 + 0.45) / 2)
    low, high = made[1].interval
    assert (low, high) == pytest.approx((0.2366, 0.7634), abs=1e-3)  # Wilson, 5 of 10
    rare = calibration.bins(label, probability / 50)
    assert rare[-1].high == pytest.approx(0.02)  # a rare event still fills its bins


def test_calibration_by_deciles(made_run: Any) -> None:
    run = Run(made_run("regression"))
    found = calibration.section(run)
    assert found is not None
    assert run.test is not None
    first = np.argsort(run.test.scores["gelgt"])[:60]
    assert f"1 60 {run.test.scores['gelgt'][first].mean():.2f}".replace("-", "−") in words(
        found.body
    )
    assert calibration.section(Run(made_run("multilabel_classification"))) is None


def test_slices_cover_every_row_once(made_run: Any) -> None:
    folder = made_run("regression")
    run = Run(folder)
    made = slices.slices(run)
    assert [one.split for one in made] == ["val"] * 3 + ["test"] * 5
    assert sum(one.rows for one in made) == 1200
    rows = pq.read_table(folder / "predictions" / "test.parquet").to_pandas()
    first = rows[rows["time"] == rows["time"].min()]
    assert made[3].first == "2024-07-01"
    assert made[3].rows == len(first)
    assert made[3].scores["gelgt"] == pytest.approx(
        mean_absolute_error(first["label"], first["prediction"])
    )
    assert made[3].scores["lightgbm"] == pytest.approx(
        mean_absolute_error(first["label"], first["baseline:lightgbm"])
    )


def test_many_seed_times_are_grouped(made_run: Any) -> None:
    folder = made_run()
    for split, days in (("val", 40), ("test", 300)):
        path = folder / "predictions" / f"{split}.parquet"
        rows = pq.read_table(path)
        times = np.datetime64("2024-01-01", "us") + (np.arange(len(rows)) % days) * np.timedelta64(
            1, "D"
        )
        pq.write_table(rows.set_column(rows.column_names.index("time"), "time", [times]), path)
    made = slices.slices(Run(folder))
    assert len(made) <= slices.MOST
    assert sum(one.rows for one in made) == 1200
    assert {one.split for one in made} == {"val", "test"}
    assert " to " in made[-1].words


def test_profile_draws_each_head_and_tells_kernels(made_run: Any) -> None:
    run = Run(made_run())
    html = profile.section(run).body
    assert html.count('class="c2 solid"><title>centre') == 8  # four kernels on each of two layers
    assert len(re.findall(r"<title>head \d</title>", html)) == 8
    assert "centre 31.2 days, width 4.0 days" in html
    assert "Layer 1" in html
    assert "log scale" in html
    assert run.profile is not None
    weights = [
        (abs(w), k.centre_days)
        for layer in run.profile.bias
        for k in layer.kernels
        for w in k.weights
    ]
    assert f"rows about {max(weights)[1]:g} days old" in html


def test_more_heads_than_colours(made_run: Any) -> None:
    folder = made_run()
    content = json.loads((folder / "profile.json").read_text())
    layer = content["bias"][0] | {"layer": "all", "heads": content["bias"][0]["heads"] * 3}
    (folder / "profile.json").write_text(json.dumps({"bias": [layer]}))
    html = profile.section(Run(folder)).body
    assert "All layers" in html
    assert "heads 8 to 12" in html


def test_attention_beside_rows(made_run: Any) -> None:
    text = words(attention.section(Run(made_run())).body)
    assert "orders orders 42 % · 22 %" in text
    assert "hop 2, rows linked to those 30 % · 70 %" in text
    assert "512 seeds" in text
    assert "52 % from the Gaussian attention branch and 48 % from the graph network branch" in text


def test_many_tables_are_taken_together(made_run: Any) -> None:
    folder = made_run()
    tables = {f"t{i:02}": 1 / 40 for i in range(40)}
    (folder / "profile.json").write_text(
        json.dumps({"attention": {"by_table": tables, "rows_by_table": tables}})
    )
    text = words(attention.section(Run(folder)).body)
    assert "29 other tables 29 other tables 73 % · 73 %" in text


def test_setup_gives_a_command_that_can_be_pasted(made_run: Any) -> None:
    import shlex

    run = Run(made_run())
    line = shlex.split(setup.command(run))
    sentence = run.record.task.sentence
    assert line[:4] == ["gelgt", "train", "postgresql://reader@db.example:5432/shop", sentence]
    assert line[4:] == [
        "--out",
        "runs/shop-churn",
        "--preset",
        "cpu",
        "--seed",
        "0",
        "--visibility",
        "seed-time",
    ]
    text = words(setup.section(run).body)
    for part in (
        "training 1 min 2 s 90 %",
        "torch 2.13.0",
        "encoders table, hop, age",
        "horizon none",
        "average yes",
        "orders 48,211",
    ):
        assert part in text
    assert "without its password" in text
