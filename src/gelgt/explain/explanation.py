"""`Explanation`: why a model predicts what it does for one entity at one time, in the user's own
tables, keys and times."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError
from gelgt.files import write_text
from gelgt.storage.place import check_local

FORMATS = (".html", ".json")


@dataclass(frozen=True)
class Effect:
    """What something adds to the prediction.

    Attributes:
        kind: ``row``, ``column`` (of a row), ``path`` (all rows of a path) or ``age`` (those of an
            age).
        table: Where the rows are.
        path: The tables on the way to them, the entity's first.
        effect: In the units of the prediction.
        error: Its standard error; 0 where nothing was drawn.
        strength: Sum of the absolute effects of what it was divided into, which may cancel.
        key: The user's key of the row; None where there are several.
        column: The column; None for whole rows.
        value: The column's value, as the model reads it.
        age_days: Before the time of the prediction; of several rows, the newest.
        oldest_days: Of several rows, the oldest.
        via_days: Of a row without a time, the age of the row that leads to it.
        time: When the row happened, ISO 8601.
        rows: How many rows.
        keys: The foreign keys on the way.
        parts: What each part of the model adds to its raw output.
        text: A sentence.
    """

    kind: str
    table: str
    path: tuple[str, ...]
    effect: float
    error: float = 0.0
    strength: float = 0.0
    key: Any = None
    column: str | None = None
    value: Any = None
    age_days: float | None = None
    oldest_days: float | None = None
    via_days: float | None = None
    time: str | None = None
    rows: int = 1
    keys: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self)
        return content | {"path": list(self.path), "keys": list(self.keys)}


@dataclass(frozen=True)
class Explanation:
    """Why one prediction is what it is.

    Attributes:
        entity: The user's key.
        table: Of the entity.
        at: The time of the prediction, ISO 8601.
        prediction: What the model predicts: a probability, or a value before it is rounded.
        base: What it predicts for an entity of which nothing is known: no row, and columns that
            any entity might have.
        base_rate: The share of the class among the training labels; of values, their median.
        what: What is explained, in words.
        effects: They add up to prediction minus base; strongest first.
        paths: The same by path: each of these is the sum of the effects of its rows and columns;
            the path whose rows and columns move the prediction most, in either direction, first.
        parts: For each part of the model what it adds to the raw output, at the base and now.
        check: Whether it holds (`gelgt.explain.check`).
        sentences: The strongest effects for people.
        timeline: Every row that was looked at: path, key, age, and what its absence changes.
        counterfactual: Rows whose absence turns the decision, where that was asked for.
        notices: What the user should know.
        variants: How often the model predicted.

    Example:
        >>> rise = Effect("row", "orders", ("customers", "orders"), 0.2, key=7, age_days=31.0)
        >>> why = Explanation(42, "customers", "2026-11-01T00:00:00", 0.5, 0.3, effects=(rise,))
        >>> round(why.base + sum(e.effect for e in why.effects), 6) == why.prediction
        True
        >>> why.to_dict()["effects"][0]["key"]
        7
    """

    entity: Any
    table: str
    at: str
    prediction: float
    base: float
    base_rate: float | None = None
    what: str = "the prediction"
    effects: tuple[Effect, ...] = ()
    paths: tuple[Effect, ...] = ()
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    check: Mapping[str, Any] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    timeline: tuple[Mapping[str, Any], ...] = ()
    counterfactual: Mapping[str, Any] | None = None
    notices: tuple[str, ...] = ()
    variants: int = 0

    def to_dict(self) -> dict[str, Any]:
        """What ``gelgt explain --json`` prints."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        lists = ("sentences", "timeline", "notices")
        return (
            content
            | {name: list(content[name]) for name in lists}
            | {name: [e.to_dict() for e in content[name]] for name in ("effects", "paths")}
        )

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def save(self, path: str | Path) -> Path:
        """Write an .html page or a .json file, whole or not at all.

        Raises:
            GelgtError: ``unknown_format``.
        """
        from gelgt.explain.page import page

        return saved(path, self.to_dict(), lambda: page(self))


def check_path(path: str | Path) -> Path:
    """A file that an explanation can be written to.

    Raises:
        GelgtError: ``unknown_format``, ``not_local``.
    """
    check_local(path, "An explanation")
    target = Path(path).expanduser()
    if target.suffix.lower() not in FORMATS:
        raise GelgtError(
            "unknown_format",
            f"An explanation is an .html or .json file, got '{target.name}'.",
            hint="Choose one of these endings.",
        )
    return target


def saved(path: str | Path, content: dict[str, Any], page: Callable[[], str]) -> Path:
    """Write an explanation as JSON or as a page, by the ending of its file, whole or not at all."""
    target = check_path(path)
    is_json = target.suffix.lower() == ".json"
    text = json.dumps(content, ensure_ascii=False, indent=1, default=str) + "\n"
    write_text(target, text if is_json else page())
    return target
