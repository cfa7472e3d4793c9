"""What the names in a sentence mean: tables, columns, their types, and values that fit them.

Key columns hold row numbers in the files, but a sentence speaks the user's keys, so values that are
compared with a key are translated here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from gelgt.errors import TaskError, did_you_mean
from gelgt.schema.model import TableSchema
from gelgt.tasks.keys import row_numbers
from gelgt.tasks.predict.syntax import (
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
)
from gelgt.tasks.predict.tokens import Span, sentence_error
from gelgt.tasks.sql_text import quote, text_literal

if TYPE_CHECKING:
    from gelgt.sources.database import Database

_COMMENT = re.compile(r"/\*|\*/")  # comments nest in DuckDB: one that is opened in a key stays open
_TYPES = {
    "int64": "number",
    "float64": "number",
    "bool": "boolean",
    "string": "text",
    "timestamp": "time",
    "list": "list",
}


@dataclass(frozen=True)
class Meaning:
    """A column or aggregate in SQL.

    Attributes:
        sql: Its expression.
        type: number, boolean, text, time, list or key.
        key_table: The table that a key refers to.
        referred: The columns that it refers to.
    """

    sql: str
    type: str
    key_table: str | None = None
    referred: tuple[str, ...] = ()


Lookup = Callable[[Column | Aggregate], Meaning]


class Scope:
    """Looks names up in a schema and writes conditions as SQL."""

    def __init__(self, db: Database, text: str) -> None:
        self.db = db
        self.text = text
        self.tables = db.schema.tables

    def error(self, code: str, cause: str, span: Span, hint: str = "") -> TaskError:
        return sentence_error(code, cause, self.text, span, hint)

    def table(self, column: Column) -> TableSchema:
        """The table that a column names."""
        name = column.table or ""
        match = _match(name, list(self.tables))
        if match is None:
            raise self.error(
                "unknown_table",
                f"There is no table '{name}'.",
                column.span,
                did_you_mean(name, self.tables),
            )
        return self.tables[match]

    def column(self, column: Column, table: TableSchema, where: str) -> str:
        """The name of a column that must belong to `table`."""
        if column.table is not None and self.table(column).name != table.name:
            raise self.error(
                "wrong_table", f"Only columns of '{table.name}' can be used {where}.", column.span
            )
        match = _match(column.name, list(table.columns))
        if match is None:
            raise self.error(
                "unknown_column",
                f"There is no column '{column.name}' in '{table.name}'.",
                column.span,
                did_you_mean(column.name, table.columns),
            )
        return match

    def meaning(self, table: TableSchema, column: str, alias: str) -> Meaning:
        """A column of a table that goes by an alias."""
        sql = f"{alias}.{quote(column)}"
        if column == table.pkey:
            return Meaning(sql, "key", table.name)
        for key in table.foreign_keys:
            if key.column == column:
                return Meaning(sql, "key", key.table, key.referred)
        return Meaning(sql, _TYPES[table.columns[column]])

    def condition(self, condition: Condition, lookup: Lookup, nested: bool = False) -> str:
        """A condition as SQL; `lookup` gives the meaning of its columns and aggregates."""
        match condition:
            case Comparison(left, operator, right):
                text = self._comparison(left, operator, right, lookup, condition.span)
            case Membership(operand, values, negated):
                meaning = self._meaning(operand, lookup)
                listed = ", ".join(
                    self._keys(values, meaning, "IN")
                    if meaning.type == "key"
                    else [self._value(v, meaning, "IN") for v in values]
                )
                text = f"{meaning.sql} {'NOT ' * negated}IN ({listed})"
            case Between(operand, low, high, negated):
                meaning = self._meaning(operand, lookup)
                text = (
                    f"{meaning.sql} {'NOT ' * negated}BETWEEN {self._value(low, meaning, '<')} "
                    f"AND {self._value(high, meaning, '<')}"
                )
            case IsNull(operand, negated):
                text = f"{self._meaning(operand, lookup).sql} IS {'NOT ' * negated}NULL"
            case Not(part):
                text = f"NOT ({self.condition(part, lookup)})"
            case Junction(operator, parts):
                text = f" {operator} ".join(
                    self.condition(part, lookup, nested=True) for part in parts
                )
                text = f"({text})" if nested else text
        return text

    def _comparison(
        self, left: Operand, operator: str, right: Operand, lookup: Lookup, span: Span
    ) -> str:
        if isinstance(left, Literal) and isinstance(right, Literal):
            raise self.error(
                "bad_sentence",
                "Two fixed values are compared.",
                span,
                "Name a column or an aggregate on one side.",
            )
        if isinstance(left, Literal):
            meaning = self._meaning(right, lookup)
            return f"{self._value(left, meaning, operator)} {operator} {meaning.sql}"
        meaning = self._meaning(left, lookup)
        if isinstance(right, Literal):
            return f"{meaning.sql} {operator} {self._value(right, meaning, operator)}"
        other = self._meaning(right, lookup)
        if (meaning.type, meaning.key_table) != (other.type, other.key_table):
            raise self.error(
                "bad_type", f"A {meaning.type} cannot be compared with a {other.type}.", span
            )
        return f"{meaning.sql} {operator} {other.sql}"

    def _meaning(self, operand: Operand, lookup: Lookup) -> Meaning:
        if isinstance(operand, Literal):
            raise self.error(
                "bad_sentence",
                "A fixed value cannot stand here.",
                operand.span,
                "Name a column or an aggregate.",
            )
        if isinstance(operand, Column) and operand.name == "*":
            raise self.error(
                "bad_sentence", "A whole row cannot be compared.", operand.span, "Name a column."
            )
        return lookup(operand)

    def _value(self, literal: Literal, meaning: Meaning, operator: str) -> str:
        """A value as SQL, in the type of what it is compared with."""
        value = literal.value
        if meaning.type == "key":
            return self._keys([literal], meaning, operator)[0]
        if "LIKE" in operator and meaning.type != "text":
            raise self.error(
                "bad_type", f"LIKE compares texts, not a {meaning.type}.", literal.span
            )
        if meaning.type == "time" and isinstance(value, str | datetime):
            return f"TIMESTAMP '{self._time(literal).isoformat(sep=' ')}'"
        if meaning.type == "text" and isinstance(value, str):
            return text_literal(value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if meaning.type == "number" and is_number:
            return repr(value)
        if meaning.type == "boolean" and (isinstance(value, bool) or value in (0, 1)):
            return "true" if value else "false"
        kinds = {str: "text", datetime: "time", bool: "boolean"}
        got = kinds.get(type(value), "number")
        raise self.error(
            "bad_type",
            f"A {meaning.type} cannot be compared with the {got} {_shown(value)}.",
            literal.span,
        )

    def _time(self, literal: Literal) -> datetime:
        if isinstance(literal.value, datetime):
            return literal.value
        try:
            time = datetime.fromisoformat(str(literal.value).strip())
        except ValueError:
            raise self.error(
                "bad_type",
                f"'{literal.value}' is no time.",
                literal.span,
                "Write it like '2025-09-01 12:00:00'.",
            ) from None
        return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time

    def _keys(self, literals: Sequence[Literal], meaning: Meaning, operator: str) -> list[str]:
        """The row numbers of the user's keys; all of a list at once, because a key table may be
        large."""
        assert meaning.key_table is not None
        span = literals[0].span.to(literals[-1].span)
        has_user_keys = self.db.keys(meaning.key_table) is not None
        if has_user_keys and operator not in ("=", "!=", "IN"):
            raise self.error(
                "bad_type", f"Keys can be compared with =, != and IN, not with {operator}.", span
            )
        try:
            values = pa.chunked_array([pa.array([literal.value for literal in literals])])
            rows = row_numbers(self.db, meaning.key_table, [values], meaning.referred)
        except TaskError as error:
            raise self.error(
                "unknown_key", error.message, span, "Give keys of this table."
            ) from None
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise self.error(
                "bad_type", "The keys in this list are of different types.", span
            ) from None
        shown = [_shown(literal.value) for literal in literals]
        return [
            f"{row} /* {text} */" if has_user_keys and not _COMMENT.search(text) else str(row)
            for row, text in zip(rows, shown)
        ]


def _shown(value: object) -> str:
    return str(value) if not isinstance(value, str) else repr(value)


def _match(name: str, names: list[str]) -> str | None:
    """A name as it is, or the only one that differs in case alone."""
    if name in names:
        return name
    close = [other for other in names if other.lower() == name.lower()]
    return close[0] if len(close) == 1 else None
