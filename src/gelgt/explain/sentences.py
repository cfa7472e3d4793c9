"""Effects as sentences: "Three orders in the last 40 days lower the probability by 0.21." """

from collections.abc import Iterable, Sequence

from gelgt.explain.explanation import Effect
from gelgt.nn.base import duration

WORDS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
MOST = 6  # sentences
LEAST = 0.05  # of the largest effect
ENOUGH = 0.8  # of the effects of a path, which a sentence tells


def sentence(effect: Effect, what: str) -> str:
    """One effect in words."""
    verb = _verb(effect.effect, effect.rows)
    by = f"{verb} {what} by {amount(effect.effect)}"
    if effect.kind == "column":
        return f"{effect.column} = {_value(effect)} of {row_name(effect)} {by}."
    if effect.kind == "row":
        if len(effect.path) == 1:
            return f"The columns of {row_name(effect)} {_verb(effect.effect, 2)} {what} by " + (
                f"{amount(effect.effect)}."
            )
        return f"{_capital(row_name(effect))} {by}."
    rows = f"{_count(effect.rows)} {'row' if effect.rows == 1 else 'rows'} of {effect.table}"
    return f"{rows}{_when(effect)}{_way(effect)} {by}."


def summary(effects: Sequence[Effect], what: str) -> tuple[str, ...]:
    """The strongest effects: rows of one path that work in the same direction are told together,
    columns by themselves."""
    groups: dict[tuple[tuple[str, ...], tuple[str, ...], bool, str], list[Effect]] = {}
    for effect in effects:
        column = f"{effect.column} of {effect.key}" if effect.kind == "column" else ""
        key = (effect.path, effect.keys, effect.effect > 0, column)
        groups.setdefault(key, []).append(effect)
    told = sorted(
        (_together(_strongest(group)) for group in groups.values()), key=lambda e: -abs(e.effect)
    )
    least = LEAST * abs(told[0].effect) if told else 0.0
    return tuple(sentence(effect, what) for effect in told[:MOST] if abs(effect.effect) > least)


def _strongest(effects: list[Effect]) -> list[Effect]:
    """The fewest effects that make up most of their sum."""
    by_size = sorted(effects, key=lambda e: -abs(e.effect))
    total, so_far = sum(abs(e.effect) for e in effects), 0.0
    for count, effect in enumerate(by_size, 1):
        so_far += abs(effect.effect)
        if so_far >= ENOUGH * total:
            return by_size[:count]
    return by_size


def _together(effects: list[Effect]) -> Effect:
    if len(effects) == 1:
        return effects[0]
    ages = [e.age_days for e in effects if e.age_days is not None]
    oldest = [e.oldest_days or e.age_days for e in effects if e.age_days is not None]
    first = effects[0]
    return Effect(
        kind="path",
        table=first.table,
        path=first.path,
        keys=first.keys,
        effect=sum(e.effect for e in effects),
        age_days=min(ages, default=None),
        oldest_days=max((d for d in oldest if d is not None), default=None),
        rows=sum(e.rows for e in effects),
    )


def describe(effect: Effect) -> str:
    """What an effect is of, in a few words: "orders 7", "12 × orders, 30 to 90 days ago"."""
    if effect.kind == "column":
        return f"{effect.table} {key_text(effect.key)} · {effect.column} = {_value(effect)}"
    if effect.kind == "row":
        own = " · its own columns" if len(effect.path) == 1 else ""
        return f"{effect.table} {key_text(effect.key)}{own}"
    way = f" ({path_text(effect.path)})" if len(effect.path) > 2 else ""
    when = _when(effect) if effect.kind == "age" else ""
    return f"{effect.rows:,} × {effect.table}{when}{way}"


def row_name(effect: Effect) -> str:
    """A single row: "the row 7 of orders (31 days ago)"."""
    name = f"the row {key_text(effect.key)} of {effect.table}"
    if effect.age_days is not None:
        return f"{name} ({duration(max(effect.age_days, 0.0))} ago)"
    if effect.via_days is not None and len(effect.path) > 2:
        return f"{name} ({effect.path[-2]} of {duration(max(effect.via_days, 0.0))} ago)"
    return name


def amount(effect: float) -> str:
    size = abs(effect)
    return f"{size:.2f}" if 0.005 <= size < 100 else f"{size:.3g}"


def path_text(path: Iterable[str]) -> str:
    return " → ".join(path)


def _verb(effect: float, rows: int) -> str:
    if rows == 1:
        return "raises" if effect > 0 else "lowers"
    return "raise" if effect > 0 else "lower"


def _count(rows: int) -> str:
    return WORDS[rows] if rows < len(WORDS) else f"{rows:,}"


def _when(effect: Effect) -> str:
    if effect.age_days is None or effect.oldest_days is None:
        return ""
    newest, oldest = max(effect.age_days, 0.0), max(effect.oldest_days, 0.0)
    if newest < oldest / 10 or (oldest < 100 and newest < oldest / 3):
        return f" in the last {duration(oldest)}"
    if duration(newest) == duration(oldest):
        return f" of {duration(oldest)} ago"
    return f" of {duration(newest)} to {duration(oldest)} ago"


def _way(effect: Effect) -> str:
    return f" ({path_text(effect.path)})" if len(effect.path) > 2 else ""


def _value(effect: Effect) -> str:
    return "(text or missing)" if effect.value is None else str(effect.value)


def key_text(key: object) -> str:
    """A key, whose parts are a list."""
    return ", ".join(map(str, key)) if isinstance(key, list) else str(key)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
