"""`FeatureStatistics`: what is needed to encode a row, as JSON.

    {"format": 1, "fit_until": "2005-01-01T00:00:00.000000",
     "embedder": {"name": "hashed-ngrams", "dim": 64},
     "tables": {"orders": {
       "price":  {"kind": "numerical", "count": 9, "mean": 3.5, "std": 1.2, "quantiles": […]},
       "status": {"kind": "categorical", "categories": ["open", "3"], "counts": [7, 2],
                  "dropped": 0},
       "tags":   {"kind": "multicategorical", …, "separator": "|"},
       "due":    {"kind": "timestamp", "count": 9, "oldest": 0, "median": 60, "newest": 99},
       "note":   {"kind": "text", "dim": 64}}},
     "event_dates": {"orders": {"shipped_at": {"filled": {"note": null}, "is_late": true}}}}

A training run stores this file, and a newer database is encoded with it. Columns keep their order.
`event_dates` is there where a table has some (`features/versions.py`).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from gelgt.errors import GelgtError
from gelgt.schema.model import Rest

FORMAT = 1


@dataclass(frozen=True)
class NumericalStatistics:
    """Moments and quantiles (minimum, quartiles, maximum) of the finite values; 0 and 1 where there
    are none."""

    kind: ClassVar[str] = "numerical"
    count: int = 0
    mean: float = 0.0
    std: float = 1.0
    quantiles: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class CategoricalStatistics:
    """Categories by falling count, then by value; `dropped` further ones were cut off."""

    kind: ClassVar[str] = "categorical"
    categories: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    dropped: int = 0


@dataclass(frozen=True)
class MulticategoricalStatistics:
    """Categories over all parts of all rows; a column of lists has no separator."""

    kind: ClassVar[str] = "multicategorical"
    categories: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    dropped: int = 0
    separator: str | None = None


@dataclass(frozen=True)
class TimestampStatistics:
    """Seconds since 1970."""

    kind: ClassVar[str] = "timestamp"
    count: int = 0
    oldest: int = 0
    median: int = 0
    newest: int = 0


@dataclass(frozen=True)
class TextStatistics:
    """Nothing is fitted: embedders do not depend on the training data."""

    kind: ClassVar[str] = "text"
    dim: int = 64


@dataclass(frozen=True)
class EventDateStatistics:
    """A date that is unknown before it happens.

    Attributes:
        column: The date.
        filled: What is filled along with it, with the values before (`schema.model.EventDate`).
        is_late: Whether it lay after its row in the training period, so that it is an event of its
            own.
    """

    column: str
    filled: Mapping[str, Rest] = field(default_factory=dict)
    is_late: bool = False

    @property
    def masked(self) -> dict[str, Rest]:
        """The columns that are unknown before the date, with their values before."""
        return {self.column: None, **self.filled}


ColumnStatistics = (
    NumericalStatistics
    | CategoricalStatistics
    | MulticategoricalStatistics
    | TimestampStatistics
    | TextStatistics
)
_CLASSES: dict[str, type[ColumnStatistics]] = {
    cls.kind: cls
    for cls in (
        NumericalStatistics,
        CategoricalStatistics,
        MulticategoricalStatistics,
        TimestampStatistics,
        TextStatistics,
    )
}


@dataclass(frozen=True)
class FeatureStatistics:
    """Fitted statistics of every feature column.

    Example:
        >>> columns = {"x": NumericalStatistics(2, 1.0, 0.5)}
        >>> embedder = {"name": "hashed-ngrams", "dim": 64}
        >>> statistics = FeatureStatistics("2005-01-01", embedder, {"t": columns})
        >>> FeatureStatistics.from_dict(statistics.to_dict()) == statistics
        True
    """

    fit_until: str | None  # the last instant that contributed; None: every row did
    embedder: Mapping[str, Any]
    tables: Mapping[str, Mapping[str, ColumnStatistics]] = field(default_factory=dict)
    event_dates: Mapping[str, tuple[EventDateStatistics, ...]] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        tables = {
            table: {column: _entry(s) for column, s in columns.items()}
            for table, columns in self.tables.items()
        }
        content = {
            "format": FORMAT,
            "fit_until": self.fit_until,
            "embedder": dict(self.embedder),
            "tables": tables,
        }
        if self.event_dates:
            content["event_dates"] = {
                table: {d.column: {"filled": dict(d.filled), "is_late": d.is_late} for d in dates}
                for table, dates in self.event_dates.items()
            }
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "FeatureStatistics":
        """The statistics of `to_dict`, or a GelgtError for anything else."""
        try:
            if content["format"] != FORMAT:
                raise ValueError(f"format {content['format']!r}, not {FORMAT}")
            tables = {
                table: {column: _column(entry) for column, entry in columns.items()}
                for table, columns in content["tables"].items()
            }
            dates = {
                table: tuple(EventDateStatistics(c, **entry) for c, entry in of_table.items())
                for table, of_table in content.get("event_dates", {}).items()
            }
            return cls(content["fit_until"], dict(content["embedder"]), tables, dates)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GelgtError(
                "bad_statistics",
                f"These are not feature statistics of this version of gelgt ({error}).",
                hint="Train again.",
            ) from None

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def save(self, path: Path) -> None:
        path.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "FeatureStatistics":
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise GelgtError(
                "bad_statistics", f"{path} is not readable JSON ({error}).", hint="Train again."
            ) from None
        return cls.from_dict(content)

    def key(self) -> str:
        """A short name of exactly these statistics, for the cache."""
        return statistics_key(self.to_json().encode())


def statistics_key(content: bytes) -> str:
    """The key of the statistics that a file holds."""
    return hashlib.blake2b(content, digest_size=12).hexdigest()


def _entry(statistics: ColumnStatistics) -> dict[str, Any]:
    """Like `asdict`, which would copy thousands of categories one by one."""
    values = {f.name: getattr(statistics, f.name) for f in fields(statistics)}
    return {"kind": statistics.kind, **values}


def _column(entry: Mapping[str, Any]) -> ColumnStatistics:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in entry.items()
        if name != "kind"
    }
    if not all(isinstance(category, str) for category in values.get("categories", ())):
        raise ValueError("a category is no text")
    return _CLASSES[entry["kind"]](**values)
