"""Names and values in SQL. Names are quoted only where DuckDB needs it, for readable SQL."""

import re
from typing import Any

import numpy as np

# RelBench's name for the position of a row in a table without a primary key
ROW_NUMBER = "primary_key"
TIMEDELTA = "{timedelta}"  # stands for the window in label SQL

# Words that DuckDB does not take everywhere as the name of a table, column or alias; a test tries
# all of its keywords.
_RESERVED_WORDS = """
all analyse analyze and anti any array as asc asof asymmetric at authorization between binary both
by case cast check collate collation column columns concurrently constraint create cross default
deferrable desc describe distinct do else end except exists false fetch for foreign freeze from full
generated glob group having ilike in initially inner intersect interval into is isnull join lambda
lateral leading left like limit map natural not notnull null offset on only or order outer overlaps
pivot pivot_longer pivot_wider placing positional primary qualify recursive references returning
right row select semi show similar some struct summarize symmetric table tablesample then to
trailing true try_cast tuple union unique unpack unpivot using values variadic verbose when where
window with
"""
_RESERVED = frozenset(_RESERVED_WORDS.split())
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quote(name: str) -> str:
    """A table or column name for SQL.

    Example:
        >>> quote("orders"), quote("order"), quote('my "own" table')
        ('orders', '"order"', '"my ""own"" table"')
    """
    if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A DuckDB string.

    Label SQL has its window put in for ``{timedelta}``, which a value must keep: it is written in
    two parts.

    Example:
        >>> text_literal("O'Neil")
        "'O''Neil'"
    """
    if TIMEDELTA in value:
        parts = re.split(r"(?<=\{)(?=timedelta\})", value)
        return f"({' || '.join(text_literal(part) for part in parts)})"
    return "'" + value.replace("'", "''") + "'"


def literal(value: bool | float | str | None) -> str:
    """A DuckDB value.

    Example:
        >>> literal(True), literal(1.5), literal("open"), literal(None)
        ('true', '1.5', "'open'", 'NULL')
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    return text_literal(value) if isinstance(value, str) else repr(value)


def time_literal(time: Any) -> str:
    """A DuckDB timestamp.

    Example:
        >>> time_literal(np.datetime64("2024-01-31", "us"))
        "TIMESTAMP '2024-01-31 00:00:00'"
    """
    text = str(np.datetime64(time, "us")).replace("T", " ")
    return f"TIMESTAMP '{text.removesuffix('.000000')}'"
