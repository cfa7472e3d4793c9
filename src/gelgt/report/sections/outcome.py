"""Predictions against labels, with charts for each task type: on the test rows, or validation where
test has no labels."""

import math

import numpy as np

from gelgt.report.charts import Plot
from gelgt.report.curves import precision_recall, robust_range, roc
from gelgt.report.html import Section, escape, figure, figures, legend, note
from gelgt.report.numbers import count, heading, number, percent, score, word
from gelgt.report.run import Run
from gelgt.report.scales import Scale, linear
from gelgt.report.sections import classes
from gelgt.report.sections.headline import split_word
from gelgt.runs.intervals import value
from gelgt.runs.predictions import BINARY, MULTICLASS, MULTILABEL, REGRESSION, Array, Predictions

BARS = 31  # of a histogram of errors, at most
DRAWN = 1_500  # dots of a scatter; all rows count in every number
_TITLES = {
    BINARY: "ROC and precision-recall",
    REGRESSION: "Predicted and true values",
    MULTICLASS: "Confusion matrix",
    MULTILABEL: "Scores by label",
}
_AIDS = {
    BINARY: "The closer a curve comes to its corner (top left for ROC, top right for precision and "
    "recall), the better the model separates yes from no.",
    REGRESSION: "Good predictions lie near the diagonal, and their errors are small and centred "
    "on 0.",
    MULTICLASS: "Each row is a true class, with the share of each predicted class; a perfect model "
    "has 100 % on the diagonal.",
    MULTILABEL: "One row for each label, the most frequent first; chance has an ROC-AUC of 0.5.",
}


def section(run: Run) -> Section | None:
    """None for recommendations, which have a section of their own."""
    if run.is_recommendation:
        return None
    kind = run.record.task.task_type
    aid = _AIDS.get(kind, "Predictions against labels.")
    title = _TITLES.get(kind, "Predictions")
    if kind not in _TITLES:
        return Section(
            "outcome",
            title,
            aid,
            note(f"Left out: there is no chart for tasks of type {escape(kind)}."),
        )
    rows, split = shown(run)
    if rows is None or not len(rows):
        return Section(
            "outcome",
            title,
            aid,
            note("Left out: the run folder has no predictions with labels."),
        )
    draw = {
        BINARY: _binary,
        REGRESSION: _regression,
        MULTICLASS: classes.confusion,
        MULTILABEL: classes.by_label,
    }[kind]
    counted = f"{count(len(rows))} {split_word(split)} rows"
    if rows.left_out:
        counted += f"; {count(rows.left_out)} more have no label or no usable score"
    return Section("outcome", title, aid, draw(run, rows) + f'<p class="small">{counted}.</p>')


def shown(run: Run) -> tuple[Predictions | None, str]:
    """The test rows and their split, or the validation rows where test has no labels."""
    return (run.test, "test") if run.test is not None and len(run.test) else (run.val, "val")


def _binary(run: Run, rows: Predictions) -> str:
    positives = float((rows.label > 0.5).mean())
    if positives in (0.0, 1.0):
        only = "yes" if positives else "no"
        return note(f"Left out: every label is {only}, so there is no curve.")
    roc_plot = Plot(
        linear(0, 1, "false positive rate"), linear(0, 1, "true positive rate"), "ROC curve", 320
    )
    roc_plot.segment((0, 0), (1, 1))
    precision_plot = Plot(
        linear(0, 1, "recall"), linear(0, 1, "precision"), "Precision-recall curve", 320
    )
    precision_plot.segment((0, positives), (1, positives))
    for model in reversed(rows.scores):  # the run's own curve lies on top
        scores, colour = rows.scores[model], run.colour(model)
        css = "" if model == run.record.model else "thin"
        roc_plot.line(*roc(rows.label, scores), colour, css, word(model))
        precision_plot.line(*precision_recall(rows.label, scores), colour, css, word(model))
    captions = [
        f"Area under the curve: {_by_model(rows, 'roc_auc')}; dashed: chance, 0.5.",
        f"Average precision: {_by_model(rows, 'average_precision')}; dashed: chance, the share of "
        f"yes, {percent(positives)}.",
    ]
    key = legend((heading(model), run.colour(model), "line") for model in rows.scores)
    return figures(
        [
            figure("ROC", roc_plot.svg(), captions[0], key),
            figure("Precision and recall", precision_plot.svg(), captions[1], key),
        ]
    )


