"""Calibration: whether a predicted probability of 0.3 comes true in 30 % of the rows, and large
predictions come with large values."""

from dataclasses import dataclass

import numpy as np

from gelgt.report.charts import Plot
from gelgt.report.curves import deciles
from gelgt.report.html import Section, figure, figures, note, table
from gelgt.report.numbers import LEVEL, count, number, percent, score
from gelgt.report.run import Run
from gelgt.report.scales import Scale, linear
from gelgt.report.sections.headline import split_word
from gelgt.report.sections.outcome import shown
from gelgt.runs.predictions import BINARY, REGRESSION, Array, Predictions

BINS = 10


def section(run: Run) -> Section | None:
    """None for task types that have no such chart."""
    kind = run.record.task.task_type
    if kind not in (BINARY, REGRESSION):
        return None
    aid = {
        BINARY: "On the diagonal, predicted probabilities equal observed shares; below it "
        "predictions are too high, above it too low.",
        REGRESSION: "The rows are sorted by prediction and cut into tenths; on the diagonal, "
        "predictions are right on average.",
    }[kind]
    rows, split = shown(run)
    if rows is None or not len(rows):
        return Section(
            "calibration",
            "Calibration",
            aid,
            note("Left out: the run folder has no predictions with labels."),
        )
    body = (_binary if kind == BINARY else _regression)(rows, rows.scores[run.record.model])
    return Section(
        "calibration",
        "Calibration",
        aid,
        body + f'<p class="small">{count(len(rows))} {split_word(split)} rows.</p>',
    )


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
        """Wilson's interval of the observed share, which also holds for few rows and for shares of
        0 and 1."""
        z, n, p = 1.96, self.rows, self.observed
        middle, half = (
            p + z * z / (2 * n),
            z * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))),
        )
        return max((middle - half) / (1 + z * z / n), 0.0), min(
            (middle + half) / (1 + z * z / n), 1.0
        )


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


def _binary(rows: Predictions, probability: Array) -> str:
    filled = bins(rows.label, probability)
    caption = (
        f"Expected calibration error {score(calibration_error(filled))}. Vertical lines: {LEVEL} "
        "intervals; bars: number of rows."
    )
    lines = [
        [
            f"{number(b.low)} to {number(b.high)}",
            count(b.rows),
            score(b.predicted),
            score(b.observed),
        ]
        for b in filled
    ]
    means = score(float(probability.mean())), score(float(rows.label.mean()))
    lines.append(["<b>all</b>", count(len(rows)), *means])
    html = table(["Probability", "rows", "predicted", "came true"], lines)
    return figures(
        [
            figure("Reliability", _reliability(filled), caption),
            f"<figure><h3>In numbers</h3>{html}</figure>",
        ]
    )


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
