"""Prediction intervals: how often they hold the label on test, over time and by entity."""

from gelgt.calibration import Coverage
from gelgt.report.charts import Plot
from gelgt.report.curves import wilson
from gelgt.report.html import Section, figure, figures, paragraph, table
from gelgt.report.numbers import LEVEL, MISSING, count, moment, percent, score
from gelgt.report.run import Run
from gelgt.report.scales import linear, named

DRAWN = "0.9"  # the level of the chart


def section(run: Run) -> Section | None:
    """None for runs without intervals."""
    measured = run.record.intervals
    if not measured:
        return None
    aid = (
        "Intervals of a level are made from validation errors alone. On test they should hold that "
        "share of the labels; where they hold less, errors have grown since validation; where "
        "more, they have shrunk."
    )
    level = DRAWN if DRAWN in measured else next(iter(measured))
    of_level = measured[level]
    widths = [each.mean_width for each in measured.values()]
    rows = [
        [
            percent(float(name)),
            _share(each.coverage),
            score(each.mean_width, widths),
            _entity_cell(each),
        ]
        for name, each in measured.items()
    ]
    head = ["Level", "labels inside", "mean width", "entities below"]
    html = figures(
        [
            figure(f"Coverage of {percent(float(level))} intervals", *_over_time(of_level, level)),
            f"<figure><h3>In numbers</h3>{table(head, rows)}{_entity_words(of_level)}</figure>",
        ]
    )
    counted = f'<p class="small">{count(of_level.rows)} test rows.</p>'
    return Section("intervals", "Prediction intervals", aid, html + counted)


def _share(value: float) -> str:
    """A share to a tenth of a percent: levels are compared with it."""
    return f"{100 * value:.1f}\u00a0%"


def _entity_cell(each: Coverage) -> str:
    if each.by_entity is None:
        return MISSING
    return f"{percent(each.by_entity.below)} ({percent(each.by_entity.by_chance)})"


def _entity_words(each: Coverage) -> str:
    if each.by_entity is None:
        return paragraph("No entity has enough rows to tell its own coverage.")
    return paragraph(
        f"Entities below: of the {count(each.by_entity.entities)} entities with enough rows to "
        "tell, the share that is covered less often than the level by more than chance (a binomial "
        "test of each at 5 %); in brackets the share that chance alone would give."
    )


def _over_time(each: Coverage, level: str) -> tuple[str, str]:
    """The chart and its caption."""
    times = each.times
    xs = [float(place) for place in range(len(times))]
    spans = [wilson(part.coverage, part.rows) for part in times]
    low = min(float(level), *(end for end, _ in spans))
    plot = Plot(
        named([moment(part.first)[:10] for part in times], "seed time, from", 44),
        linear(low, 1.0, "labels inside"),
        "Coverage over time",
    )
    plot.segment((plot.x.low, float(level)), (plot.x.high, float(level)))
    plot.spans(xs, spans)
    shares = [part.coverage for part in times]
    plot.line(xs, shares, css="thin")
    names = [
        f"{moment(part.first)}: {_share(part.coverage)} of {count(part.rows)} rows"
        for part in times
    ]
    plot.dots(xs, shares, css="solid", radius=4, names=names)
    caption = (
        f"Test rows by seed time; dashed: the level. Vertical lines: {LEVEL} intervals, as if rows "
        "were independent."
    )
    return plot.svg(), caption
