"""`Walk`: the aggregates of one seed from plain frames, by the path in a column's name."""

import re
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

DAY = 86_400
START = int(np.datetime64("2024-01-01", "s").astype(int))
TIMES = {"users": "joined", "orders": "placed", "notes": "written"}
PARENTS = {
    ("users", "shop_id"): "shops",
    ("orders", "user_id"): "users",
    ("orders", "shop_id"): "shops",
    ("items", "order_id"): "orders",
    ("items", "product_id"): "products",
    ("notes", "order_id"): "orders",
}
CODES = {("users", "team"), ("orders", "channel"), ("notes", "mood")}
WINDOW = 5 * DAY


class Walk:
    """One seed in plain frames: rows are (time on the path, row), times -inf where a table has none
    and NaN where it is null."""

    def __init__(self, tiny: Any, table: str, row: int, limit: int, reference: int) -> None:
        self.tiny, self.table, self.row, self.limit, self.reference = (
            tiny,
            table,
            row,
            limit,
            reference,
        )
        self.walked: dict[str, tuple[str, list[tuple[float, int]]]] = {}

    def time(self, table: str, row: int) -> float:
        if table == "items":  # without a time of its own: as new as its order
            order = self.tiny.frames["items"]["order_id"][row]
            return np.nan if np.isnan(order) else self.time("orders", int(order))
        return float(self.tiny.frames[table][TIMES[table]][row]) if table in TIMES else -np.inf

    def follow(self, path: str) -> tuple[str, list[tuple[float, int]]]:
        table, events = self.table, [(-np.inf, self.row)]
        for direction, newest, name in re.findall(r"([<>]) (newest )?([\w.]+)", path):
            if direction == "<":
                table, column = name.split(".")
                named = self.tiny.frames[table][column]
                reached = [
                    (t, int(r)) for t, parent in events for r in np.flatnonzero(named == parent)
                ]
            else:
                chosen = events[-1:] if newest else events
                reached = [(t, self.tiny.frames[table][name][r]) for t, r in chosen]
                reached = [(t, int(r)) for t, r in reached if not np.isnan(r)]
                table = PARENTS[table, name]
            # Every row of a path must be seen, and an event is as old as the newest of them.
            seen = [(t, r, self.time(table, r)) for t, r in reached]
            events = [(max(t, row_time), r) for t, r, row_time in seen if row_time < self.limit]
            # ties: by row, or by the row that names it
            events.sort(key=None if direction == "<" else lambda event: event[0])
            if newest or (direction == ">" and path.startswith(">")):
                events = [(-np.inf, r) for _, r in events]  # one row, to start from
        return table, events

    def value(self, features: Any, name: str) -> float:
        path, _, what = name.rpartition(": ")
        is_by_day, path = path.endswith(" by day"), path.removesuffix(" by day")
        table, events = self.walked.setdefault(path, self.walked.get(path) or self.follow(path))
        if is_by_day:
            days = [t // DAY for t, _ in events]
            events = [event for i, event in enumerate(events) if days[i] not in days[:i]]
        times = [t for t, _ in events]
        if not path or (path.startswith(">") and "<" not in path):
            if not events:
                return np.nan
            column, _, category = what.partition(" is ")
            if category:
                cell = self.tiny.frames[table][column][events[0][1]]
                known = features.statistics.tables[table][column].categories
                return float(cell == category) if cell in known else np.nan
            return self.cell(features, table, what, events[0][1])
        if what == "count":
            return len(events)
        if what.startswith("count in"):
            return sum(t >= self.reference - int(what.split()[2]) * WINDOW for t in times)
        if re.match("(median|mean) count of|active windows", what):
            return self.of_windows(what, times, np.ones(len(times)))
        if what == "days since":
            return (self.reference - times[-1]) / DAY if events else np.nan
        if what.startswith("days since"):
            back = {"second": 2, "fifth": 5, "tenth": 10}[what.split()[2]]
            return (self.reference - times[-back]) / DAY if len(events) >= back else np.nan
        if what in ("mean gap", "last gap", "overdue"):
            if len(events) < 2:
                return np.nan
            gaps, since = np.diff(times) / DAY, (self.reference - times[-1]) / DAY
            if what == "overdue":
                return float(since / gaps.mean()) if gaps.mean() > 0 else np.nan
            return float(gaps.mean() if what == "mean gap" else gaps[-1])
        column, kind = re.fullmatch(
            r"(\w+) (mean|min|max|deviation|recent mean|longer mean|mean in \d+ windows?|last"
            r"|second last|third last|last age|share of \w+"
            r"|median sum of \d+ windows|(?:median|mean) sum of active windows)",
            what,
        ).groups()  # type: ignore[union-attr]
        if kind == "last age":
            return self.cell(features, table, f"{column} age", events[-1][1]) if events else np.nan
        if kind.startswith("share"):
            return (
                float(
                    (
                        self.tiny.frames[table][column][[r for _, r in events]] == kind.split()[-1]
                    ).mean()
                )
                if events
                else np.nan
            )
        cells = pd.Series([self.cell(features, table, column, r) for _, r in events], dtype=float)
        if "sum of" in kind:
            return self.of_windows(kind, times, cells.fillna(0).to_numpy())
        if kind.startswith("mean in"):
            recent = [t >= self.reference - int(kind.split()[2]) * WINDOW for t in times]
            return float(cells[recent].mean()) if any(recent) else np.nan
        if kind.endswith("last"):
            back = {"last": 1, "second last": 2, "third last": 3}[kind]
            return cells.iloc[-back] if len(cells) >= back else np.nan
        if not len(cells):
            return np.nan
        if kind == "deviation":
            return float(cells.std())
        newest = {"recent mean": 5, "longer mean": 20}.get(kind, len(cells))
        return float(cells.tail(newest).agg(kind.split()[-1]))

    def of_windows(self, what: str, times: list[float], values: Any) -> float:
        """Median or mean over whole windows since the first event, or over those of them that have
        an event in the four windows before, of what each adds up to; or how many these are."""
        most = int(what.split()[3]) if "active" not in what else 16
        if not times:
            return np.nan
        windows = int(np.clip((self.reference - times[0]) // WINDOW, 1, most))
        ends = [self.reference - w * WINDOW for w in range(windows + 1)]
        ends[0] = np.inf
        sums = [
            sum(v for t, v in zip(times, values) if begin <= t < end)
            for end, begin in pairwise(ends)
        ]
        if "active" in what:
            starts = ends[1:]
            are_active = [any(s - 4 * WINDOW <= t < s for t in times) for s in starts]
            if what.startswith("active"):
                return sum(are_active)
            sums = [each for each, is_active in zip(sums, are_active) if is_active]
        if not sums:
            return np.nan
        return float(np.median(sums) if what.startswith("median") else np.mean(sums))

    def cell(self, features: Any, table: str, column: str, row: int) -> float:
        frame = self.tiny.frames[table]
        if column == "age":
            return (self.reference - self.time(table, row)) / DAY
        if column.endswith(" age"):
            return (self.reference - frame[column.removesuffix(" age")][row]) / DAY
        if (table, column) in CODES:
            categories = features.statistics.tables[table][column].categories
            return (
                categories.index(frame[column][row]) if frame[column][row] in categories else np.nan
            )
        return float(frame[column][row])
