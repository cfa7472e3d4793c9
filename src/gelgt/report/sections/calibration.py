"""Calibration: whether a predicted probability of 0.3 comes true in 30 % of the rows, and large
predictions come with large values."""

from dataclasses import dataclass

import numpy as np

from gelgt.report.charts import Plot
from gelgt.report.curves import deciles, wilson
from gelgt.report.html import Section, figure, figures, note, table
from gelgt.report.numbers import LEVEL, count, number, percent, score
from gelgt.report.run import Run
from gelgt.report.scales import Scale, linear
from gelgt.report.sections.headline import split_word
from gelgt.report.sections.outcome import shown
from gelgt.runs.predictions import BINARY, MULTICLASS, REGRESSION, Array, Predictions

BINS = 10
_DIAGONAL = (
    "On the diagonal, predicted probabilities equal observed shares; below it predictions are too "
    "high, above it too low."
)
_AIDS = {
    BINARY: _DIAGONAL,
    MULTICLASS: f"{_DIAGONAL} The probability is that of the likeliest class, which is right or "
    "not.",
    REGRESSION: "The rows are sorted by prediction and cut into tenths; on the diagonal, "
    "predictions are right on average.",
}


def section(run: Run) -> Section | None:
    """None for task types that have no such chart."""
    kind = run.record.task.task_type
    if kind not in _AIDS:
        return None
    rows, split = shown(run)
    if rows is None or not len(rows):
        body = note("Left out: the run folder has no predictions with labels.")
        return Section("calibration", "Calibration", _AIDS[kind], body)
    predicted = rows.scores[run.record.model]
    body = (
        _regression(rows, predicted) if kind == REGRESSION else _probabilities(run, rows, predicted)
    )
    body += f'<p class="small">{count(len(rows))} {split_word(split)} rows.</p>'
    return Section("calibration", "Calibration", _AIDS[kind], body)


@dataclass(frozen=True)
class Bin:
    """Rows of similar probability."""

    low: float
    high: float
    rows: int
    predicted: float
    observed: float

    @property
    def interval(self) -> tuple[float, float]:
        """Of the observed share."""
        return wilson(self.observed, self.rows)


def bins(label: Array, probability: Array) -> list[Bin]:
    """Ten bins of equal width from 0 to the largest probabilities, so that those of a rare event do
    not all fall into one bin."""
    top = float(np.quantile(probability, 0.998))
    high = next(h for h in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if top <= h or h == 1.0)
    place = np.clip((probability / high * BINS).astype(int), 0, BINS - 1)
    filled = []
    for i in range(BINS):
        rows = place == i
        if rows.any():
            means = float(probability[rows].mean()), float(label[rows].mean())
            filled.append(Bin(i * high / BINS, (i + 1) * high / BINS, int(rows.sum()), *means))
    return filled


def calibration_error(filled: list[Bin]) -> float:
    """Expected calibration error: the mean gap between predicted and observed, weighted by rows."""
    return sum(b.rows * abs(b.predicted - b.observed) for b in filled) / sum(b.rows for b in filled)


def _probabilities(run: Run, rows: Predictions, probability: Array) -> str:
    """Reliability, before and after the map of probabilities where the run has one."""
    filled = bins(*_event(rows.label, probability))
    lines = [
        [
            f"{number(b.low)} to {number(b.high)}",
            count(b.rows),
            score(b.predicted),
            score(b.observed),
        ]
        for b in filled
    ]
    came_true, predicted = _event(rows.label, probability)
    means = score(float(predicted.mean())), score(float(came_true.mean()))
    lines.append(["<b>all</b>", count(len(rows)), *means])
    html = table(["Probability", "rows", "predicted", "came true"], lines)
    numbers = f"<figure><h3>In numbers</h3>{html}</figure>"
    used = run.record.probabilities
    if used is None or used.kind == "none":
        return figures([_figure("Reliability", filled), numbers])
    raw = used.before(probability)
    before = bins(*_event(rows.label, raw))
    losses = [log_loss(rows.label, p) for p in (raw, probability)]
    words = (
        f"Probabilities are calibrated by {used.words}, fitted on {count(used.rows)} "
        f"validation rows, which keeps their order. On held-out validation entities it lowers the "
        f"log loss by {score(used.gain)} ± {score(used.error)}; on these rows it goes from "
        f"{score(losses[0])} to {score(losses[1])}."
    )
    pictures = [_figure("Reliability before", before), _figure("Reliability after", filled)]
    return note(words) + figures([*pictures, numbers])


