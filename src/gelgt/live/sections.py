"""The parts of the page as HTML: each is replaced alone when it has changed.

Charts and tables are those of the report. Behind the curves stand their numbers as a table, for
whoever cannot see them.
"""

from collections.abc import Sequence

from gelgt.live.words import clock, elapsed, present, sentence, state, times
from gelgt.report.charts import Plot
from gelgt.report.html import code, escape, facts, figure, figures, legend, note, table
from gelgt.report.numbers import (
    MISSING,
    difference,
    duration,
    heading,
    is_lower_better,
    is_number,
    score,
    word,
)
from gelgt.report.scales import Scale, linear, whole
from gelgt.runs.progress import Curve, ProgressRecord

COLOURS = (0, 3, 4, 5, 6, 7)  # of the networks; 1 and 2 are those of baselines
PARTS = ("head", "status", "times", "result", "curves", "phases", "notices")


def parts(record: ProgressRecord | None, now: float, has_report: bool) -> dict[str, str]:
    """The HTML of every part of the page."""
    status = f'<p class="lead {state(record, now)}">{escape(sentence(record, now))}</p>'
    if record is None:
        return dict.fromkeys(PARTS, "") | {"head": _head(ProgressRecord()), "status": status}
    return {
        "head": _head(record),
        "status": status,
        "times": _bar(record, now) + facts(times(record, now)),
        "result": _result(record, has_report),
        "curves": _curves(record),
        "phases": _phases(record, now),
        "notices": _notices(record, now),
    }


def _head(record: ProgressRecord) -> str:
    name = f'<p class="over">gelgt train</p><h1>{escape(record.run or "Training")}</h1>'
    return name + (code(record.task) if record.task else "")


def _bar(record: ProgressRecord, now: float) -> str:
    """How much of the time limit has passed; without one, how many steps of the network are done
    of those that it takes at most."""
    step, curve = record.step, present(record)
    if record.is_over or state(record, now) == "silent":
        return ""
    if record.limit is not None:
        done, most, what = elapsed(record, now), record.limit, "seconds of the time limit"
    elif step is not None and curve is not None:
        done, most = (step.epoch - 1) * step.steps + step.step, curve.epochs * step.steps
        what = "steps of this network"
    else:
        return ""
    return (
        f'<progress max="{most:.0f}" value="{min(done, most):.0f}" aria-label="{what}">'
        f"{done:.0f} of {most:.0f} {what}</progress>"
    )


def _result(record: ProgressRecord, has_report: bool) -> str:
    """At the end: the scores beside the baselines, and the report."""
    if not record.scores:
        return ""
    link = '<p class="lead"><a id="report" href="report">Open the report</a></p>'
    names = [record.model, *(name for name in record.scores if name != record.model)]
    split = "test" if is_number(record.scores[record.model].get("test")) else "val"
    ours = record.scores[record.model].get(split)
    of_split = {name: record.scores[name].get(split) for name in names}
    cards = []
    for place, name in enumerate(names):
        title, css, below = heading(name), "", ""
        if place == 0:
            of = {"test": "Test", "val": "Validation"}[split]
            title, css = f"{of} {word(record.metric)}, {word(name)}", " own"
        else:
            gap = difference(ours, of_split[name], record.metric)
            below = f"{word(record.model)} is {gap}" if gap != MISSING else "not scored"
        shown = score(of_split[name], tuple(of_split.values()))
        cards.append(
            f'<div class="card c{min(place, 7)}{css}"><span>{escape(title)}</span>'
            f"<b>{shown}</b><span>{escape(below)}</span></div>"
        )
    direction = "lower" if is_lower_better(record.metric) else "higher"
    aid = f'<p class="aid">For {escape(word(record.metric))}, {direction} is better.</p>'
    report = link if has_report else ""
    return f'<h2>Scores</h2>{aid}<div class="cards">{"".join(cards)}</div>{report}'


def _curves(record: ProgressRecord) -> str:
    curves = [curve for curve in record.curves if curve.points]
    if not curves:
        text = "The curves begin with the first epoch."
        return "" if record.is_over else f'<h2>Curves</h2><p class="aid">{text}</p>'
    epochs = whole(1, max(curve.points[-1].epoch for curve in curves), "epoch")
    pictures = (_loss(record, curves, epochs), _score(record, curves, epochs))
    aid = "Loss of the training steps and score of the validation rows, after every epoch."
    return (
        f'<h2>Curves</h2><p class="aid">{aid}</p>'
        f"{figures(picture for picture in pictures if picture)}{_numbers(record, curves)}"
    )


def _loss(record: ProgressRecord, curves: Sequence[Curve], epochs: Scale) -> str:
    values = [p.loss for c in curves for p in c.points if p.loss is not None and is_number(p.loss)]
    if not values:
        return ""
    scale = linear(min(values), max(values), "training loss")
    plot = Plot(epochs, scale, "Training loss by epoch; the numbers are in the table below")
    for curve in curves:
        _draw(plot, curve, [point.loss for point in curve.points])
    return figure("Training loss", plot.svg(), key=_legend(record, curves))


