"""The score over time: seed times of validation and test, grouped into at most twelve slices."""

from dataclasses import dataclass

import numpy as np

from gelgt.report.charts import Plot
from gelgt.report.html import Section, escape, figure, figures, legend, note, table
from gelgt.report.numbers import count, heading, moment, score, word
from gelgt.report.predictions import Predictions
from gelgt.report.run import Run
from gelgt.report.scales import linear, named
from gelgt.report.scoring import value
from gelgt.report.sections.headline import split_word

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


def section(run: Run) -> Section:
    title, metric = "Score over time", word(run.facts.metric)
    named = escape(heading(run.facts.metric))
    aid = (
        f"{named} for each stretch of seed times: a line that gets worse says that the model "
        "ages; few rows make it jump."
    )
    made = slices(run)
    if not made:
        return Section(
            "slices",
            title,
            aid,
            note(
                "Left out: there are no predictions with labels and seed times in the run folder."
            ),
        )
    if all(s is None for one in made for s in one.scores.values()):
        return Section(
            "slices",
            title,
            aid,
            note(f"Left out: {escape(metric)} cannot be computed from the predictions of a slice."),
        )
    models = [m for m in made[-1].scores if any(one.scores.get(m) is not None for one in made)]
    rows = [
        [
            escape(one.words),
            escape(split_word(one.split)),
            count(one.rows),
            *(score(one.scores.get(m)) for m in models),
        ]
        for one in made
    ]
    html = table(
        ["Seed times", "split", "rows", *(escape(heading(m)) for m in models)], rows, words=2
    )
    has_gap = any(one.scores.get(m) is None for one in made for m in models)
    remark = (
        note("– stands where a slice has one class only, for which the metric is not defined.")
        if has_gap
        else ""
    )
    return Section("slices", title, aid, _pictures(run, made, models, metric) + html + remark)


def slices(run: Run) -> list[Slice]:
    """In the order of time; each split gets slices by its number of seed times, at least one."""
    found = {
        split: p
        for split, p in (("val", run.val), ("test", run.test))
        if p is not None and p.time is not None and len(p)
    }
    times = {split: np.unique(p.time) for split, p in found.items() if p.time is not None}
    total = sum(len(t) for t in times.values())
    made: list[Slice] = []
    for split, distinct in times.items():
        wanted = len(distinct) if total <= MOST else max(1, round(MOST * len(distinct) / total))
        if len(times) == 2:
            wanted = min(wanted, MOST - 1)
        for group in np.array_split(distinct, min(wanted, len(distinct))):
            made.append(_slice(run, split, found[split], group[0], group[-1]))
    return made


def _slice(
    run: Run, split: str, found: Predictions, first: np.datetime64, last: np.datetime64
) -> Slice:
    assert found.time is not None
    rows = found.take((found.time >= first) & (found.time <= last))
    scores = {model: value(run.facts.metric, rows, model) for model in found.scores}
    return Slice(split, moment(str(first)), moment(str(last)), len(rows), scores)


def _pictures(run: Run, made: list[Slice], models: list[str], metric: str) -> str:
    names = [one.first[:10] for one in made]
    xs = [float(i) for i in range(len(made))]
    values = [s for one in made for m in models if (s := one.scores.get(m)) is not None]
    plot = Plot(
        named(names, "seed time, from", 44),
        linear(min(values), max(values), metric),
        f"{metric} over time",
    )
    bars = Plot(
        named(names, "seed time, from", 44),
        linear(0, max(one.rows for one in made), "rows"),
        "Rows over time",
    )
    border = sum(one.split == "val" for one in made)
    for each in (plot, bars):
        if 0 < border < len(made):
            each.upright(border - 0.5)
    for model in reversed(models):
        colour, own = run.colour(model), model == run.facts.model
        ys = [one.scores.get(model) for one in made]
        # no line over the border of the splits
        for part in (slice(0, border), slice(border, None)):
            plot.line(xs[part], ys[part], colour, "" if own else "thin", word(model))
        hover = [
            f"{word(model)}, {one.words}: {score(one.scores.get(model))}, {count(one.rows)} rows"
            for one in made
        ]
        plot.dots(xs, ys, colour, css="solid", radius=4 if own else 3, names=hover)
    bars.bars([(x - 0.4, x + 0.4) for x in xs], [float(one.rows) for one in made], colour=2)
    caption = (
        "Left of the dashed line validation, right of it test."
        if 0 < border < len(made)
        else f"All of {split_word(made[0].split)}."
    )
    key = legend((heading(model), run.colour(model), "line") for model in models)
    return figures(
        [
            figure(f"{heading(run.facts.metric)} by seed time", plot.svg(), caption, key),
            figure("Rows by seed time", bars.svg(), "", legend([("rows", 2, "box")])),
        ]
    )
