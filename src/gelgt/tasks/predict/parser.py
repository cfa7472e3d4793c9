"""Reads a PREDICT sentence by recursive descent, one method for each rule of its grammar."""

from __future__ import annotations

from gelgt.errors import did_you_mean
from gelgt.tasks.predict.reader import Reader
from gelgt.tasks.predict.syntax import (
    AGGREGATES,
    UNITS,
    Aggregate,
    Between,
    Column,
    Comparison,
    Condition,
    IsNull,
    Junction,
    Literal,
    Membership,
    Not,
    Operand,
    Sentence,
)

# Words that cannot be names unless they are quoted or follow a table's dot.
CLAUSES = {"PREDICT", "FOR", "EACH", "WHERE", "VIA"}
KEYWORDS = CLAUSES | {"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL"}
COMPARISONS = {"=": "=", "!=": "!=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


def parse(sentence: str) -> Sentence:
    """The records of a sentence, or a TaskError that points at the place.

    Example:
        >>> parsed = parse("PREDICT COUNT(orders.*, 0, 30, days) = 0 FOR EACH customers.id")
        >>> parsed.entity
        Column(table='customers', name='id')
    """
    return _Parser(sentence).sentence()


class _Parser(Reader):
    # sentence = PREDICT target FOR EACH table.key [WHERE condition]
    def sentence(self) -> Sentence:
        self.keyword("PREDICT")
        target = self.condition(target=True)
        if isinstance(target, Literal):
            raise self.error(
                "A fixed value cannot be predicted.",
                target.span,
                "Predict an aggregate or a column.",
            )
        self.keyword("FOR")
        self.keyword("EACH")
        entity = self.column()
        where = None
        if self.accept("WHERE"):
            where = self.condition()
        self.symbol_if(";")
        if self.token.kind != "end":
            possible = ("WHERE",) if where is None else ("AND", "OR")
            raise self.unexpected("the end of the sentence", possible)
        assert not isinstance(where, Column | Aggregate | Literal)
        return Sentence(target, entity, where, self.text)

    # condition = conjunction {OR conjunction}
    def condition(self, target: bool = False) -> Condition | Operand:
        return self.junction("OR", target)

    def junction(self, operator: str, target: bool) -> Condition | Operand:
        first = self.next_level(operator, target)
        parts = [first]
        while self.accept(operator):
            parts.append(self.next_level(operator, target=False))
        if len(parts) == 1:
            return first
        joined = tuple(self.checked(part) for part in parts)
        return Junction(operator, joined, joined[0].span.to(joined[-1].span))

    def next_level(self, operator: str, target: bool) -> Condition | Operand:
        return self.junction("AND", target) if operator == "OR" else self.negation(target)

    def negation(self, target: bool) -> Condition | Operand:
        start = self.token.span
        if self.accept("NOT"):
            part = self.checked(self.negation(target=False))
            return Not(part, start.to(part.span))
        if self.symbol_if("("):
            inner = self.condition(target)
            self.symbol(")")
            return inner
        return self.comparison(target)

    # comparison = operand operator operand
    #            | operand [NOT] IN (…) | … BETWEEN … | … LIKE … | … IS [NOT] NULL
    def comparison(self, target: bool) -> Condition | Operand:
        left = self.operand()
        if self.token.kind == "symbol" and self.token.text in COMPARISONS:
            operator = COMPARISONS[self.advance().text]
            self.refuse_null(operator)
            right = self.operand()
            return Comparison(left, operator, right, left.span.to(right.span))
        if self.accept("IS"):
            negated = self.accept("NOT")
            return IsNull(left, negated, left.span.to(self.keyword("NULL").span))
        negated = self.accept("NOT")
        if self.accept("IN"):
            values = self.values()
            return Membership(left, values, negated, left.span.to(self.tokens[self.place - 1].span))
        if self.accept("BETWEEN"):
            low = self.literal()
            self.keyword("AND")
            high = self.literal()
            return Between(left, low, high, negated, left.span.to(high.span))
        if self.accept("LIKE"):
            pattern = self.literal()
            return Comparison(
                left, "NOT LIKE" if negated else "LIKE", pattern, left.span.to(pattern.span)
            )
        if negated:
            raise self.unexpected("IN, BETWEEN or LIKE after NOT", ("IN", "BETWEEN", "LIKE"))
        if target:
            return left
        raise self.unexpected(
            "a comparison such as '> 0', 'IN (…)' or 'IS NULL'", ("IN", "BETWEEN", "LIKE", "IS")
        )

    def checked(self, part: Condition | Operand) -> Condition:
        if isinstance(part, Column | Aggregate | Literal):
            raise self.error(
                "A comparison is missing here.", part.span, "Write it like '> 0' or '= true'."
            )
        return part

    def operand(self) -> Operand:
        token = self.token
        if token.kind in ("text", "number", "date") or self.at_literal_word():
            return self.literal()
        if token.kind not in ("name", "quoted"):
            raise self.unexpected("a column, an aggregate or a value", ())
        if (
            token.kind == "name"
            and self.tokens[self.place + 1].text == "("
            and self.tokens[self.place + 1].kind == "symbol"
        ):
            return self.aggregate()
        return self.column()

    # aggregate = FUNCTION(table.column [VIA key] [WHERE condition], start, end, unit)
    def aggregate(self) -> Aggregate:
        token = self.advance()
        function = token.text.upper()
        if function not in AGGREGATES:
            raise self.error(
                f"There is no aggregate '{token.text}'.",
                token.span,
                did_you_mean(token.text, AGGREGATES),
                "unknown_aggregate",
            )
        self.symbol("(")
        column = self.column(star=True)
        via: Column | None = None
        where: Condition | None = None
        while True:
            if via is None and self.accept("VIA"):
                via = self.column()
            elif where is None and self.accept("WHERE"):
                where = self.checked(self.condition())
            else:
                break
        self.symbol(",", ("WHERE", "VIA"))
        start, end = self.window()
        self.symbol(",")
        unit = self.unit()
        close = self.symbol(")")
        return Aggregate(function, column, start, end, unit, via, where, token.span.to(close.span))

    def window(self) -> tuple[int | None, int]:
        first = self.token.span
        start = self.bound(may_be_infinite=True)
        self.symbol(",")
        end = self.bound(may_be_infinite=False)
        assert end is not None
        span = first.to(self.tokens[self.place - 1].span)
        if start is not None and start >= end:
            raise self.error(
                f"The window from {start} to {end} is empty.",
                span,
                "The start must be smaller than the end.",
                "bad_window",
            )
        if start is None and end > 0:
            raise self.error(
                "A window from -INF must end at 0 or before.",
                span,
                "Only past windows may be open.",
                "bad_window",
            )
        return start, end

    def bound(self, may_be_infinite: bool) -> int | None:
        token = self.advance()
        if token.kind != "number":
            raise self.error(
                f"A whole number is expected here, not '{token.text}'.",
                token.span,
                "Windows are written like '0, 30, days'.",
                "bad_window",
            )
        if token.text.lower().endswith("inf"):
            if not may_be_infinite or not token.text.startswith("-"):
                raise self.error(
                    "Only the start of a window may be infinite, as -INF.",
                    token.span,
                    code="bad_window",
                )
            return None
        try:
            return int(token.text)
        except ValueError:
            raise self.error(
                f"'{token.text}' is no whole number.",
                token.span,
                "Use a smaller unit.",
                "bad_window",
            ) from None

    def unit(self) -> str:
        token = self.advance()
        word = token.text.lower()
        for unit in (word, word + "s"):
            if token.kind == "name" and unit in UNITS:
                return unit
        raise self.error(
            f"There is no unit '{token.text}'.",
            token.span,
            did_you_mean(token.text, UNITS),
            "unknown_unit",
        )

    def column(self, star: bool = False) -> Column:
        if (
            self.token.kind == "name"
            and self.token.text.upper() in KEYWORDS
            and self.tokens[self.place + 1].text != "."
        ):
            raise self.unexpected("a column, an aggregate or a value", ())
        first = self.name("a column such as table.column")
        if not self.symbol_if("."):
            if star:
                raise self.error(
                    f"'{first.text}' is no column of a table.",
                    first.span,
                    f"Write '{first.text}.*' or '{first.text}.column'.",
                )
            return Column(None, first.text, first.span)
        if self.token.kind == "symbol" and self.token.text == "*":
            last = self.advance()
            return Column(first.text, "*", first.span.to(last.span))
        last = self.name("a column name")
        return Column(first.text, last.text, first.span.to(last.span))
