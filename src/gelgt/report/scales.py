"""Scales: from values to places on an axis, with ticks at round numbers (1, 2, 5; days, weeks,
months, years)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gelgt.report.numbers import number

_AGES = (0, 1, 3, 7, 14, 30, 90, 180, 365, 730, 1825, 3650, 7300, 18250, 36500)


@dataclass(frozen=True)
class Scale:
    """An axis.

    Attributes:
        low: Value at its start.
        high: Value at its end.
        ticks: Values and what is written beside them.
        title: What it measures, with its unit.
        is_log: Places follow log(1 + value), which has a place for 0.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str
    is_log: bool = False

    def share(self, value: float) -> float:
        """0 at the start, 1 at the end; what lies beyond is drawn at the end."""
        low, high, at = (
            math.log1p(v) if self.is_log else v for v in (self.low, self.high, max(value, self.low))
        )
        return min(max((at - low) / (high - low), 0.0), 1.0)


def linear(low: float, high: float, title: str, count: int = 5, is_exact: bool = False) -> Scale:
    """From low to high, widened to whole ticks unless `is_exact`.

    >>> [label for _, label in linear(0.52, 0.83, "AUC").ticks]
    ['0.5', '0.6', '0.7', '0.8', '0.9']
    >>> [label for _, label in linear(0, 9, "rows", count=4).ticks]
    ['0', '2.5', '5', '7.5', '10']
    """
    if not math.isfinite(low) or not math.isfinite(high):
        low, high = 0.0, 1.0
    if high <= low:  # one value only: room on both sides
        room = abs(low) * 0.1 or 1.0
        low, high = low - room, high + room
    step = _step((high - low) / count)
    if is_exact:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    else:
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    values = [i * step for i in range(first, last + 1)]
    # enough to tell ticks apart, too few to show rounding
    ticks = tuple((v, number(v, digits=9)) for v in values)
    return (
        Scale(low, high, ticks, title) if is_exact else Scale(values[0], values[-1], ticks, title)
    )


def whole(low: int, high: int, title: str, count: int = 6) -> Scale:
    """Whole numbers, such as epochs."""
    step = max(round(_step(max(high - low, 1) / count)), 1)
    values = list(range(math.ceil(low / step) * step, high + 1, step)) or [low]
    if low not in values and values[0] - low >= step / 2:
        values.insert(0, low)
    room = 0.5 if high == low else 0.0
    return Scale(low - room, high + room, tuple((float(v), f"{v:,}") for v in values), title)


def ages(days: Sequence[float], centres: Sequence[float], title: str) -> Scale:
    """Ages in days, on a log axis where most kernels would crowd at the start of a linear one."""
    high = max(days, default=1.0) or 1.0
    near = sorted(c for c in centres if c <= high) or [high]
    if near[len(near) // 2] > high / 8 or high < 20:
        return linear(0, high, f"{title}, days", count=6, is_exact=True)
    marks = [d for d in _AGES if d <= high]
    ticks: list[int] = []
    for mark in marks:  # only ticks whose labels do not touch
        if not ticks or (math.log1p(mark) - math.log1p(ticks[-1])) / math.log1p(high) > 0.075:
            ticks.append(mark)
    return Scale(
        0.0,
        high,
        tuple((float(d), f"{d:,}") for d in ticks),
        f"{title}, days (log scale)",
        is_log=True,
    )


def named(names: Sequence[str], title: str, room: int) -> Scale:
    """Places 0, 1, 2, …; only as many names as fit into `room` letters are written."""
    longest = max((len(n) for n in names), default=1) + 2
    every = max(1, math.ceil(len(names) * longest / room))
    last = len(names) - 1
    ticks = [(float(i), name) for i, name in enumerate(names) if i % every == 0]
    return Scale(-0.5, last + 0.5, tuple(ticks), title)


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.9)
