"""The slow reference of sentences: nested loops over plain rows, in the words of docs/tasks.md.

Nothing of gelgt is used. Conditions have three values, as in SQL: true, false and None.
"""

import re
from calendar import monthrange
from datetime import datetime, timedelta
from typing import Any

from campaigns.shop_rows import KEYS, PARENTS, TIMES, Row, Rows

_EMPTY = {"COUNT": 0, "COUNT_DISTINCT": 0, "SUM": 0}


def shift(time: datetime, amount: int, unit: str) -> datetime:
    if unit != "months":
        return time + timedelta(**{unit: amount})
    months = time.year * 12 + time.month - 1 + amount
    year, month = divmod(months, 12)
    day = min(time.day, monthrange(year, month + 1)[1])
    return time.replace(year=year, month=month + 1, day=day)


class Reference:
    """Labels and populations of one sentence."""

    def __init__(self, rows: Rows, entity: str, target: Any, where: Any) -> None:
        self.rows, self.entity, self.target, self.where = rows, entity, target, where

    def labels(self, times: list[datetime], ends: Any) -> dict[tuple[datetime, Any], Any]:
        """(seed time, key) → label; `ends` says up to when the window of a seed time may reach."""
        found = {}
        months = max((e for e, unit in self._windows() if unit == "months"), default=0)
        for time in times:
            if months and shift(time, months, "months") > ends(time):
                continue
            for key, row in self.rows.tables[self.entity].items():
                if not self._exists(row, time) or self._holds(self.where, time, row) is not True:
                    continue
                value = self._value(self.target, time, row)
                if value is not None:
                    found[time, key] = value
        return found

    def population(self, time: datetime) -> set[Any]:
        """The keys that a prediction is made for; conditions on the future do not count."""
        past = [c for c in _conjuncts(self.where) if not _is_future(c)]
        return {
            key
            for key, row in self.rows.tables[self.entity].items()
            if self._exists(row, time) and all(self._holds(c, time, row) is True for c in past)
        }

    def _windows(self) -> list[tuple[int, str]]:
        parts = [*_aggregates(self.target), *_aggregates(self.where)]
        return [(part[6], part[7]) for part in parts if part[6] > 0]

    def _exists(self, row: Row, time: datetime) -> bool:
        if self.entity not in TIMES:
            return True
        came = self.rows.time(self.entity, row)
        return came is not None and came <= time

    def _holds(self, condition: Any, time: datetime, row: Row) -> bool | None:
        return True if condition is None else self._value(condition, time, row)

    def _value(self, part: Any, time: datetime, row: Row) -> Any:
        match part[0]:
            case "value":
                return part[1]
            case "column":
                return row[part[1]]
            case "aggregate":
                return self._aggregate(part, time, row)
            case "not":
                value = self._value(part[1], time, row)
                return None if value is None else not value
            case "and" | "or":
                values = [self._value(p, time, row) for p in part[1]]
                decides = part[0] == "or"
                if decides in values:
                    return decides
                return None if None in values else not decides
            case "null":
                return (self._value(part[1], time, row) is None) != part[2]
        return self._compared(part, time, row)

    def _compared(self, part: Any, time: datetime, row: Row) -> bool | None:
        left = self._value(part[1], time, row)
        if left is None:
            return None
        if part[0] == "in":
            return (left in [v[1] for v in part[2]]) != part[3]
        if part[0] == "between":
            return (part[2][1] <= left <= part[3][1]) != part[4]
        operator, right = part[2], self._value(part[3], time, row)
        match operator:
            case "=":
                return left == right
            case "!=":
                return left != right
            case "<":
                return left < right
            case "<=":
                return left <= right
            case ">":
                return left > right
            case ">=":
                return left >= right
        pattern = "".join({"%": ".*", "_": "."}.get(letter, re.escape(letter)) for letter in right)
        return (re.fullmatch(pattern, left, re.DOTALL) is not None) != (operator == "NOT LIKE")

    def _aggregate(self, part: Any, time: datetime, row: Row) -> Any:
        _, function, table, column, where, start, end, unit, path = part
        inside = []
        latest = shift(time, end, unit)
        earliest = datetime.min if start is None else shift(time, start, unit)
        for came, other in self.rows.dated[table]:
            if not earliest < came <= latest:
                continue
            if self._owner(table, other, path) != row[KEYS[self.entity]]:
                continue
            if self._holds(where, time, other) is not True:
                continue
            inside.append((came, other[KEYS[table]], 1 if column == "*" else other[column]))
        inside = sorted((i for i in inside if i[2] is not None), key=lambda i: i[:2])
        return _folded(function, [value for _, _, value in inside])

    def _owner(self, table: str, row: Row, path: tuple[str, ...]) -> Any:
        for step in path[:-1]:
            table, key = PARENTS[table][step], row[step]
            if key is None:
                return None
            row = self.rows.tables[table][key]
        return row[path[-1]]


def _folded(function: str, values: list[Any]) -> Any:
    if not values:
        return _EMPTY.get(function)
    match function:
        case "COUNT":
            return len(values)
        case "COUNT_DISTINCT":
            return len(set(values))
        case "SUM":
            return sum(values)
        case "AVG":
            return sum(values) / len(values)
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "FIRST":
            return values[0]
    return values[-1]


def _aggregates(part: Any) -> list[Any]:
    if isinstance(part, list):
        return [a for p in part for a in _aggregates(p)]
    if not isinstance(part, tuple) or not part:
        return []
    if part[0] == "aggregate":
        return [part]
    return [a for p in part[1:] for a in _aggregates(p)]


def _conjuncts(part: Any) -> list[Any]:
    if part is None:
        return []
    return [c for p in part[1] for c in _conjuncts(p)] if part[0] == "and" else [part]


def _is_future(part: Any) -> bool:
    return any(a[6] > 0 for a in _aggregates(part))
