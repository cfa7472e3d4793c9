"""Infers what a column of strings holds: whole numbers, numbers, booleans, times, or text.

A type is given only if every value fits it; "007" stays text because a number would lose the zeros.
Times are ISO 8601 dates or date-times, or unambiguous dates such as 31.12.2024 and 2024/12/31. A
column that is nearly all times is an error, not text: without its time column, a table would show
rows before they happened. Ambiguous dates (01/02/2024) stay text and are reported. Sources without
types write a missing value as a word, such as NA: such words do not make a column of numbers or
times text, so that one in a later row changes nothing before it.
"""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from gelgt.errors import SourceError, in_schema, some
from gelgt.sources.canonical import TIME

_INT = r"^[+-]?(0|[1-9][0-9]{0,18})$"
_SAFE_DIGITS = 18  # numbers of more may be too large for int64
_FLOAT = (
    r"^[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$"
    r"|^[+-]?(nan|NaN|inf|Inf|Infinity)$"
)
_BOOL = r"^(true|false|True|False|TRUE|FALSE)$"
_ZONE = r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)"
_TIME = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?"
    + _ZONE
    + r"?)?$"
)
_DIGIT = r"^[0-9]"  # as every time begins, however it is written
_ZONED = r"[0-9]:[0-9]{2}([.][0-9]+)?" + _ZONE + "$"
# Unambiguous: with dots the day comes first, after a leading year the month.
_DOTTED = [
    (r"^([0-9])[.]", r"0\1."),
    (r"^([0-9]{2})[.]([0-9])[.]", r"\1.0\2."),
    (r"^([0-9]{2})[.]([0-9]{2})[.]([0-9]{4})", r"\3-\2-\1"),
]
_SLASHED = [(r"^([0-9]{4})/([0-9]{2})/([0-9]{2})", r"\1-\2-\3")]
_OPEN_DATE = r"^[0-9]{1,2}[/-][0-9]{1,2}[/-]([0-9]{4}|[0-9]{2})($|[ T,])"
_SEPARATED = r"^[+-]?[0-9]{1,3}([.,' ][0-9]{3})*[.,][0-9]+$"
NEARLY = 0.9  # share of times from which the other values are errors
HEAD = 1000  # values that are looked at where a guess is enough
MISSING = ("NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "none", "-", "--", "?", "\\N")


@dataclass
class TextProfile:
    """What one column of strings may hold, batch by batch. Prose costs little: a type is dropped at
    its first misfit."""

    table: str
    column: str
    numbers: bool  # look for numbers and booleans too (sources without types)
    filled: int = 0
    times: int = 0
    zoned: list[str] = field(default_factory=list)  # an example of each, for the error
    naive: list[str] = field(default_factory=list)
    misfits: list[str] = field(default_factory=list)
    missing: int = 0  # words that stand for a missing value
    head: list[str] = field(default_factory=list)
    maybe: dict[str, bool] = field(
        default_factory=lambda: {"int": True, "float": True, "bool": True, "time": True}
    )

    def add(self, values: pa.Array) -> None:
        if len(self.head) == HEAD and not any(map(self._may_hold, self.maybe)):
            self.filled += len(values) - values.null_count
            return
        values = values.drop_null()
        if self.numbers and any(self.maybe.values()):
            is_filled = pc.invert(_is_missing(values))
            self.missing += len(values) - (pc.sum(is_filled).as_py() or 0)
            values = values.filter(is_filled)
        if len(values) == 0:
            return
        if len(self.head) < HEAD:
            self.head += values[: HEAD - len(self.head)].to_pylist()
        if self.numbers:
            self.maybe["int"] = self.maybe["int"] and _are_integers(values)
            for name, pattern in (("float", _FLOAT), ("bool", _BOOL)):
                self.maybe[name] = self.maybe[name] and _all_match(values, pattern)
        if self.maybe["time"]:
            self._add_times(values)
        self.filled += len(values)

    def _may_hold(self, name: str) -> bool:
        """Whether a type is looked for and no value has spoken against it."""
        return self.maybe[name] and (self.numbers or name == "time")

    def _add_times(self, values: pa.Array) -> None:
        # Most text is told from times by its first characters, without writing it as a time.
        if self.filled == 0 and (
            _share(values[:HEAD], _DIGIT) < 0.5 or _share(_to_iso(values[:HEAD]), _TIME) < 0.5
        ):
            self.maybe["time"] = False
            return
        values = _to_iso(values)
        matched = pc.match_substring_regex(values, _TIME)
        self.times += pc.sum(matched).as_py()
        if len(self.misfits) < 5:
            self.misfits += values.filter(pc.invert(matched))[:5].to_pylist()
        zoned = pc.and_(matched, pc.match_substring_regex(values, _ZONED))
        if not self.zoned:
            self.zoned += values.filter(zoned)[:1].to_pylist()
        if not self.naive:
            self.naive += values.filter(pc.and_(matched, pc.invert(zoned)))[:1].to_pylist()

    def verdict(self, declared_time: bool = False) -> pa.DataType:
        """The canonical type of the column.

        Raises:
            SourceError: the column is nearly, or by declaration, a time column but holds other
                values, or mixes zones.
        """
        if self.filled and self.numbers:
            for name, arrow in (("bool", pa.bool_()), ("int", pa.int64()), ("float", pa.float64())):
                if self.maybe[name]:
                    return arrow
        if not self.filled:
            return TIME if declared_time else pa.string()
        if declared_time and not self.maybe["time"] and not self.misfits:
            raise self._unparseable(
                "its declared type is a date or time, but most values are not ISO dates"
            )
        share = self.times / self.filled if self.maybe["time"] else 0.0
        if share < 1.0 and (share >= NEARLY or declared_time):
            raise self._unparseable(
                f"{self.filled - self.times:,} of {self.filled:,} values are no ISO dates"
            )
        if share < 1.0:
            return pa.string()
        if self.zoned and self.naive:
            raise SourceError(
                "mixed_time_zones",
                f"'{self.table}.{self.column}' mixes times with a zone ({self.zoned[0]!r}) and "
                f"without ({self.naive[0]!r}).",
                hint="Give every value a zone, or none (then all are taken as UTC).",
            )
        return TIME

    def doubts(self) -> tuple[str, str] | None:
        """Why a column that stays text may be dates or numbers, as the code and message of a
        finding."""
        head = pa.array(self.head, pa.string())
        if len(head) == 0:
            return None
        if _share(head, _OPEN_DATE) >= NEARLY:
            return (
                "text_dates",
                f"dates like {self.head[0]!r} may be read in two ways and stay text: write them "
                "as 2024-05-31",
            )
        if not self.numbers:
            return None
        if _share(head, _SEPARATED) >= NEARLY:
            return "text_numbers", f"numbers like {self.head[0]!r} stay text: write them as 1234.5"
        matched = pc.match_substring_regex(head, _FLOAT)
        if NEARLY <= (pc.sum(matched).as_py() or 0) / len(head) < 1:
            other = some(head.filter(pc.invert(matched))[:3].to_pylist())
            return (
                "text_numbers",
                f"nearly all values are numbers, but not {other}: state the kind numerical, and "
                "these count as missing",
            )
        return None

    def _unparseable(self, why: str) -> SourceError:
        return SourceError(
            "unparseable_date",
            f"'{self.table}.{self.column}': {why}"
            + (f": {some(self.misfits)}." if self.misfits else "."),
            hint="Write times as 2024-05-31 or 2024-05-31 17:04:05+02:00, or state the kind text "
            f"{in_schema(self.table, f'kinds: {{{self.column}: text}}')}.",
        )


def parse_text(
    values: pa.Array, target: pa.DataType, table: str, column: str, *, numbers: bool = True
) -> pa.Array:
    """Strings that passed the verdict, as their type; `numbers` as in TextProfile."""
    if numbers and target != pa.string():
        values = pc.if_else(_is_missing(values), pa.scalar(None, pa.string()), values)
    if target == TIME:
        return _parse_times(values, table, column)
    if target == pa.bool_():
        return pc.equal(pc.utf8_lower(values), "true")
    if target == pa.int64():
        return pc.utf8_ltrim(values, "+").cast(pa.int64())
    if target == pa.float64():
        return pc.utf8_ltrim(values, "+").cast(pa.float64())
    return values


def parse_numbers(values: pa.Array) -> pa.Array:
    """Strings as numbers because the user says so; other texts become null."""
    fits = pc.fill_null(pc.match_substring_regex(values, _FLOAT), False)
    return pc.utf8_ltrim(pc.if_else(fits, values, pa.scalar(None, pa.string())), "+").cast(
        pa.float64()
    )


def parse_all_numbers(values: pa.Array) -> pa.Array | None:
    """Strings as numbers, words for a missing value as null; None where a value is neither."""
    values = pc.if_else(_is_missing(values), pa.scalar(None, pa.string()), values)
    filled = values.drop_null()
    if len(filled) and not _all_match(filled, _FLOAT):
        return None
    is_whole = len(filled) and _are_integers(filled)
    return pc.utf8_ltrim(values, "+").cast(pa.int64() if is_whole else pa.float64())


def _is_missing(values: pa.Array) -> pa.Array:
    return pc.is_in(values, value_set=pa.array(MISSING, pa.string()))


def _to_iso(values: pa.Array) -> pa.Array:
    for pattern, replacement in (*_DOTTED, *_SLASHED):
        values = pc.replace_substring_regex(values, pattern, replacement)
    return values


def _parse_times(values: pa.Array, table: str, column: str) -> pa.Array:
    # Microseconds are kept, finer digits are cut: a time must never be rounded into the future.
    cut = pc.replace_substring_regex(_to_iso(values), r"([.][0-9]{6})[0-9]+", r"\1")
    try:
        if pc.any(pc.match_substring_regex(cut, _ZONED)).as_py():
            return cut.cast(pa.timestamp("us", "UTC")).view(TIME) if len(cut) else cut.cast(TIME)
        return cut.cast(TIME)
    except pa.ArrowInvalid:
        bad = [v for v in cut.drop_null().to_pylist() if not _parses(v)]
        raise SourceError(
            "unparseable_date",
            f"'{table}.{column}': {len(bad):,} values look like times but are none: {some(bad)}.",
            hint="Repair them, or state the kind text "
            f"{in_schema(table, f'kinds: {{{column}: text}}')}.",
        ) from None


def _parses(value: str) -> bool:
    for target in (TIME, pa.timestamp("us", "UTC")):
        try:
            pa.array([value]).cast(target)
            return True
        except pa.ArrowInvalid:
            continue
    return False


def _share(values: pa.Array, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(values, pattern).cast(pa.float64())).as_py())


def _are_integers(values: pa.Array) -> bool:
    """Whether strings are whole numbers that int64 can hold."""
    if not _all_match(values, _INT):
        return False
    long = values.filter(pc.greater(pc.utf8_length(values), _SAFE_DIGITS))
    try:
        pc.utf8_ltrim(long, "+").cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def _all_match(values: pa.Array, pattern: str) -> bool:
    head = values[:100]
    return _share(head, pattern) == 1.0 and bool(
        pc.all(pc.match_substring_regex(values, pattern)).as_py()
    )
