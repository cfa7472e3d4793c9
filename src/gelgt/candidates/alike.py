"""How much a destination is like what the entity has had: the values that they share.

    attributes   the foreign keys of the destination table, and its columns of categories
    share        of what the entity has had, how much has the destination's value
    log count    the logarithm of how often that was

Where a destination has several values, such as the genres of a film, its columns are their mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gelgt.candidates.find import CandidateFinder, Candidates
from gelgt.features import Features
from gelgt.graph import TIMELESS
from gelgt.history.events import parents_of, row_times
from gelgt.history.keys import keys_of

MOST = 8  # attributes, foreign keys first
COLUMNS = ("share", "log count")


@dataclass(frozen=True)
class Attribute:
    """The values of one attribute for each of D destinations.

    Attributes:
        name: Of the column.
        start: (D + 1,) where the values of each destination begin.
        values: (N,) numbers from 0; -1 for a missing one.
        times: (V,) from when on each value can be seen, that of the row which a key names; TIMELESS
            for always.
    """

    name: str
    start: NDArray[np.int64]
    values: NDArray[np.int64]
    times: NDArray[np.int64]


def attributes(finder: CandidateFinder, features: Features) -> list[Attribute]:
    """The attributes of a destination table by which its rows can be alike."""
    hidden = frozenset(finder.task.remove_columns)
    every = [*_of_keys(finder, hidden), *_of_columns(finder, features, hidden)]
    return every[:MOST]


def _of_keys(finder: CandidateFinder, hidden: frozenset[tuple[str, str]]) -> Iterator[Attribute]:
    rows = np.arange(finder.size)
    for key in keys_of(finder.graph, hidden):
        if key.child == finder.destination:
            parent = parents_of(finder.graph, key, rows)
            named, values = np.unique(parent[parent >= 0], return_inverse=True)
            numbers = np.full(finder.size, -1, np.int64)
            numbers[parent >= 0] = values.reshape(-1)
            times = row_times(finder.graph, key.parent)[named]
            yield Attribute(key.column, np.arange(finder.size + 1), numbers, times)


def _of_columns(
    finder: CandidateFinder, features: Features, hidden: frozenset[tuple[str, str]]
) -> Iterator[Attribute]:
    table = finder.destination
    arrays = features.arrays(table)
    dates = features.statistics.event_dates.get(table, ())
    dated = {column for date in dates for column in date.masked}
    place = {"categorical": 0, "multicategorical": 0}
    for name, statistics in features.columns(table).items():
        kind = statistics.kind
        if kind not in place:
            continue
        at, place[kind] = place[kind], place[kind] + 1
        if (table, name) in hidden or name in dated:
            continue
        if kind == "categorical":
            start, values = np.arange(finder.size + 1), arrays["categorical"][: finder.size, at]
        else:
            start = arrays[f"multicategorical-{at}-offsets"][: finder.size + 1]
            values = arrays[f"multicategorical-{at}-places"]
        numbers = np.asarray(values, np.int64)
        times = np.full(int(numbers.max(initial=-1)) + 1, TIMELESS)
        yield Attribute(name, np.asarray(start, np.int64), numbers, times)


def alike(
    attribute: Attribute, candidates: Candidates, links: list[int], limits: NDArray[np.int64]
) -> NDArray[np.float32]:
    """(S, M, 2) the columns of one attribute; NaN for entities that have had nothing yet and for
    destinations without a value.

    Args:
        links: The paths that stand for what an entity has had.
        limits: (S,) the first second that each seed may not see.
    """
    from gelgt.candidates.kernels import shared_values

    had = candidates.count[:, :, links].sum(2, dtype=np.int64)
    out = np.full((*candidates.row.shape, len(COLUMNS)), np.nan, np.float32)
    tally = np.zeros(len(attribute.times))
    shared_values(
        attribute.start, attribute.values, attribute.times, candidates.row, had, limits, tally, out
    )
    return out
