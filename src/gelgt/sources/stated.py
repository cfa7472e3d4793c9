"""What a user states about a source with `schema=`: a mapping of tables, or a manifest that has
split times too.

    {"orders": {"pkey": "id", "time_col": "placed_at", "fkeys": {"customer_id": "customers"},
                "kinds": {"note": "text"}}}
    {"val_timestamp": "2025-09-01", "test_timestamp": "2025-11-01", "tables": {"orders": {…}}}

`pkey` may be a list, an fkey may name a column ("customers.email"), and null means that there is
none and nothing is inferred. For a table without a time, `dated_by` names the foreign key or keys
that date its rows, null for rows that are always visible; `follows` names foreign keys that a model
may follow although they seem to be overwritten. `known_ahead` lists dates that are known before
they happen (due dates, bookings); `event_dates` states all others, in the form of a manifest
(`schema/manifest.py`), and nothing is inferred. `inferred_until` says up to when rows decide what
is inferred. Kinds are inferred from rows up to the validation time, so split times are stated at
the import and not afterwards.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from gelgt.errors import SourceError
from gelgt.schema.manifest import load_yaml
from gelgt.sources.raw import Splits

ENTRIES = (
    *("pkey", "time_col", "fkeys", "kinds", "dated_by", "follows", "known_ahead", "event_dates"),
)
_SPLITS = ("val_timestamp", "test_timestamp")
_UNTIL = "inferred_until"


def read_stated(
    schema: Mapping[str, Any] | str | Path | None,
) -> tuple[dict[str, dict[str, Any]], Splits | None]:
    """Tables and split times of a mapping or a YAML file."""
    content: Any = schema or {}
    if isinstance(schema, (str, Path)):
        path = Path(schema).expanduser()
        if not path.is_file():
            raise SourceError(
                "not_found",
                f"There is no schema file {path}.",
                hint="Give a YAML file in the form of a manifest's 'tables'.",
            )
        content = load_yaml(path)
    splits = None
    if isinstance(content, Mapping) and _is_manifest(content):
        splits = _splits(content)
        content = content.get("tables") or {}
    entries = content.values() if isinstance(content, Mapping) else [content]
    bad = [entry for entry in entries if not (isinstance(entry, Mapping) or entry is None)]
    if bad:
        raise SourceError(
            "bad_schema",
            f"schema must map each table to its keys, times and kinds, got {bad[0]!r}.",
            hint="Give {'table': {'pkey': …, 'time_col': …}}.",
        )
    return {str(name): dict(entry or {}) for name, entry in content.items()}, splits


def _is_manifest(content: Mapping[str, Any]) -> bool:
    """A manifest has split times or a 'tables' whose entries are tables; a table may itself be
    called 'tables'."""
    tables = content.get("tables")
    return any(word in content for word in (*_SPLITS, _UNTIL)) or (
        isinstance(tables, Mapping) and not set(tables) <= set(ENTRIES)
    )


def _splits(content: Mapping[str, Any]) -> Splits | None:
    given = [content.get(word) for word in _SPLITS]
    until = content.get(_UNTIL)
    until = None if until is None else _text(_time(_UNTIL, until))
    if given == [None, None]:
        return None if until is None else Splits(None, "manifest", until)
    val, test = (_time(word, value) for word, value in zip(_SPLITS, given))
    if val >= test:
        raise SourceError(
            "bad_split",
            f"schema: the validation time {val} is not before the test time {test}.",
            hint="Swap them.",
        )
    return Splits((_text(val), _text(test)), "manifest", until)


def _time(word: str, value: Any) -> datetime:
    # YAML reads 2025-09-01 as a date
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise SourceError(
            "bad_time",
            f"schema: {word} must be a time, got {value!r}.",
            hint="Write it like '2025-09-01', and state both split times or none.",
        ) from None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _text(moment: datetime) -> str:
    return str(moment).removesuffix(" 00:00:00")
