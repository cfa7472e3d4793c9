"""How grave each finding is, and how findings of one code are summed up in a line.

    error     going on would give wrong answers: stops `gelgt train` until a schema states the
              answer, or the user accepts it
    leak      a model may know the future
    warning   a part of the data is not read as its author meant it
    notice    worth knowing

Findings of caches and manifests are stored without a severity; it follows from their code.
"""

from typing import Literal, NamedTuple

Severity = Literal["error", "leak", "warning", "notice"]
SEVERITIES: tuple[Severity, ...] = ("error", "leak", "warning", "notice")
GRAVE_SHARE = 0.05  # of a table's rows, from which what only costs rows is a warning


class Code(NamedTuple):
    """What a code means.

    Attributes:
        severity: Of its findings, where they do not say otherwise.
        several: What is said of `{n}` findings at once.
        has_counts: Whether the counts of findings tell how grave they are.
    """

    severity: Severity
    several: str
    has_counts: bool = False


# In the order in which findings of one severity are listed.
CODES: dict[str, Code] = {
    "no_times": Code("error", "{n} databases have no time column"),
    "suspected_leak": Code("leak", "{n} columns may tell the future", True),
    "vetoed_time": Code("warning", "{n} dates are named like times of rows, but cannot be"),
    "undecided_time": Code("warning", "{n} tables have two readings of their time"),
    "left_out_table": Code("warning", "{n} tables are left out: nothing says when their rows came"),
    "unreadable_table": Code("warning", "{n} tables cannot be read"),
    "text_dates": Code("warning", "{n} columns look like dates but stay text"),
    "mixed_types": Code("warning", "{n} columns hold values of several types", True),
    "dangling_key": Code("notice", "{n} foreign keys name rows that do not exist", True),
    "inherited_rows": Code("notice", "{n} tables are read with those that inherit from them"),
    "null_time": Code("notice", "{n} tables have rows without a time, which no model sees", True),
    "pointer": Code("notice", "{n} foreign keys change after their row was made; not followed"),
    "unlinked_table": Code("notice", "{n} tables are linked to no other table"),
    "outside_key": Code("notice", "{n} foreign keys lead to tables that are not read"),
    "missing_words": Code("notice", "{n} columns of numbers or times hold words", True),
    "non_finite": Code("notice", "{n} columns hold infinite or undefined numbers", True),
    "text_numbers": Code("notice", "{n} columns look like numbers but stay text"),
    "epoch_time": Code("notice", "{n} columns of whole numbers are read as times"),
    "many_categories": Code("notice", "{n} columns have many categories"),
    "empty_table": Code("notice", "{n} tables have no rows"),
    "no_columns": Code("notice", "{n} tables have no columns that can be read"),
    "key_only_table": Code("notice", "{n} tables hold only keys"),
    "all_null_column": Code("notice", "{n} columns have no value at all"),
    "constant_column": Code("notice", "{n} columns have one value in all rows"),
    "binary_column": Code("notice", "{n} columns of bytes are left out"),
    "timeless_table": Code("notice", "{n} tables have dates but no time column"),
}
_UNKNOWN = Code("warning", "{n} findings")
_ORDER = {code: place for place, code in enumerate(CODES)}


def severity_of(code: str) -> Severity:
    """The severity of a code; `warning` for one that is not listed."""
    return CODES.get(code, _UNKNOWN).severity


def several(code: str, count: int) -> str:
    """What is said of several findings of a code."""
    return CODES.get(code, _UNKNOWN).several.format(n=count)


def has_counts(code: str) -> bool:
    """Whether the counts of findings of a code tell how grave they are."""
    return CODES.get(code, _UNKNOWN).has_counts


def rank(severity: Severity, code: str) -> tuple[int, int]:
    """The place of a finding among others: the gravest first."""
    return SEVERITIES.index(severity), _ORDER.get(code, len(_ORDER))
