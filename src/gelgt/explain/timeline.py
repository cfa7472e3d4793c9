"""The rows of an entity over time, one line for each path, coloured by effect. The axis is the
square root of the age: most of what matters is recent."""

from collections.abc import Mapping, Sequence
from typing import Any

from gelgt.explain.sentences import key_text
from gelgt.report.html import escape
from gelgt.report.numbers import number

WIDTH, LEFT, RIGHT, LANE, TOP = 900, 250, 20, 34, 14
TICKS = (1, 7, 30, 90, 180, 365, 730, 1825, 3650, 7300, 18250)


def timeline(rows: Sequence[Mapping[str, Any]]) -> str:
    """An SVG picture of rows: path, key, time, age_days, via_days, effect."""
    oldest = max((row["via_days"] or 0.0 for row in rows), default=1.0) or 1.0
    largest = max((abs(row["effect"]) for row in rows), default=0.0) or 1.0
    lanes = list(dict.fromkeys(tuple(row["path"]) for row in rows))
    lanes.sort(key=lambda path: -max(abs(r["effect"]) for r in rows if tuple(r["path"]) == path))
    height = TOP + LANE * len(lanes) + 40
    body = [_axis(oldest, height)]
    for place, lane in enumerate(lanes):
        y = TOP + LANE * place + LANE / 2
        name = " → ".join(lane[1:])
        body.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        body.append(
            f'<text class="strong" x="{LEFT - 14}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(_cut(name))}</text>"
        )
        inside = [row for row in rows if tuple(row["path"]) == lane]
        for count, row in enumerate(sorted(inside, key=lambda row: abs(row["effect"]))):
            body.append(_dot(row, y, oldest, largest, count))
    title = "The rows that the prediction rests on, by age and effect"
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img"><title>{title}</title>'
        f"{''.join(body)}</svg>"
    )


def _x(age: float, oldest: float) -> float:
    return float(WIDTH - RIGHT - (WIDTH - LEFT - RIGHT) * (max(age, 0.0) / oldest) ** 0.5)


def _axis(oldest: float, height: int) -> str:
    bottom = height - 30
    parts = [f'<path class="axis" fill="none" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>']
    free = float(WIDTH)
    for tick in TICKS:
        x = _x(tick, oldest)
        if tick > oldest or x > free - 44:
            continue
        free = x
        parts.append(f'<path class="grid" d="M{x:.1f} {TOP}V{bottom}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick:,} d</text>')
    return "".join(parts)


def _dot(row: Mapping[str, Any], y: float, oldest: float, largest: float, count: int) -> str:
    share = abs(row["effect"]) / largest
    # Rows without a time stand where the row is that leads to them; without one, at the left.
    age, via = row["age_days"], row["via_days"]
    x = LEFT + 6 + 7 * (count % 24) if via is None else _x(via, oldest)
    colour, radius = (0 if row["effect"] > 0 else 1), 3 + 7 * share**0.5
    key = key_text(row["key"])
    when = "no time" if age is None else f"{row['time']}, {number(age)} days before"
    label = escape(f"{row['table']} {key} ({when}): {number(row['effect'])}")
    return (
        f'<circle class="solid c{colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" '
        f'fill-opacity="{0.18 + 0.72 * share**0.5:.2f}"><title>{label}</title></circle>'
    )


def _cut(name: str, most: int = 34) -> str:
    return name if len(name) <= most else f"…{name[-most:]}"
