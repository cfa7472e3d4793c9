"""Numbers, times and names as people read them; a missing value is an en dash."""

import math
from collections.abc import Sequence
from datetime import datetime

from gelgt.metrics import SMALLER_IS_BETTER, WORDS

MISSING = "–"
LEVEL = "95\u00a0%"  # of every interval; no line may break inside it
_WORDS = {
    **WORDS,
    "lightgbm": "LightGBM",
    "lightgbm-2hop": "LightGBM, two hops",
    "entity-mean": "entity mean",
    "entity-median": "entity median",
    "global-mean": "global mean",
    "past": "entity's past",
    "recent": "most recent",
    "popular": "most popular",
}


def word(name: str) -> str:
    """A metric or a model as a sentence names it; others keep their name."""
    return _WORDS.get(name, name)


def heading(name: str) -> str:
    """The same at the start of a line; the first letter of other names stays as it is."""
    return f"{_WORDS[name][0].upper()}{_WORDS[name][1:]}" if name in _WORDS else name


def is_lower_better(metric: str) -> bool:
    return metric in SMALLER_IS_BETTER


def is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def number(value: float | None, digits: int = 3) -> str:
    """At most so many significant digits, thousands grouped, no exponent between 10⁻⁴ and 10⁷.

    >>> [number(v) for v in (0.0, 12345.6, 3.14159, -0.00123, 2.5e9, None)]
    ['0', '12,346', '3.14', '−0.00123', '2.5 × 10⁹', '–']
    """
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if exponent < -4 or exponent >= 7:
        power = str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"{_plain(value / 10**exponent, digits - 1)} × 10{power}"
    return _plain(value, max(digits - 1 - exponent, 0))


def _plain(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text.replace("-", "−")


def score(value: float | None, like: Sequence[float | None] = ()) -> str:
    """A score: three decimals up to 10, else four digits; `like` keeps the same decimals over a row
    of scores."""
    if value is None or not math.isfinite(value):
        return MISSING
    largest = max(abs(v) for v in (value, *like) if v is not None and math.isfinite(v))
    decimals = 3 if largest < 10 else 2 if largest < 1000 else 0
    return f"{value:,.{decimals}f}".replace("-", "−")


def difference(ours: float | None, theirs: float | None, metric: str) -> str:
    """How far the first score is from the second, in words that hold for errors as well.

    >>> difference(0.81, 0.775, "roc_auc"), difference(4.0, 3.5, "mae")
    ('0.035 better', '0.500 worse')
    """
    if ours is None or theirs is None or not is_number(ours) or not is_number(theirs):
        return MISSING
    gain = theirs - ours if is_lower_better(metric) else ours - theirs
    shown = score(abs(gain), (ours, theirs))
    if not any(c in "123456789" for c in shown):
        return "the same"
    return f"{shown} {'better' if gain > 0 else 'worse'}"


def signed(value: float, like: Sequence[float | None] = ()) -> str:
    return ("+" if value > 0 else "") + score(value, like)


def count(value: float | None) -> str:
    """Whole things, in full up to ten million."""
    if value is None:
        return MISSING
    return (
        f"{value:,.0f}"
        if abs(value) < 1e7
        else f"{number(value / 1e6 if abs(value) < 1e9 else value / 1e9)} "
        f"{'million' if abs(value) < 1e9 else 'billion'}"
    )


def percent(share: float | None) -> str:
    """
    >>> [percent(share).replace("\u00a0", " ") for share in (0.4, 0.0042, 0.00001, 1.0)]
    ['40 %', '0.4 %', '< 0.1 %', '100 %']
    """
    if share is None or not math.isfinite(share):
        return MISSING
    if 0 < share < 0.001:
        return "<\u00a00.1\u00a0%"
    return (f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}").replace("%", "\u00a0%")


def duration(seconds: float | None) -> str:
    """
    >>> duration(0.31), duration(61.0), duration(7322)
    ('0.3 s', '1 min 1 s', '2 h 2 min')
    """
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def moment(time: str | None) -> str:
    """A timestamp without the parts that say nothing; text that is no timestamp stays as it is.

    >>> moment("2010-01-01T00:00:00"), moment("2010-01-01T12:30:00")
    ('2010-01-01', '2010-01-01 12:30')
    """
    if not time:
        return MISSING
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return time
    return parsed.strftime(
        "%Y-%m-%d" if (parsed.hour, parsed.minute, parsed.second) == (0, 0, 0) else "%Y-%m-%d %H:%M"
    )


def cut(text: str, length: int) -> str:
    """A long name shortened in its middle, where names of one family differ least."""
    if len(text) <= length:
        return text
    head = (length - 1) // 2
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
