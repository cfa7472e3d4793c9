"""Random PREDICT sentences: their text, and the same as nested tuples for the slow reference.

("aggregate", function, table, column, where, start, end, unit, path)
("column", name)
("compare", left, operator, right) ("in", operand, values, negated)
("between", operand, low, high, negated) ("null", operand, negated)
("not", part) ("and", parts) ("or", parts)      values are ("value", value)
"""

from datetime import datetime, timedelta
from typing import Any

import numpy as np

from campaigns.shop_rows import KEYS, START, TYPES, WORDS

# From an aggregated table to the entity, key by key; those that are the shortest and the only ones.
PATHS: dict[str, dict[str, tuple[str, ...]]] = {
    "users": {"orders": ("user",), "notes": ("order", "user"), "items": ("order", "user")},
    "shops": {"orders": ("shop",), "users": ("shop",), "notes": ("order", "shop")},
    "orders": {"notes": ("order",)},
}
FUNCTIONS = ("COUNT", "COUNT_DISTINCT", "SUM", "AVG", "MIN", "MAX", "FIRST", "LAST")
UNITS = {"hours": 500, "days": 30, "weeks": 4, "months": 2}


class Grammar:
    """Draws sentences over the tables of `shop_rows`."""

    def __init__(self, random: np.random.Generator, keys: dict[str, list[Any]]) -> None:
        self.random = random
        self.keys = keys
        self.entity = self.pick(["users", "users", "shops", "orders"])

    def pick(self, options: Any) -> Any:
        return options[self.random.integers(len(options))]

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def sentence(self) -> tuple[str, Any, Any]:
        """The text, the target and the condition (None where there is none)."""
        target = self.aggregate(is_target=True)
        text = target[0]
        is_value = target[2] in ("number", "boolean") or target[1][1] in ("FIRST", "LAST")
        if self.chance(0.6) or not is_value:
            target = self.condition(lambda: self.aggregate(is_target=True), 1)
            text = target[0]
        where = self.condition(self.operand, 2) if self.chance(0.6) else None
        ending = "" if where is None else f" WHERE {where[0]}"
        key = KEYS[self.entity]
        whole = f"PREDICT {text} FOR EACH {self.entity}.{key}{ending}"
        return whole, target[1], None if where is None else where[1]

    def aggregate(self, is_target: bool) -> tuple[str, Any, str]:
        """Text, tuple and type."""
        table = self.pick(list(PATHS[self.entity]))
        function = self.pick(FUNCTIONS)
        columns = [
            name
            for name, kind in TYPES[table].items()
            if kind in ("number", "boolean")
            or function in ("COUNT", "COUNT_DISTINCT")
            or (function not in ("SUM", "AVG") and not (is_target and kind == "time"))
        ]
        if function == "COUNT" and self.chance(0.6):
            column, kind = "*", "number"
        else:
            column = self.pick(columns)
            kind = TYPES[table][column]
        if function in ("COUNT", "COUNT_DISTINCT", "SUM", "AVG"):
            kind = "number"
        elif function in ("MIN", "MAX") and kind == "boolean":
            kind = "boolean"
        start, end, unit = self.window(is_target)
        inside = None
        if self.chance(0.3):
            inside = self.condition(lambda: self.column(table), 1)
        words = f"{table}.{column}" + (f" WHERE {inside[0]}" if inside else "")
        first = "-INF" if start is None else start
        path = PATHS[self.entity][table]
        where = inside and inside[1]
        made = ("aggregate", function, table, column, where, start, end, unit, path)
        return f"{function}({words}, {first}, {end}, {unit})", made, kind

    def window(self, is_target: bool) -> tuple[int | None, int, str]:
        unit = self.pick(list(UNITS))
        low, high = sorted(int(n) for n in self.random.integers(0, UNITS[unit] + 1, 2))
        high += low == high
        if is_target:
            return low, high, unit
        if self.chance(0.15):
            return None, -low, unit
        if self.chance(0.25):
            return low, high, unit
        return -high, -low, unit

    def column(self, table: str) -> tuple[str, Any, str]:
        name = self.pick(list(TYPES[table]))
        text = f"{table}.{name}" if self.chance(0.5) else name
        return text, ("column", name), TYPES[table][name]

    def operand(self) -> tuple[str, Any, str]:
        if self.chance(0.15):
            key = KEYS[self.entity]
            return key, ("column", key), f"key {self.entity}"
        return self.column(self.entity) if self.chance(0.45) else self.aggregate(is_target=False)

    def condition(self, operand: Any, depth: int) -> tuple[str, Any]:
        choice = self.random.random()
        if depth and choice < 0.3:
            word = self.pick(["and", "or"])
            parts = [self.condition(operand, depth - 1) for _ in range(self.random.integers(2, 4))]
            text = f" {word.upper()} ".join(f"({part[0]})" for part in parts)
            return text, (word, [part[1] for part in parts])
        if depth and choice < 0.4:
            text, part = self.condition(operand, depth - 1)
            return f"NOT ({text})", ("not", part)
        return self.simple(operand())

    def simple(self, operand: tuple[str, Any, str]) -> tuple[str, Any]:
        text, made, kind = operand
        negated = self.chance(0.4)
        word = "NOT " if negated else ""
        choice = self.random.random()
        if choice < 0.15:
            return f"{text} IS {word}NULL", ("null", made, negated)
        if choice < 0.35:
            values = [self.literal(kind) for _ in range(self.random.integers(1, 4))]
            listed = ", ".join(value[0] for value in values)
            return f"{text} {word}IN ({listed})", ("in", made, [v[1] for v in values], negated)
        if choice < 0.45 and kind in ("number", "text", "time"):
            (low, a), (high, b) = self.literal(kind), self.literal(kind)
            return f"{text} {word}BETWEEN {low} AND {high}", ("between", made, a, b, negated)
        value, plain = self.literal(kind)
        operators = ["=", "!="] if kind.startswith("key") else ["=", "!=", "<", "<=", ">", ">="]
        if kind == "text" and self.chance(0.4):
            operators = ["LIKE", "NOT LIKE"]
            value, plain = self.pattern()
        operator = self.pick(operators)
        return f"{text} {operator} {value}", ("compare", made, operator, plain)

    def literal(self, kind: str) -> tuple[str, Any]:
        match kind:
            case "number":
                value: Any = self.pick([0, 1, 2, 3, -1, 2.5, 0.25, 10, -4.75])
                return str(value), ("value", value)
            case "boolean":
                value = self.chance(0.5)
                return ("TRUE" if value else "FALSE"), ("value", value)
            case "time":
                value = START + timedelta(days=int(self.random.integers(0, 60)))
                return f"'{value.isoformat(sep=' ')}'", ("value", value)
            case "text":
                return _text(value := self.pick(WORDS)), ("value", value)
            case _:
                value = self.pick(self.keys[kind.removeprefix("key ")])
                return (_text(value) if isinstance(value, str) else str(value)), ("value", value)

    def pattern(self) -> tuple[str, Any]:
        value = self.pick(["%", "a%", "%_", "_", "%'%", "%*%", "A", "%{timedelta}%", ""])
        return _text(value), ("value", value)


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def mutate(text: str, random: np.random.Generator) -> str:
    """A sentence with some characters or words removed, doubled, exchanged or put in."""
    odd = [
        *"'\"(),.*;%{}[]\\/-+=<>!\x00\n\t é𝄞0",
        "WHERE", "FOR EACH", "PREDICT", "NULL", "--", "/*", "*/", "9" * 25, "1e400", "-INF", "VIA",
        "COUNT", "LIST_DISTINCT", "days", "((((", "SELECT", "orders.*", '"', "BETWEEN", "IN ()",
        "999999999", "-99999999999", "months",
    ]  # fmt: skip
    for _ in range(int(random.integers(1, 4))):
        is_word = random.random() < 0.5
        parts = text.split(" ") if is_word else list(text)
        place = int(random.integers(len(parts)))
        choice = random.random()
        if choice < 0.3:
            del parts[place]
        elif choice < 0.75:
            parts.insert(place, odd[random.integers(len(odd))])
        elif choice < 0.9:
            other = int(random.integers(len(parts)))
            parts[place], parts[other] = parts[other], parts[place]
        else:
            parts = parts[: place + 1] * 2
        text = (" " if is_word else "").join(parts) or "x"
    return text


def is_time(value: Any) -> bool:
    return isinstance(value, datetime)
