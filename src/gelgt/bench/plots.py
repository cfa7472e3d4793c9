"""Studies as SVG files, drawn with the charts of the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gelgt.files import write_text
from gelgt.report.charts import WIDTH, Plot
from gelgt.report.html import escape
from gelgt.report.scales import Scale, linear
from gelgt.report.style import CHART_CSS

ROW, FRAME = 30, 80  # heights: of a line, and of title and axis


def standing_alone(svg: str, title: str) -> str:
    """A chart of the report as a separate file, with its title and style."""
    height = int(svg.partition(f'viewBox="0 0 {WIDTH} ')[2].partition('"')[0])
    inner = svg.partition(">")[2].removesuffix("</svg>")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -22 {WIDTH + 16} {height + 30}" '
        f'width="{2 * WIDTH}" role="img">'
    )
    return (
        f'{head}<style>{CHART_CSS}</style><text x="0" y="-6" '
        f'class="strong">{escape(title)}</text>{inner}</svg>\n'
    )


def study_plots(result: Mapping[str, Any], out: Path, name: str = "") -> list[Path]:
    """A chart for each task and metric: a curve where the variants are points of an axis, otherwise
    a dot with its spread for each variant."""
    written = []
    for task, metric in dict.fromkeys((e["task"], e["metric"]) for e in result["results"]):
        entries = [e for e in result["results"] if (e["task"], e["metric"]) == (task, metric)]
        plot = _curve(result, entries) if result["points"] else _dots(result, entries)
        title = (
            f"{result['dataset']}, {task}: test {metric}, {len(result['seeds'])} seeds, "
            f"{result['regime']}"
        )
        path = out / f"{name or result['study']}-{task}-{metric}.svg"
        write_text(path, standing_alone(plot.svg(), title))
        written.append(path)
    return written


def _ranges(entries: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    return [(e["test"] - e["spread"], e["test"] + e["spread"]) for e in entries]


def _dots(result: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Plot:
    """A row for each variant: its mean, its spread, its seeds, and as a ring what was published."""
    rows = list(reversed(entries))
    published = [
        e["paper"]["value"] if e.get("paper") and result["regime"] == "frozen" else None
        for e in rows
    ]
    ends = (
        [v for pair in _ranges(rows) for v in pair]
        + [s for e in rows for s in e["scores"]]
        + [p for p in published if p is not None]
    )
    scale = Scale(
        -0.5, len(rows) - 0.5, tuple((float(i), e["model"]) for i, e in enumerate(rows)), ""
    )
    title = f"test {rows[0]['metric']}" + (
        " (ring: published)" if any(p is not None for p in published) else ""
    )
    plot = Plot(linear(min(ends), max(ends), title, count=4), scale, title, FRAME + ROW * len(rows))
    colours = [0 if e["model"] == result["reference"] else 1 for e in rows]
    plot.across([float(i) for i in range(len(rows))], _ranges(rows), colours)
    for i, entry in enumerate(rows):
        plot.dots(entry["scores"], [float(i)] * len(entry["scores"]), colours[i], "cloud", 3)
        plot.dots([entry["test"]], [float(i)], colours[i], "solid", 4)
        if (figure := published[i]) is not None:
            plot.dots([figure], [float(i)], 2, "mark", 5)
    return plot


def _curve(result: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Plot:
    """Mean and spread against what was varied."""
    place = dict(zip(result["models"], result["points"]))
    points = [e for e in entries if e["model"] in place]
    xs = [float(place[e["model"]]) for e in points]
    ends = [v for pair in _ranges(points) for v in pair] or [0.0, 1.0]
    ticks = tuple((float(x), f"{x:g}") for x in result["points"])
    room = 0.05 * ((max(xs, default=1.0) - min(xs, default=0.0)) or 1.0)
    axis = Scale(min(xs, default=0.0) - room, max(xs, default=1.0) + room, ticks, result["axis"])
    plot = Plot(axis, linear(min(ends), max(ends), f"test {entries[0]['metric']}"), result["axis"])
    plot.line(xs, [e["test"] for e in points])
    plot.spans(xs, _ranges(points))
    plot.dots(xs, [e["test"] for e in points])
    return plot