def _score(record: ProgressRecord, curves: Sequence[Curve], epochs: Scale) -> str:
    curves = [curve for curve in curves if not curve.is_retraining]
    values = [
        p.score for c in curves for p in c.points if p.score is not None and is_number(p.score)
    ]
    if not values:
        return ""
    low, high = min(values), max(values)
    room = 2 * (high - low) or abs(high) * 0.2  # a baseline far away would flatten the curves
    near = {
        name: value
        for name, value in record.baselines.items()
        if value is not None and low - room <= value <= high + room
    }
    ends = [low, high, *near.values()]
    title = f"validation {word(record.metric)}"
    plot = Plot(
        epochs,
        linear(min(ends), max(ends), title),
        f"Validation {word(record.metric)} by epoch; the numbers are in the table below",
    )
    for place, (name, value) in enumerate(near.items()):
        plot.line([plot.x.low, plot.x.high], [value] * 2, 1 + place % 2, "dash thin", word(name))
    for curve in curves:
        _draw(plot, curve, [point.score for point in curve.points])
    entries = [(heading(name), 1 + place % 2, "dash") for place, name in enumerate(near)]
    far = [
        f"{word(name)} {score(value)}"
        for name, value in record.baselines.items()
        if name not in near
    ]
    caption = escape(f"Outside the picture: {', '.join(far)}.") if far else ""
    return figure(
        f"Validation {word(record.metric)}", plot.svg(), caption, _legend(record, curves, entries)
    )


def _draw(plot: Plot, curve: Curve, values: Sequence[float | None]) -> None:
    colour, name = COLOURS[(curve.network - 1) % len(COLOURS)], _name(curve)
    xs = [float(point.epoch) for point in curve.points]
    plot.line(xs, values, colour, "dash" if curve.is_retraining else "", name)
    if not curve.is_retraining:
        best = [y if x == curve.best_epoch else None for x, y in zip(xs, values)]
        plot.dots(xs, best, colour, radius=4, names=[f"{name}, epoch {x:g}" for x in xs])


def _legend(
    record: ProgressRecord,
    curves: Sequence[Curve],
    entries: Sequence[tuple[str, int, str]] = (),
) -> str:
    is_several = len(record.curves) > 1 or record.networks > 1
    named = [
        (
            _name(curve).capitalize() if is_several else "Network",
            COLOURS[(curve.network - 1) % len(COLOURS)],
            "dash" if curve.is_retraining else "line",
        )
        for curve in curves
    ]
    return legend([*named, *entries])


def _name(curve: Curve) -> str:
    return f"network {curve.network}{' retrained' if curve.is_retraining else ''}"


def _numbers(record: ProgressRecord, curves: Sequence[Curve]) -> str:
    """The curves as a table."""
    rows: list[Sequence[str] | str] = []
    for curve in curves:
        if len(curves) > 1:
            rows.append(escape(_name(curve).capitalize()))
        rows += [
            (
                f"{p.epoch}{' (best)' if p.epoch == curve.best_epoch else ''}",
                score(p.loss),
                score(p.score),
                duration(p.seconds),
            )
            for p in curve.points
        ]
    head = ("Epoch", "Loss", f"Validation {escape(word(record.metric))}", "Time since its start")
    return f'<details id="numbers"><summary>The numbers</summary>{table(head, rows)}</details>'


def _phases(record: ProgressRecord, now: float) -> str:
    rows = [(escape(p.name), escape(p.facts), duration(p.seconds)) for p in record.phases]
    if state(record, now) in ("preparing", "running"):
        seconds = record.phase_seconds + max(0.0, now - record.updated)
        work = escape(record.work) or "goes on"
        rows.append((f"<b>{escape(record.phase)}</b>", work, f"{seconds:.0f} s so far"))
    elif not record.is_over:
        rows.append((f"<b>{escape(record.phase)}</b>", "its end was never told", MISSING))
    if not rows:
        return ""
    return f"<h2>Phases</h2>{table(('Phase', 'What came of it', 'Time'), rows, words=2)}"


def _notices(record: ProgressRecord, now: float) -> str:
    ends = {"running": "was killed", "failed": "failed", "interrupted": "was interrupted"}
    earlier = [
        f"An earlier training in this folder, begun {clock(each.began, now)}, "
        f"{ends.get(each.status, 'ended')} after {duration(each.seconds)}; this one goes on from "
        "its checkpoint, if it left one."
        for each in record.earlier
    ]
    texts = [*earlier, *record.notices]
    if not texts:
        return ""
    return "<h2>Notices</h2>" + "".join(note(escape(text)) for text in texts)
