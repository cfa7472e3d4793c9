"""What the predictions look like against the truth: a chart of its own for each task type, on the
test rows (else validation)."""

import numpy as np

from gelgt.report.charts import Plot
from gelgt.report.curves import precision_recall, robust_range, roc
from gelgt.report.html import Section, escape, figure, figures, legend, note
from gelgt.report.numbers import count, heading, number, percent, score, word
from gelgt.report.predictions import BINARY, MULTICLASS, MULTILABEL, REGRESSION, Array, Predictions
from gelgt.report.run import Run
from gelgt.report.scales import Scale, linear
from gelgt.report.scoring import value
from gelgt.report.sections import classes
from gelgt.report.sections.headline import split_word

DRAWN = 1_500  # dots of a scatter; all rows count in every number
_TITLES = {
    BINARY: "ROC and precision-recall",
    REGRESSION: "Predicted and true values",
    MULTICLASS: "Confusion matrix",
    MULTILABEL: "Scores by label",
}
_AIDS = {
    BINARY: "The closer a curve comes to its good corner (top left for ROC, top right for "
    "precision), the better yes is told from no.",
    REGRESSION: "Good predictions lie near the diagonal, and their errors are small and centred "
    "on 0.",
    MULTICLASS: "Each row is a true class and says what became of it; all of the weight on the "
    "diagonal would be perfect.",
    MULTILABEL: "One line a label, the most frequent first; a model that knows nothing has an "
    "ROC-AUC of 0.5.",
}


def section(run: Run) -> Section:
    kind = run.facts.task.task_type
    aid = _AIDS.get(kind, "Predictions against the truth.")
    title = _TITLES.get(kind, "Predictions")
    if kind not in _TITLES:
        return Section(
            "outcome",
            title,
            aid,
            note(f"Left out: there are no charts for tasks of the type {escape(kind)}."),
        )
    found, split = shown(run)
    if found is None or not len(found):
        return Section(
            "outcome",
            title,
            aid,
            note("Left out: there are no predictions with labels in the run folder."),
        )
    draw = {
        BINARY: _binary,
        REGRESSION: _regression,
        MULTICLASS: classes.confusion,
        MULTILABEL: classes.by_label,
    }[kind]
    counted = f"{count(len(found))} {split_word(split)} rows"
    if found.left_out:
        counted += f"; {count(found.left_out)} more have no label or no usable score"
    return Section("outcome", title, aid, draw(run, found) + f'<p class="small">{counted}.</p>')


def shown(run: Run) -> tuple[Predictions | None, str]:
    """The test rows, or the validation rows where test has no labels."""
    return (run.test, "test") if run.test is not None and len(run.test) else (run.val, "val")


def _binary(run: Run, found: Predictions) -> str:
    positives = float((found.label > 0.5).mean())
    if positives in (0.0, 1.0):
        return note(
            f"Left out: every label is {'yes' if positives else 'no'}, so there is no curve."
        )
    ranks = Plot(
        linear(0, 1, "false positive rate (no taken for yes)"),
        linear(0, 1, "true positive rate (yes found)"),
        "ROC curve",
        height=320,
    )
    ranks.segment((0, 0), (1, 1))
    precise = Plot(
        linear(0, 1, "recall (share of yes found)"),
        linear(0, 1, "precision (share right)"),
        "Precision-recall curve",
        height=320,
    )
    precise.segment((0, positives), (1, positives))
    told: dict[str, list[str]] = {"roc_auc": [], "average_precision": []}
    for model in reversed(found.scores):  # the run's own curve lies on top
        css = "" if model == run.facts.model else "thin"
        ranks.line(*roc(found.label, found.scores[model]), run.colour(model), css, word(model))
        precise.line(
            *precision_recall(found.label, found.scores[model]), run.colour(model), css, word(model)
        )
        for metric, lines in told.items():
            lines.insert(0, f"{escape(word(model))} {score(value(metric, found, model))}")
    key = legend((heading(model), run.colour(model), "line") for model in found.scores)
    return figures(
        [
            figure(
                "ROC",
                ranks.svg(),
                f"Area under the curve: {', '.join(told['roc_auc'])}; dashed: chance, 0.5.",
                key,
            ),
            figure(
                "Precision and recall",
                precise.svg(),
                f"Average precision: {', '.join(told['average_precision'])}; dashed: chance, the "
                f"share of yes, {percent(positives)}.",
                key,
            ),
        ]
    )


def _regression(run: Run, found: Predictions) -> str:
    predicted = found.scores[run.facts.model]
    low, high = robust_range(np.concatenate([predicted, found.label]))
    room = 0.02 * (high - low)  # so that no dot lies on the frame
    axis = linear(low - room, high + room, "predicted value", is_exact=True)
    plot = Plot(
        axis,
        Scale(axis.low, axis.high, axis.ticks, "true value"),
        "Predicted and true values",
        height=340,
    )
    plot.segment((axis.low, axis.low), (axis.high, axis.high))
    rows = np.arange(len(found))
    if len(found) > DRAWN:
        rows = np.random.default_rng(0).choice(len(found), DRAWN, replace=False)
    plot.dots(predicted[rows].tolist(), found.label[rows].tolist(), css="cloud", radius=3)
    beyond = int(
        (
            (found.label[rows] > axis.high)
            | (found.label[rows] < axis.low)
            | (predicted[rows] > axis.high)
        ).sum()
    )
    caption = (
        "A dot a "
        f"row{f', {count(DRAWN)} of {count(len(found))} drawn at random' if len(found) > DRAWN else ''}; dashed: exact."
    )
    caption += f" {count(beyond)} beyond the axes are drawn at their edge." if beyond else ""
    return figures(
        [figure("Predicted against true", plot.svg(), caption), _residuals(found, predicted)]
    )


def _residuals(found: Predictions, predicted: Array) -> str:
    residual = predicted - found.label
    low, high = robust_range(residual)
    reach = max(abs(low), abs(high)) or 1.0
    counts, edges = np.histogram(np.clip(residual, -reach, reach), bins=31, range=(-reach, reach))
    x = linear(-reach, reach, "predicted minus true", is_exact=True)
    plot = Plot(x, linear(0, float(counts.max()), "rows"), "Histogram of residuals", height=340)
    plot.bars(
        list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)), [float(c) for c in counts]
    )
    plot.upright(0)
    middle, inner = float(np.median(residual)), float(np.quantile(np.abs(residual), 0.9))
    caption = (
        f"Median {number(middle)}; nine of ten lie within ±{number(inner)}. The outermost "
        "bars also hold what lies beyond."
    )
    return figure("Residuals", plot.svg(), caption)