def _event(label: Array, probability: Array) -> tuple[Array, Array]:
    """What came true, and its probability; of several classes, that the likeliest is right."""
    if probability.ndim == 1:
        return label, probability
    return (probability.argmax(axis=1) == label).astype(float), probability.max(axis=1)


def log_loss(label: Array, probability: Array) -> float:
    """Mean log loss; a class that training never saw counts as one of probability 0."""
    if probability.ndim == 1:
        true = np.where(label > 0.5, probability, 1 - probability)
    else:
        places = np.maximum(label, 0).astype(int)[:, None]
        true = np.where(label < 0, 0.0, np.take_along_axis(probability, places, axis=1)[:, 0])
    return float(-np.log(np.clip(true, 1e-7, 1)).mean())


def _figure(title: str, filled: list[Bin]) -> str:
    caption = (
        f"Expected calibration error {score(calibration_error(filled))}. Vertical lines: {LEVEL} "
        "intervals; bars: number of rows."
    )
    return figure(title, _reliability(filled), caption)


def _reliability(filled: list[Bin]) -> str:
    """Observed share against predicted probability, above bars of the rows."""
    predicted, observed = [b.predicted for b in filled], [b.observed for b in filled]
    end = max(*predicted, *observed, filled[-1].high)
    axis = linear(0, min(end, 1.0), "predicted probability")
    plot = Plot(
        axis,
        Scale(axis.low, axis.high, axis.ticks, "share that came true"),
        "Reliability diagram",
        height=340,
    )
    most = max(b.rows for b in filled)  # its bar takes a quarter of the height
    heights = [axis.high / 4 * b.rows / most for b in filled]
    plot.bars([(b.low, b.high) for b in filled], heights, colour=2, css="area")
    plot.segment((0, 0), (axis.high, axis.high))
    plot.spans(predicted, [b.interval for b in filled])
    names = [
        f"{count(b.rows)} rows: predicted {percent(b.predicted)}, came true {percent(b.observed)}"
        for b in filled
    ]
    plot.line(predicted, observed, css="thin")
    plot.dots(predicted, observed, radius=4.5, names=names)
    return plot.svg()


def _regression(rows: Predictions, predicted: Array) -> str:
    groups = deciles(predicted)
    xs = [float(predicted[g].mean()) for g in groups]
    ys = [float(rows.label[g].mean()) for g in groups]
    errors = [1.96 * float(rows.label[g].std()) / np.sqrt(len(g)) for g in groups]
    ranges = [(y - e, y + e) for y, e in zip(ys, errors, strict=True)]
    ends = [*xs, *ys, *(v for r in ranges for v in r)]
    axis = linear(min(ends), max(ends), "mean prediction")
    plot = Plot(
        axis,
        Scale(axis.low, axis.high, axis.ticks, "mean true value"),
        "Mean true value by decile of prediction",
        height=340,
    )
    plot.segment((axis.low, axis.low), (axis.high, axis.high))
    plot.spans(xs, ranges)
    plot.line(xs, ys, css="thin")
    plot.dots(xs, ys, radius=4.5, names=[f"{count(len(g))} rows" for g in groups])
    lines = [
        [str(i + 1), count(len(g)), score(x, ends), score(y, ends)]
        for i, (g, x, y) in enumerate(zip(groups, xs, ys, strict=True))
    ]
    caption = (
        f"Vertical lines: {LEVEL} intervals of the mean. Rows with equal predictions stay in one "
        "group, so there may be fewer than ten."
    )
    html = table(["Tenth", "rows", "predicted", "true"], lines)
    return figures(
        [
            figure("Mean true value by prediction", plot.svg(), caption),
            f"<figure><h3>In numbers</h3>{html}</figure>",
        ]
    )
