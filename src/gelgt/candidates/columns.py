"""Columns of candidates: what ties a seed to a destination, and what the destination's own past
says at the seed time.

ties    for each path, the logarithm of the number of walks, their share among all walks of the
        seed, and the days since the newest; and what the destination shares with those that the
        entity has had (`alike.py`)
items   how often everyone was linked to the destination in the last windows, over the most that any
        destination was, and its rank; and history columns of the destination (`gelgt.history`), as
        if it were the entity: counts, gaps, its own numbers
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gelgt.candidates.alike import COLUMNS as ALIKE
from gelgt.candidates.alike import Attribute, alike, attributes
from gelgt.candidates.find import CandidateFinder, Candidates, days_before
from gelgt.features import Features
from gelgt.history.aggregates import aggregates
from gelgt.history.choose import ColumnChoice, choose_columns
from gelgt.history.task_data import TaskData
from gelgt.sampling import Seeds
from gelgt.sources.database import Database

HOPS = 2  # of the destination's history
COLUMNS = 40  # most columns of it
TIES = ("log count", "share", "days since")  # of a path
WINDOWS = (1, 2, 4, 16)  # in which everyone's links are counted
KEPT = 200_000  # destinations and times whose columns are kept
PER_POSITIVE = 4  # other candidates beside each positive, where columns are chosen


@dataclass(frozen=True)
class PairColumns:
    """The columns of the candidates of S seeds.

    Attributes:
        ties: (S, M, T) of each pair; NaN for what is missing.
        place: (S, M) where the destination's columns stand in `items`; 0 behind the last candidate.
        items: (U, F) of each destination and time that comes up.
    """

    ties: NDArray[np.float32]
    place: NDArray[np.int64]
    items: NDArray[np.float32]

    def whole(self) -> NDArray[np.float32]:
        """(S, M, T + F) both beside each other."""
        return np.concatenate([self.ties, self.items[self.place]], 2)


@dataclass(frozen=True)
class PairReader:
    """Computes columns of candidates.

    Attributes:
        db: The database.
        features: Of its rows.
        finder: Of the candidates.
        names: The history columns of destinations that are read; None while they are to be chosen.
    """

    db: Database
    features: Features
    finder: CandidateFinder
    names: tuple[str, ...] | None = None

    @property
    def visible(self) -> TaskData:
        """The destination as an entity."""
        finder = self.finder
        task = replace(finder.task, entity_table=finder.destination)
        return TaskData(self.db, finder.graph, self.features, task, finder.sampling)

    @property
    def tie_names(self) -> list[str]:
        return [
            *(f"{path.name}: {what}" for path in self.finder.paths for what in TIES),
            *(f"same {each.name}: {what}" for each in self.attributes for what in ALIKE),
        ]

    @cached_property
    def attributes(self) -> list[Attribute]:
        """By which destinations are alike; none where nothing says what an entity has had."""
        return attributes(self.finder, self.features) if self.finder.link_paths else []

    @property
    def item_names(self) -> list[str]:
        """The columns of a destination at a time."""
        every = [f"links in {n} windows: {what}" for n in WINDOWS for what in ("share", "rank")]
        return [*every, *(self.names or ())]

    def read(self, seeds: Seeds, candidates: Candidates) -> PairColumns:
        """The columns of candidates."""
        count, total = candidates.count, candidates.count.sum(1, keepdims=True)
        ties = np.stack(
            [
                np.log1p(count).astype(np.float32),
                (count / np.maximum(total, 1)).astype(np.float32),
                days_before(candidates.newest, self.finder.references(seeds)),
            ],
            3,
        )
        is_there = candidates.row >= 0
        seed = np.broadcast_to(np.arange(len(seeds))[:, None], candidates.row.shape)[is_there]
        row = candidates.row[is_there]
        moments, moment = np.unique(seeds.time, return_inverse=True)
        pairs, which = np.unique(
            moment.reshape(-1)[seed] * max(self.finder.size, 1) + row, return_inverse=True
        )
        place = np.zeros(candidates.row.shape, np.int64)
        place[is_there] = which.reshape(-1)
        rows, times = pairs % max(self.finder.size, 1), moments[pairs // max(self.finder.size, 1)]
        items = self._kept_items(rows, times)
        shape = (*candidates.row.shape, len(TIES) * candidates.count.shape[2])
        links, limits = self.finder.link_paths, self.finder.limits(seeds)
        parts = [
            ties.reshape(shape),
            *(alike(attribute, candidates, links, limits) for attribute in self.attributes),
        ]
        return PairColumns(np.concatenate(parts, 2), place, items)

    def _kept_items(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.float32]:
        """`items`, which those who ask again for the same seeds get again."""
        if len(rows) > KEPT:
            return self.items(rows, times)
        content = rows.tobytes() + times.tobytes()
        name = hashlib.blake2b(content, digest_size=16).hexdigest()
        kept = self._kept
        if name not in kept:
            while kept and sum(map(len, kept.values())) + len(rows) > KEPT:
                kept.pop(next(iter(kept)))
            kept[name] = self.items(rows, times)
        return kept[name]

    @cached_property
    def _kept(self) -> dict[str, NDArray[np.float32]]:
        return {}

    def items(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.float32]:
        """(U, F) the columns of destinations at some times."""
        if not len(rows):
            return np.zeros((0, len(self.item_names)), np.float32)
        every = self.everyone(rows, times)
        if not self.names:
            return every
        columns = aggregates(self.visible, rows, times, hops=HOPS, siblings=False, names=self.names)
        return np.concatenate([every, columns.values.astype(np.float32)], 1)

    def everyone(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.float32]:
        """(U, 8) how often everyone was linked to destinations in the last windows, over the most
        that any was, and the logarithm of their rank by it."""
        finder, links = self.finder, self.finder.links
        out = np.zeros((len(rows), 2 * len(WINDOWS)), np.float32)
        moments, which = np.unique(times, return_inverse=True)
        limits, references = finder.limits_at(moments), finder.references_at(moments)
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.searchsorted(which.reshape(-1)[order], np.arange(len(moments) + 1))
        for place, (limit, reference) in enumerate(zip(limits, references)):
            asked = order[ends[place] : ends[place + 1]]
            end = np.searchsorted(links.time, limit)
            for column, windows in enumerate(WINDOWS):
                since = np.searchsorted(links.time[:end], reference - windows * finder.window)
                count = np.bincount(links.row[since:end], minlength=finder.size)
                above = np.sort(count)[::-1]
                rank = np.searchsorted(-above, -count[rows[asked]])
                out[asked, 2 * column] = count[rows[asked]] / max(int(above[0]), 1)
                out[asked, 2 * column + 1] = np.log1p(rank)
        return out

    def chosen(
        self,
        seeds: Seeds,
        candidates: Candidates,
        is_positive: NDArray[np.bool_],
        seed: int = 0,
        budget: int = COLUMNS,
    ) -> tuple["PairReader", ColumnChoice]:
        """The same with the history columns that tell positives from other candidates.

        Args:
            is_positive: (S, M) among the candidates.
        """
        generator = np.random.default_rng(seed)
        places = np.flatnonzero(is_positive)
        others = np.flatnonzero(~is_positive & (candidates.row >= 0))
        most = min(len(others), PER_POSITIVE * max(len(places), 1))
        places = np.sort(np.concatenate([places, generator.choice(others, most, replace=False)]))
        rows = candidates.row.reshape(-1)[places]
        times = seeds.time[places // candidates.row.shape[1]]
        choice = choose_columns(
            self.visible,
            rows,
            times,
            is_positive.reshape(-1)[places].astype(np.float64),
            hops=HOPS,
            siblings=False,
            budget=budget,
            seed=seed,
        )
        return replace(self, names=tuple(choice.numbers)), choice
