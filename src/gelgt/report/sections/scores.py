"""Scores of the model and of every baseline, all metrics, with bootstrap intervals of the main one
on test."""

from gelgt.report.charts import Plot
from gelgt.report.html import Section, escape, figure, figures, note, table
from gelgt.report.numbers import (
    LEVEL,
    count,
    difference,
    heading,
    is_lower_better,
    is_number,
    score,
    signed,
    word,
)
from gelgt.report.run import Run
from gelgt.report.scales import Scale, linear
from gelgt.report.sections.headline import split_word
from gelgt.runs.intervals import Bootstrap, Interval, value
from gelgt.runs.words import ranking_words, repeat_words, score_words


def section(run: Run) -> Section:
    counts = escape(word(run.record.metric))
    aid = (
        f"One row for each metric, one column for each model, the best in bold; {counts} is the "
        "metric that selects epochs."
    )
    return Section(
        "scores",
        "Scores beside baselines",
        aid,
        _scores(run) + _labels(run) + _disagreement(run) + _intervals(run),
    )


def _scores(run: Run) -> str:
    models = run.models
    rows: list[list[str] | str] = []
    for split in ("val", "test", "train"):
        names = {name for model in models for name in _metrics(run, model, split)}
        if not names:
            continue
        rows.append(split_word(split).capitalize())
        first = [run.record.metric, *_metrics(run, run.record.model, split)]
        order = sorted(names, key=lambda m: (first.index(m) if m in first else len(first), m))
        rows += [_row(run, split, metric) for metric in order]
    return table(["Metric", *(escape(run.parts.get(m) or heading(m)) for m in _shown(run))], rows)


def _shown(run: Run) -> list[str]:
    """The run's model, its parts where it has several, then its baselines."""
    model, *baselines = run.models
    return [model, *run.parts, *baselines]


def _labels(run: Run) -> str:
    """Which labels the baselines learned; for a recommendation, what they are."""
    if run.is_recommendation:
        return _ranking_baselines(run)
    labels = run.record.baseline_labels
    if "train" not in labels:
        return ""
    test = (
        f" and, for test, the {count(labels['known'])} known at the test time"
        if "known" in labels
        else ""
    )
    return note(
        f"LightGBM learned the same {count(labels['train'])} labels as the model{test}; the "
        "entity's past labels are those whose windows have closed by the seed time."
    )


def _ranking_baselines(run: Run) -> str:
    record = run.record
    if record.ranking is None:
        return ""
    words = "; ".join(
        f"<b>{escape(word(name))}</b>: {escape(meaning)}"
        for name, meaning in ranking_words(record).items()
    )
    beside = f"<br>Baselines: {words}. {escape(repeat_words(record))}" if words else ""
    return note(escape(score_words(record)) + beside)


def _metrics(run: Run, model: str, split: str) -> list[str]:
    scores = run.record.metrics if model == run.record.model else run.record.baselines[model]
    return list(scores.get(split, {}))


def _row(run: Run, split: str, metric: str) -> list[str]:
    values = [run.score(model, split, metric) for model in _shown(run)]
    shown = [score(v, values) for v in values]
    numbers = [v for v in values if v is not None and is_number(v)]
    best = score((min if is_lower_better(metric) else max)(numbers), values) if numbers else None
    cells = [
        f'<td class="n{" best" if text == best and len(numbers) > 1 else ""}">{text}</td>'
        for text in shown
    ]
    return [
        escape(heading(metric))
        + (" <small>(lower is better)</small>" if is_lower_better(metric) else ""),
        *cells,
    ]


def _disagreement(run: Run) -> str:
    """A warning where the stored predictions do not give the stored score: one of the two files is
    not of this run."""
    stored = run.score(run.record.model, "test")
    if run.test is None or stored is None or not is_number(stored):
        return ""
    computed = value(run.record.metric, run.test, run.record.model)
    if computed is None or abs(computed - stored) <= 0.005 * max(abs(stored), 0.1):
        return ""
    return note(
        f"metrics.json has a test {escape(word(run.record.metric))} of {score(stored)}, but "
        f"predictions/test.parquet gives {score(computed)}. The charts below show the predictions.",
        "warn",
    )


def _intervals(run: Run) -> str:
    if run.test is None:
        return note(
            "No intervals: the run folder has no predictions/test.parquet, or it holds no labels."
        )
    if run.intervals is None:
        return note(
            f"No intervals: {escape(word(run.record.metric))} cannot be resampled from these "
            f"{count(len(run.test))} test rows."
        )
    intervals, metric = run.intervals, word(run.record.metric)
    over = " over entities" if intervals.over_entities else ""
    pictures = [
        figure(
            f"Test {metric} with {LEVEL} intervals{over}",
            _forest(run, intervals.models, metric),
            _resampling(len(run.test), intervals),
        )
    ]
    if intervals.gains:
        better = "the run is" if is_lower_better(run.record.metric) else "the baseline is"
        pictures.append(
            figure(
                f"{word(run.record.model)} minus baseline",
                _forest(run, intervals.gains, f"difference in {metric}", has_zero=True),
                f"Left of 0 {better} better. All models are scored on the same resamples.",
            )
        )
    return figures(pictures) + _interval_table(run, intervals, f"{LEVEL} interval{over}")


def _resampling(rows: int, intervals: Bootstrap) -> str:
    """How the intervals were made."""
    drawn = f"the {count(rows)} test rows"
    if intervals.rows < rows:
        drawn = f"{count(intervals.rows)} of {drawn}, drawn at random and scaled to all of them"
    drawn = f"the entities of {drawn}" if intervals.over_entities else drawn
    return f"From {count(intervals.resamples)} bootstrap resamples of {drawn}, with a fixed seed."


def _interval_table(run: Run, intervals: Bootstrap, title: str) -> str:
    metric, ours = run.record.metric, intervals.models[run.record.model].value
    head = ["Model", f"Test {escape(word(metric))}", title]
    if intervals.gains:
        head += [f"{escape(word(run.record.model))} is", f"{LEVEL} of the difference"]
    rows = []
    for model, interval in intervals.models.items():
        like = (interval.value, interval.high)
        row = [
            escape(heading(model)),
            score(interval.value, like),
            f"{score(interval.low, like)} to {score(interval.high, like)}",
        ]
        gain = intervals.gains.get(model)
        if gain is not None:
            row += [
                difference(ours, interval.value, metric),
                f"{signed(gain.low, like)} to {signed(gain.high, like)}",
            ]
        rows.append(row + [""] * (len(head) - len(row)))
    return table(head, rows)


def _forest(run: Run, intervals: dict[str, Interval], title: str, has_zero: bool = False) -> str:
    """One horizontal interval for each model."""
    models = list(intervals)
    ends = [end for one in intervals.values() for end in (one.low, one.high)] + (
        [0.0] if has_zero else []
    )
    x = linear(min(ends), max(ends), title)
    names = tuple((float(-i), heading(model)) for i, model in enumerate(models))
    plot = Plot(x, Scale(-len(models) + 0.5, 0.5, names, ""), title, height=56 + 36 * len(models))
    plot.top = 4
    if has_zero:
        plot.upright(0)
    places, colours = [float(-i) for i in range(len(models))], [run.colour(m) for m in models]
    plot.across(places, [(one.low, one.high) for one in intervals.values()], colours)
    for place, one, colour in zip(places, intervals.values(), colours, strict=True):
        plot.dots([one.value], [place], colour, css="solid", radius=4.5)
    return plot.svg()
