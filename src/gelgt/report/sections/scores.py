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
from gelgt.report.scoring import Interval, value
from gelgt.report.sections.headline import split_word


def section(run: Run) -> Section:
    counts = escape(word(run.facts.metric))
    aid = (
        f"One row a metric, one column a model; the best of each row is bold, and {counts} is "
        "the metric that counts."
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
        found = {name for model in models for name in _metrics(run, model, split)}
        if not found:
            continue
        rows.append(split_word(split).capitalize())
        known = [run.facts.metric, *_metrics(run, run.facts.model, split)]
        for metric in sorted(
            found, key=lambda m: (known.index(m) if m in known else len(known), m)
        ):
            rows.append(_row(run, split, metric))
    return table(["Metric", *(escape(run.parts.get(m) or heading(m)) for m in _shown(run))], rows)


def _shown(run: Run) -> list[str]:
    """The run's own model, its parts where it has several, then its baselines."""
    own, *others = run.models
    return [own, *run.parts, *others]


def _labels(run: Run) -> str:
    """Which labels the baselines learned."""
    labels = run.facts.baseline_labels
    if "train" not in labels:
        return ""
    known = (
        f", and for test the {count(labels['known'])} known at the test time"
        if "known" in labels
        else ""
    )
    return note(
        f"LightGBM learned the {count(labels['train'])} labels that the model learned{known}; the "
        "entity's past is every window of its own "
        "that has closed by the seed time."
    )


def _metrics(run: Run, model: str, split: str) -> list[str]:
    scores = run.facts.metrics if model == run.facts.model else run.facts.baselines[model]
    return list(scores.get(split, {}))


def _row(run: Run, split: str, metric: str) -> list[str]:
    values = [run.score(model, split, metric) for model in _shown(run)]
    shown = [score(v, values) for v in values]
    known = [v for v in values if v is not None and is_number(v)]
    best = score((min if is_lower_better(metric) else max)(known), values) if known else None
    cells = [
        f'<td class="n{" best" if text == best and len(known) > 1 else ""}">{text}</td>'
        for text in shown
    ]
    return [
        escape(heading(metric))
        + (" <small>(lower is better)</small>" if is_lower_better(metric) else ""),
        *cells,
    ]


def _disagreement(run: Run) -> str:
    """A warning where the predictions beside the scores do not give them: one of the two files is
    not of this run."""
    stored = run.score(run.facts.model, "test")
    if run.test is None or stored is None or not is_number(stored):
        return ""
    found = value(run.facts.metric, run.test, run.facts.model)
    if found is None or abs(found - stored) <= 0.005 * max(abs(stored), 0.1):
        return ""
    return note(
        f"metrics.json gives a test {escape(word(run.facts.metric))} of {score(stored)}, but "
        "predictions/test.parquet gives "
        f"{score(found)}. The charts below follow the predictions.",
        "warn",
    )


def _intervals(run: Run) -> str:
    if run.test is None:
        return note(
            "No intervals: predictions/test.parquet is not in the run folder, or holds no labels."
        )
    if run.intervals is None:
        return note(
            f"No intervals: {escape(word(run.facts.metric))} cannot be resampled from these "
            f"{count(len(run.test))} test rows."
        )
    found, metric = run.intervals, word(run.facts.metric)
    drawn = f"the {count(len(run.test))} test rows"
    if found.rows < len(run.test):
        drawn = f"{count(found.rows)} of {drawn} drawn at random, scaled to all of them"
    drawn = f"the entities of {drawn}" if found.over_entities else drawn
    how = f"{count(found.resamples)} bootstrap resamples of {drawn}, always the same ones"
    over = " over entities" if found.over_entities else ""
    pictures = [
        figure(
            f"Test {metric} with {LEVEL} intervals{over}",
            _forest(run, found.models, metric),
            f"From {how}.",
        )
    ]
    if found.gains:
        lower = is_lower_better(run.facts.metric)
        caption = (
            f"Left of 0 {'the run is' if lower else 'the baseline is'} better. The models "
            "share each resample."
        )
        picture = _forest(run, found.gains, f"difference in {metric}", has_zero=True)
        pictures.append(figure(f"{word(run.facts.model)} minus baseline", picture, caption))
    head = ["Model", f"Test {escape(metric)}", f"{LEVEL} interval{over}"]
    head += (
        [f"{escape(word(run.facts.model))} is", f"{LEVEL} of the difference"] if found.gains else []
    )
    rows, own = [], found.models[run.facts.model].value
    for model, one in found.models.items():
        gain = found.gains.get(model)
        like = (one.value, one.high)
        row = [
            escape(heading(model)),
            score(one.value, like),
            f"{score(one.low, like)} to {score(one.high, like)}",
        ]
        if gain is not None:
            row += [
                difference(own, one.value, run.facts.metric),
                f"{signed(gain.low, like)} to {signed(gain.high, like)}",
            ]
        rows.append(row + [""] * (len(head) - len(row)))
    return figures(pictures) + table(head, rows)


def _forest(run: Run, intervals: dict[str, Interval], title: str, has_zero: bool = False) -> str:
    """One level interval a model."""
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
