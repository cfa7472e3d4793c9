"""Small SVG charts: a `Plot` with two scales that lines, dots, bars and rules are added to, and
horizontal bars of shares.

A chart is 400 units wide, so that its text is of a readable size both in a column of the page and
on a phone. Colours come from the style sheet by class (c0 to c7), so one drawing serves light, dark
and print.
"""

import math
from collections.abc import Iterable, Sequence

from gelgt.report.html import escape
from gelgt.report.numbers import cut, percent
from gelgt.report.scales import Scale

WIDTH, HEIGHT = 400, 270
# mean width of a letter, on the generous side: the style sheet writes larger on a phone
_LETTER = 7.0


class Plot:
    """A chart with a labelled x-axis and y-axis.

    Example:
        >>> from gelgt.report.scales import linear
        >>> plot = Plot(linear(1, 3, "epoch"), linear(0, 1, "loss"), "Loss by epoch")
        >>> plot.line([1, 2, 3], [0.9, 0.5, 0.4])
        >>> plot.svg().startswith("<svg")
        True
    """

    def __init__(self, x: Scale, y: Scale, title: str, height: int = HEIGHT) -> None:
        self.x, self.y, self.title, self.height = x, y, title, height
        self.left = 12 + _LETTER * max((len(label) for _, label in y.ticks), default=1)
        self.right = WIDTH - 14.0
        self.top, self.bottom = 26.0, height - 42.0
        self.parts: list[str] = []

    def px(self, value: float) -> float:
        return self.left + (self.right - self.left) * self.x.share(value)

    def py(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * self.y.share(value)

    def line(
        self,
        xs: Sequence[float],
        ys: Sequence[float | None],
        colour: int = 0,
        css: str = "",
        name: str = "",
    ) -> None:
        """A line that breaks where a value is missing; a value alone between gaps is drawn as a
        dot."""
        runs: list[list[tuple[float, float]]] = [[]]
        for x, y in zip(xs, ys, strict=True):
            if y is None or not math.isfinite(y):
                runs.append([])
            else:
                runs[-1].append((self.px(x), self.py(y)))
        for run in runs:
            if len(run) == 1:
                self.parts.append(
                    f'<circle cx="{_n(run[0][0])}" cy="{_n(run[0][1])}" r="3" class="c{colour} '
                    'solid"/>'
                )
            elif run:
                path = "L".join(f"{_n(x)} {_n(y)}" for x, y in run)
                self.parts.append(
                    f'<path d="M{path}" class="c{colour} line {css}">{_hover(name)}</path>'
                )

    def dots(
        self,
        xs: Sequence[float],
        ys: Sequence[float | None],
        colour: int = 0,
        css: str = "mark",
        radius: float = 3.5,
        names: Sequence[str] = (),
    ) -> None:
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if y is not None and math.isfinite(y):
                place = f'cx="{_n(self.px(x))}" cy="{_n(self.py(y))}" r="{_n(radius)}"'
                self.parts.append(
                    _element("circle", place, f"c{colour} {css}", names[i] if names else "")
                )

    def bars(
        self,
        edges: Sequence[tuple[float, float]],
        heights: Sequence[float],
        colour: int = 0,
        css: str = "solid",
    ) -> None:
        """Vertical bars between pairs of x, from the lower end of the y-axis."""
        for (low, high), height in zip(edges, heights, strict=True):
            left, right = self.px(low) + 0.75, self.px(high) - 0.75
            top = self.py(height)
            if height > self.y.low:
                size = (
                    f'x="{_n(left)}" y="{_n(top)}" width="{_n(max(right - left, 0.5))}" '
                    f'height="{_n(max(self.bottom - top, 0.5))}"'
                )
                self.parts.append(f'<rect {size} class="c{colour} {css}"/>')

    def spans(
        self, xs: Sequence[float], ranges: Sequence[tuple[float, float]], colour: int = 0
    ) -> None:
        """Vertical intervals, for uncertainty."""
        for x, (low, high) in zip(xs, ranges, strict=True):
            self.parts.append(
                f'<path d="M{_n(self.px(x))} {_n(self.py(low))}V{_n(self.py(high))}" '
                f'class="c{colour} line thin"/>'
            )

    def across(
        self, rows: Sequence[float], ranges: Sequence[tuple[float, float]], colours: Sequence[int]
    ) -> None:
        """Horizontal intervals with caps, one on each row."""
        for y, (low, high), colour in zip(rows, ranges, colours, strict=True):
            a, b, at = self.px(low), self.px(high), self.py(y)
            path = f"M{_n(a)} {_n(at)}H{_n(b)}M{_n(a)} {_n(at - 5)}v10M{_n(b)} {_n(at - 5)}v10"
            self.parts.append(f'<path d="{path}" class="c{colour} line"/>')

    def upright(self, x: float) -> None:
        """A dashed vertical line at one x; the caption says what it means, since a label inside
        would cover data."""
        self.parts.append(
            f'<path d="M{_n(self.px(x))} {_n(self.top)}V{_n(self.bottom)}" class="rule"/>'
        )

    def segment(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """A dashed reference line between two points."""
        (x1, y1), (x2, y2) = start, end
        self.parts.append(
            f'<path d="M{_n(self.px(x1))} {_n(self.py(y1))}L{_n(self.px(x2))} {_n(self.py(y2))}" '
            'class="rule"/>'
        )

    def rug(self, xs: Iterable[float], names: Iterable[str]) -> None:
        """Triangles on the x-axis, for places that matter."""
        for x, name in zip(xs, names, strict=True):
            if self.x.low <= x <= self.x.high:
                at = self.px(x)
                path = f"M{_n(at)} {_n(self.bottom - 9)}l4.5 9h-9z"
                self.parts.append(f'<path d="{path}" class="c2 solid">{_hover(name)}</path>')

    def svg(self) -> str:
        """The whole chart."""
        grid = []
        for value, label in self.y.ticks:
            at = self.py(value)
            grid.append(f'<path d="M{_n(self.left)} {_n(at)}H{_n(self.right)}" class="grid"/>')
            grid.append(
                f'<text x="{_n(self.left - 6)}" y="{_n(at + 4)}" '
                f'text-anchor="end">{escape(label)}</text>'
            )
        for value, label in self.x.ticks:
            at = self.px(value)
            half = _LETTER * len(label) / 2
            shifted = min(max(at, half), WIDTH - half)  # a label at the edge stays inside
            grid.append(f'<path d="M{_n(at)} {_n(self.bottom)}v4" class="axis"/>')
            grid.append(
                f'<text x="{_n(shifted)}" y="{_n(self.bottom + 17)}" '
                f'text-anchor="middle">{escape(label)}</text>'
            )
        axis = f'<path d="M{_n(self.left)} {_n(self.bottom)}H{_n(self.right)}" class="axis"/>'
        titles = f'<text x="0" y="12" class="strong">{escape(self.y.title)}</text>'
        titles += (
            f'<text x="{_n(self.right)}" y="{self.height - 6}" text-anchor="end" '
            f'class="strong">{escape(self.x.title)}</text>'
        )
        return _svg(
            WIDTH, self.height, self.title, "".join(grid) + "".join(self.parts) + axis + titles
        )


def shares(
    title: str, rows: Sequence[tuple[str, float, float | None]], is_whole: bool = False
) -> str:
    """One or two horizontal bars under each name, which fits a phone; rows are (name, first share,
    second share). The longest bar is the largest share, or 100 % where `is_whole`."""
    step, top = 50 if any(second is not None for _, _, second in rows) else 39, 4
    largest = 1.0 if is_whole else max((max(a, b or 0) for _, a, b in rows), default=1) or 1
    parts = []
    for i, (name, first, second) in enumerate(rows):
        y = top + i * step
        text = percent(first) + (f" · {percent(second)}" if second is not None else "")
        parts.append(
            f'<text x="0" y="{y + 12}" class="strong">{_hover(name)}{escape(cut(name, 40))}</text>'
        )
        parts.append(f'<text x="{WIDTH}" y="{y + 12}" text-anchor="end">{text}</text>')
        for place, colour, share in ((y + 18, 0, first), (y + 29, 2, second)):
            if share is not None:
                width = max(share / largest * WIDTH, 1)
                parts.append(
                    f'<rect x="0" y="{place}" width="{_n(width)}" height="9" rx="2" '
                    f'class="c{colour} solid"/>'
                )
    return _svg(WIDTH, top + step * len(rows), title, "".join(parts))


def _svg(width: int, height: int, title: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">{body}</svg>'
    )


def _element(tag: str, attributes: str, css: str, name: str) -> str:
    return (
        f'<{tag} {attributes} class="{css}">{_hover(name)}</{tag}>'
        if name
        else f'<{tag} {attributes} class="{css}"/>'
    )


def _hover(name: str) -> str:
    return f"<title>{escape(name)}</title>" if name else ""


def _n(value: float) -> str:
    """A coordinate, to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")