def _by_model(rows: Predictions, metric: str) -> str:
    return ", ".join(
        f"{escape(word(model))} {score(value(metric, rows, model))}" for model in rows.scores
    )


def _regression(run: Run, rows: Predictions) -> str:
    predicted = rows.scores[run.record.model]
    low, high = robust_range(np.concatenate([predicted, rows.label]))
    room = 0.02 * (high - low)  # so that no dot lies on the frame
    axis = linear(low - room, high + room, "predicted value", is_exact=True)
    plot = Plot(
        axis,
        Scale(axis.low, axis.high, axis.ticks, "true value"),
        "Predicted and true values",
        height=340,
    )
    plot.segment((axis.low, axis.low), (axis.high, axis.high))
    drawn = np.arange(len(rows))
    if len(rows) > DRAWN:
        drawn = np.random.default_rng(0).choice(len(rows), DRAWN, replace=False)
    x, y = predicted[drawn], rows.label[drawn]
    is_grid = _is_whole(x) and _is_whole(y)
    if is_grid:
        moved = np.random.default_rng(1).uniform(-0.3, 0.3, (2, len(drawn)))
        shown = np.clip(x + moved[0], axis.low, axis.high), np.clip(y + moved[1], axis.low, None)
    else:
        shown = x, y
    plot.dots(shown[0].tolist(), shown[1].tolist(), css="cloud", radius=3)
    beyond = int(((y > axis.high) | (y < axis.low) | (x > axis.high)).sum())
    of_all = f", {count(DRAWN)} of {count(len(rows))} drawn at random" if len(rows) > DRAWN else ""
    caption = f"One dot for each row{of_all}; dashed: exact."
    caption += " Whole numbers are moved a little, so that equal ones show." if is_grid else ""
    caption += f" {count(beyond)} beyond the axes are drawn at their edge." if beyond else ""
    return figures(
        [figure("Predicted against true", plot.svg(), caption), _residuals(rows, predicted)]
    )


def _residuals(rows: Predictions, predicted: Array) -> str:
    residual = predicted - rows.label
    low, high = robust_range(residual)
    edges = _edges(max(abs(low), abs(high)) or 1.0, _is_whole(residual))
    reach = float(edges[-1])
    counts, _ = np.histogram(np.clip(residual, -reach, reach), bins=edges)
    x = linear(-reach, reach, "predicted minus true", is_exact=True)
    plot = Plot(x, linear(0, float(counts.max()), "rows"), "Histogram of residuals", height=340)
    plot.bars(
        list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)), [float(c) for c in counts]
    )
    plot.upright(0)
    middle, inner = float(np.median(residual)), float(np.quantile(np.abs(residual), 0.9))
    caption = (
        f"Median {number(middle)}; 90 % lie within ±{number(inner)}. The outermost bars include "
        "everything beyond."
    )
    return figure("Residuals", plot.svg(), caption)


def _edges(reach: float, is_whole: bool) -> Array:
    """The edges of at most 31 bars around 0; each holds the same number of whole errors, where all
    are whole."""
    if not is_whole:
        return np.linspace(-reach, reach, BARS + 1)
    step = math.ceil((2 * reach + 1) / BARS)
    step += 1 - step % 2  # so that 0 is in the middle of a bar
    beside = math.ceil((reach - step // 2) / step)  # bars on each side of it
    return (np.arange(2 * beside + 2) - beside - 0.5) * step


def _is_whole(values: Array) -> bool:
    return bool((values == np.rint(values)).all())
