"""The score over time: seed times of validation and test, grouped into at most twelve slices."""

from dataclasses import dataclass

import numpy as np

from gelgt.report.charts import Plot
from gelgt.report.html import Section, escape, figure, figures, legend, note, table
from gelgt.report.numbers import count, heading, moment, score, word
from gelgt.report.run import Run
from gelgt.report.scales import linear, named
from gelgt.report.sections.headline import split_word
from gelgt.runs.intervals import value
from gelgt.runs.predictions import Predictions

MOST = 12


@dataclass(frozen=True)
class Slice:
    """Rows of neighbouring seed times in one split."""

    split: str
    first: str
    last: str
    rows: int
    scores: dict[str, float | None]

    @property
    def words(self) -> str:
        return self.first if self.first == self.last else f"{self.first} to {self.last}"


def section(run: Run) -> Section | None:
    """None for recommendations with one seed time in each split, which have no course of time."""
    if run.is_recommendation and not _has_several_times(run):
        return None
    title, metric = "Score over time", word(run.record.metric)
    named = escape(heading(run.record.metric))
    aid = (
        f"{named} by seed time: a line that gets worse says that the model ages; with few rows it "
        "jumps."
    )
    parts = slices(run)
    missing = ""
    if not parts:
        missing = "the run folder has no predictions with labels and seed times"
    elif all(value is None for part in parts for value in part.scores.values()):
        missing = f"{escape(metric)} cannot be computed from the predictions of a slice"
    if missing:
        return Section("slices", title, aid, note(f"Left out: {missing}."))
    models = [m for m in parts[-1].scores if any(part.scores.get(m) is not None for part in parts)]
    rows = [
        [
            escape(part.words),
            escape(split_word(part.split)),
            count(part.rows),
            *(score(part.scores.get(m)) for m in models),
        ]
        for part in parts
    ]
    head = ["Seed times", "split", "rows", *(escape(heading(m)) for m in models)]
    html = _pictures(run, parts, models, metric) + table(head, rows, words=2)
    if any(part.scores.get(m) is None for part in parts for m in models):
        html += note("–: the slice has one class only, for which the metric is undefined.")
    return Section("slices", title, aid, html)


def _has_several_times(run: Run) -> bool:
    return any(
        p is not None and p.time is not None and len(np.unique(p.time)) > 1
        for p in (run.val, run.test)
    )


def slices(run: Run) -> list[Slice]:
    """Slices in the order of time; each split has a number of them by its seed times, at least
    one."""
    splits = {
        split: p
        for split, p in (("val", run.val), ("test", run.test))
        if p is not None and p.time is not None and len(p)
    }
    times = {split: np.unique(p.time) for split, p in splits.items() if p.time is not None}
    total = sum(len(t) for t in times.values())
    parts: list[Slice] = []
    for split, distinct in times.items():
        wanted = len(distinct) if total <= MOST else max(1, round(MOST * len(distinct) / total))
        if len(times) == 2:
            wanted = min(wanted, MOST - 1)
        for group in np.array_split(distinct, min(wanted, len(distinct))):
            parts.append(_slice(run, split, splits[split], group[0], group[-1]))
    return parts


def _slice(
    run: Run, split: str, predictions: Predictions, first: np.datetime64, last: np.datetime64
) -> Slice:
    assert predictions.time is not None
    rows = predictions.take((predictions.time >= first) & (predictions.time <= last))
    scores = {model: value(run.record.metric, rows, model) for model in predictions.scores}
    return Slice(split, moment(str(first)), moment(str(last)), len(rows), scores)


def _pictures(run: Run, parts: list[Slice], models: list[str], metric: str) -> str:
    names = [part.first[:10] for part in parts]
    xs = [float(i) for i in range(len(parts))]
    values = [s for part in parts for m in models if (s := part.scores.get(m)) is not None]
    plot = Plot(
        named(names, "seed time, from", 44),
        linear(min(values), max(values), metric),
        f"{metric} over time",
    )
    bars = Plot(
        named(names, "seed time, from", 44),
        linear(0, max(part.rows for part in parts), "rows"),
        "Rows over time",
    )
    border = sum(part.split == "val" for part in parts)
    for each in (plot, bars):
        if 0 < border < len(parts):
            each.upright(border - 0.5)
    for model in reversed(models):
        colour, is_run = run.colour(model), model == run.record.model
        ys = [part.scores.get(model) for part in parts]
        # no line over the border of the splits
        for split in (slice(0, border), slice(border, None)):
            plot.line(xs[split], ys[split], colour, "" if is_run else "thin", word(model))
        hover = [
            f"{word(model)}, {part.words}: {score(part.scores.get(model))}, {count(part.rows)} rows"
            for part in parts
        ]
        plot.dots(xs, ys, colour, css="solid", radius=4 if is_run else 3, names=hover)
    bars.bars([(x - 0.4, x + 0.4) for x in xs], [float(part.rows) for part in parts], colour=2)
    caption = (
        "Left of the dashed line validation, right of it test."
        if 0 < border < len(parts)
        else f"All of {split_word(parts[0].split)}."
    )
    key = legend((heading(model), run.colour(model), "line") for model in models)
    return figures(
        [
            figure(f"{heading(run.record.metric)} by seed time", plot.svg(), caption, key),
            figure("Rows by seed time", bars.svg(), "", legend([("rows", 2, "box")])),
        ]
    )
