"""`ItemsExplanation`: why rows are recommended, in the user's own tables, keys and times."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gelgt.explain.explanation import saved

PLACES = 1_000  # among which the place of a destination is looked for


@dataclass(frozen=True)
class Reason:
    """One thing that speaks for or against a destination.

    Attributes:
        kind: ``path``, ``shared``, ``everyone`` or ``past``.
        name: The path, or the shared column.
        effect: The score minus what it would be without this.
        place: The destination's place without it, from 1; None behind `PLACES`.
        count: Walks of a path.
        days: Since the newest of them; None where no row there has a time.
        walks: The newest of them: rows from the entity to the destination, each with its table, key
            and time.
    """

    kind: str
    name: str
    effect: float
    place: int | None
    count: int | None = None
    days: float | None = None
    walks: tuple[tuple[dict[str, Any], ...], ...] = ()

    @property
    def text(self) -> str:
        """In words."""
        what = self.name
        if self.kind == "path":
            often = "once" if self.count == 1 else f"{self.count:,} times"
            age = "" if self.days is None else f", last {self.days:,.0f} days ago"
            what = f"{self.name}: {often}{age}"
        elif self.kind == "shared":
            what = f"the same {self.name} as what was had before"
        place = f"{self.place:,}" if self.place is not None else f"beyond {PLACES:,}"
        return f"{what} ({self.effect:+.2f}; place {place} without it)"

    @property
    def shown_walks(self) -> list[str]:
        """The walks in words."""
        return [
            " → ".join(
                f"{row['table']} {row['key']}" + (f" ({row['time'][:10]})" if row["time"] else "")
                for row in walk
            )
            for walk in self.walks
        ]


@dataclass(frozen=True)
class Item:
    """A recommended destination: its place, key and score, and the reasons, the strongest first;
    none where nothing but its vector speaks for it."""

    rank: int
    key: Any
    score: float
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class ItemsExplanation:
    """Why rows of `destination` are recommended to an entity of `table` at a time."""

    entity: Any
    table: str
    at: str
    destination: str
    items: tuple[Item, ...]
    notices: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """What ``gelgt explain --json`` prints."""
        return asdict(self)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), ensure_ascii=False, default=str)

    def save(self, path: str | Path) -> Path:
        """Write an .html page or a .json file, whole or not at all.

        Raises:
            GelgtError: ``unknown_format``.
        """
        from gelgt.explain.items_page import items_page

        return saved(path, self.to_dict(), lambda: items_page(self))
