"""The syntax tree of a PREDICT sentence, as plain records.

    sentence  = PREDICT condition | value  FOR EACH table.key  [WHERE condition]
    value     = aggregate | column
    aggregate = FUNCTION(table.column | table.*  [VIA key] [WHERE condition], start, end, unit)
    condition = comparisons joined by AND, OR, NOT and parentheses

Positions do not count when two records are compared: the same aggregate written twice is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from gelgt.tasks.predict.tokens import Span

_ANYWHERE = Span(0, 1)


@dataclass(frozen=True)
class Function:
    """An aggregate function.

    Attributes:
        empty: Its value where no row falls into the window; None leaves the entity out.
        gives: The type of its value; None for that of the column.
        takes: The types of columns that it takes.
        needs: These in words, for an error.
    """

    empty: int | None = None
    gives: str | None = None
    takes: tuple[str, ...] = ("number", "boolean", "text", "time", "list", "key")
    needs: str = "a column"


_NUMBERS, _ORDERED = ("number", "boolean"), ("number", "boolean", "text", "time")
# How each is written in SQL is in `compile.py`.
AGGREGATES = {
    "COUNT": Function(empty=0, gives="number"),
    "COUNT_DISTINCT": Function(empty=0, gives="number"),
    "SUM": Function(empty=0, gives="number", takes=_NUMBERS, needs="a number"),
    "AVG": Function(gives="number", takes=_NUMBERS, needs="a number"),
    "MIN": Function(takes=_ORDERED, needs="a number"),
    "MAX": Function(takes=_ORDERED, needs="a number"),
    "FIRST": Function(),
    "LAST": Function(),
    "LIST_DISTINCT": Function(takes=("key",), needs="a foreign key"),
}
# Unit -> seconds; a month counts 30 days where a duration is needed and is a calendar month in the
# SQL.
UNITS = {
    "seconds": 1,
    "minutes": 60,
    "hours": 3600,
    "days": 86400,
    "weeks": 604800,
    "months": 30 * 86400,
}


@dataclass(frozen=True)
class Column:
    """`table.name`; `name` is ``*`` for whole rows, `table` None where the sentence leaves it
    out."""

    table: str | None
    name: str
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Literal:
    """A value; times are in UTC without a zone."""

    value: int | float | str | bool | datetime
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Aggregate:
    """`function` over the rows of a table in (start, end] around the seed time; `start` None is
    -INF."""

    function: str
    column: Column
    start: int | None
    end: int
    unit: str
    via: Column | None = None
    where: Condition | None = None
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)

    @property
    def is_future(self) -> bool:
        return self.end > 0


Operand = Column | Literal | Aggregate


@dataclass(frozen=True)
class Comparison:
    """`left operator right`; operators = != < <= > >= LIKE, NOT LIKE."""

    left: Operand
    operator: str
    right: Operand
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Membership:
    """`operand [NOT] IN (values)`."""

    operand: Operand
    values: tuple[Literal, ...]
    negated: bool = False
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Between:
    """`operand [NOT] BETWEEN low AND high`, both ends included."""

    operand: Operand
    low: Literal
    high: Literal
    negated: bool = False
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class IsNull:
    """`operand IS [NOT] NULL`."""

    operand: Operand
    negated: bool = False
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Not:
    """`NOT condition`."""

    part: Condition
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class Junction:
    """Conditions joined by AND or by OR."""

    operator: str
    parts: tuple[Condition, ...]
    span: Span = field(default=_ANYWHERE, compare=False, repr=False)


Condition = Comparison | Membership | Between | IsNull | Not | Junction


@dataclass(frozen=True)
class Sentence:
    """A whole sentence with its text, which errors point into."""

    target: Condition | Column | Aggregate
    entity: Column
    where: Condition | None
    text: str = field(compare=False, repr=False)


def operands(condition: Condition | Operand | None) -> list[Column | Aggregate]:
    """Every column and aggregate that a condition names (not the columns inside an aggregate)."""
    match condition:
        case None | Literal():
            return []
        case Column() | Aggregate():
            return [condition]
        case Comparison(left, _, right):
            return operands(left) + operands(right)
        case Membership() | Between() | IsNull():
            return operands(condition.operand)
        case Not(part):
            return operands(part)
        case Junction():
            return [operand for part in condition.parts for operand in operands(part)]


def conjuncts(condition: Condition | None) -> list[Condition]:
    """The parts that all have to hold."""
    if condition is None:
        return []
    if isinstance(condition, Junction) and condition.operator == "AND":
        return [conjunct for part in condition.parts for conjunct in conjuncts(part)]
    return [condition]


def aggregates(*conditions: Condition | Operand | None) -> list[Aggregate]:
    """Every aggregate that conditions name, each once."""
    parts = [part for condition in conditions for part in operands(condition)]
    return list(dict.fromkeys(part for part in parts if isinstance(part, Aggregate)))
