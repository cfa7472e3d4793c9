"""The rows of a twin, table by table, parents first.

Every row has a latent number z, about standard normal: in equal parts the mean of its parents' and
noise. Its columns are noisy readings of z (`values.py`), and it is referred to with a weight of
exp(1.1 z). So z shows in the row's columns, in those of its relatives and in how many rows refer to
it, and active entities stay active: labels can be learned, in part.

A row refers to rows that exist at its time, unless its table has no time or `future_keys` says
otherwise. Rows are ordered by time, null times last, and keys hold row numbers: RelBench's
contract.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.testing.twins.facts import Facts, TableFacts
from gelgt.testing.twins.values import Rows, as_times, make_column, matches, needs, seconds

DAY = 86_400
# share of rows from shortly before the validation time on, so that short windows have labels
RECENT = 0.5
NEVER = np.iinfo(np.int64).max  # the time of a row without one
FEWEST = 4  # rows of any table
PULL = 1.1  # a row of latent number 1 is referred to exp(PULL) times as often as one of 0


@dataclass(frozen=True)
class TwinTable:
    """A generated table, and what its children need: latent numbers, times and ends in seconds, row
    numbers of parents."""

    table: pa.Table
    latent: NDArray[np.float64]
    times: NDArray[np.int64] | None
    ends: NDArray[np.int64] | None
    keys: Mapping[str, NDArray[np.int64]]

    def pick(self, limits: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """For each limit L one of the first L rows, -1 where L is 0."""
        return _pick(np.exp(PULL * self.latent), limits, rng)


def make_tables(facts: Facts, seed: int, scale: float) -> dict[str, pa.Table]:
    """All tables of a twin; the same seed and scale give the same rows."""
    tables: dict[str, TwinTable] = {}
    for table in facts.in_order:
        tables[table.name] = _make_table(facts, table, tables, seed, scale)
    return {name: tables[name].table for name in facts.tables}


def _make_table(
    facts: Facts, table: TableFacts, parents: Mapping[str, TwinTable], seed: int, scale: float
) -> TwinTable:
    rng = _generator(seed, facts.name, table.name)
    count = max(FEWEST, round(int(table.generate["rows"]) * scale))
    times, keys = _times_and_first_key(facts, table, parents, count, rng)
    n = count if times is None else len(times)
    keys |= _other_keys(table, parents, times, n, keys, rng)
    if "unique" in table.generate:
        pairs = np.stack([keys[k] for k in table.generate["unique"]], 1)
        first = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
        times = None if times is None else times[first]
        keys, n = {column: rows[first] for column, rows in keys.items()}, len(first)
    latent = _latent(table, parents, keys, n, rng)
    period = (seconds(facts.period[0]), seconds(facts.period[1]))
    rows = Rows(
        latent, None if times is None else np.where(times == NEVER, period[0], times), keys, period
    )
    columns = _columns(facts, table, rows, seed)
    for key, condition in (table.generate.get("only_keys") or {}).items():
        keys[key] = _earlier_rows(columns, condition, latent, times, rng)
    for key, share in (table.generate.get("null_keys") or {}).items():
        keys[key] = np.where(rng.random(n) < share, -1, keys[key])
    ends = None
    if times is not None and "delay" in table.generate:
        delay = table.generate["delay"] * DAY * rng.lognormal(0, 0.5, n)
        ends = times + delay.astype(np.int64) // DAY * DAY
    return TwinTable(_arrow(table, columns, keys, times, n), latent, times, ends, keys)


def _generator(seed: int, *names: str) -> np.random.Generator:
    """One for each name, so that a change to a table or a column leaves all others as they are."""
    return np.random.default_rng([seed, zlib.crc32("/".join(names).encode())])


def _times_and_first_key(
    facts: Facts,
    table: TableFacts,
    parents: Mapping[str, TwinTable],
    count: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64] | None, dict[str, NDArray[np.int64]]]:
    """Times in order, null times last, and the key that they come from where they come from a
    parent."""
    if table.time_col is None:
        return None, {}
    source = table.generate.get("time_from")
    rows = None
    if source is None:
        times = _spread(facts, table, count, rng)
    else:
        parent = parents[table.fkeys[source]]
        assert parent.times is not None
        timed = int(np.searchsorted(parent.times, NEVER))
        rows = (
            np.arange(count) % timed
            if table.generate.get("even")
            else parent.pick(np.full(count, timed), rng)
        )
        parent_times = parent.ends if table.generate.get("delayed") else parent.times
        assert parent_times is not None
        times = parent_times[rows] + int(table.generate.get("time_shift", 0)) * DAY
        strays = {seconds(text) for text in _strays(facts)}
        inside = (times <= seconds(facts.period[1])) | np.isin(times, list(strays))
        inside &= times >= seconds(table.generate.get("since", "0001-01-01"))
        times, rows = times[inside], rows[inside]
    times = np.where(rng.random(len(times)) < table.generate.get("null_times", 0.0), NEVER, times)
    order = np.argsort(times, kind="stable")
    return times[order], {} if rows is None else {str(source): rows[order]}


def _strays(facts: Facts) -> list[str]:
    """The times far outside the period that a twin has on purpose."""
    return [text for table in facts.tables.values() for text in table.generate.get("strays") or ()]


def _spread(
    facts: Facts, table: TableFacts, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Times over the period; its two ends and the test time are among them, so that every window of
    a task fits."""
    first, last = seconds(table.generate.get("since", facts.period[0])), seconds(facts.period[1])
    val, test = seconds(facts.val_timestamp), seconds(facts.test_timestamp)
    recent = max(first, val - 4 * (test - val))
    is_recent = rng.random(count) < (0.0 if table.generate.get("early") else RECENT)
    times = np.where(
        is_recent,
        recent + (last - recent) * rng.random(count),
        first + (last - first) * rng.random(count),
    ).astype(np.int64)
    fixed = [first, test, last, *(seconds(text) for text in table.generate.get("strays") or ())]
    times[: len(fixed)] = fixed[:count]
    return times // DAY * DAY if table.generate.get("days") else times


def _other_keys(
    table: TableFacts,
    parents: Mapping[str, TwinTable],
    times: NDArray[np.int64] | None,
    n: int,
    first: Mapping[str, NDArray[np.int64]],
    rng: np.random.Generator,
) -> dict[str, NDArray[np.int64]]:
    """Row numbers of the parents for all keys but the `first`, which the times came from."""
    copied = table.generate.get("copied_keys") or {}
    future = table.generate.get("future_keys") or ()
    keys: dict[str, NDArray[np.int64]] = {}
    for column, name in table.fkeys.items():
        if column in first or name == table.name:
            continue
        if column in copied:
            keys[column] = parents[table.fkeys[copied[column]]].keys[column][first[copied[column]]]
            continue
        parent = parents[name]
        limits = np.full(n, len(parent.latent))
        if times is not None and parent.times is not None and column not in future:
            limits = np.searchsorted(parent.times, times, side="right")
        keys[column] = parent.pick(limits, rng)
    return keys


def _latent(
    table: TableFacts,
    parents: Mapping[str, TwinTable],
    keys: Mapping[str, NDArray[np.int64]],
    n: int,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    noise = rng.standard_normal(n)
    if not keys:
        return noise
    inherited = sum(
        np.where(rows >= 0, parents[table.fkeys[column]].latent[rows], 0.0)
        for column, rows in keys.items()
    )
    latent = np.asarray(inherited / np.sqrt(len(keys)) + noise)
    # parents with many children have high numbers; unless centred, nearly all children would too
    return np.asarray((latent - latent.mean()) / (latent.std() or 1.0))


def _columns(facts: Facts, table: TableFacts, rows: Rows, seed: int) -> dict[str, pa.Array]:
    keyed = {table.pkey, table.time_col, *table.fkeys}
    wanted = [column for column in table.columns if column not in keyed]
    done: dict[str, pa.Array] = {}
    while len(done) < len(wanted):
        for column in wanted:
            spec = table.value(column)
            if column not in done and needs(spec) <= set(done):
                rng = _generator(seed, facts.name, table.name, column)
                done[column] = make_column(column, table.columns[column], spec, rows, done, rng)
    return done


def _earlier_rows(
    columns: Mapping[str, pa.Array],
    condition: Mapping[str, object],
    latent: NDArray[np.float64],
    times: NDArray[np.int64] | None,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """References to the same table: from rows that meet a condition to strictly earlier rows that
    do not."""
    assert times is not None
    meets = np.all([matches(columns[column], value) for column, value in condition.items()], axis=0)
    limits = np.where(meets, np.searchsorted(times, times, side="left"), 0)
    return _pick(np.exp(PULL * latent) * ~meets, limits, rng)


def _pick(
    weights: NDArray[np.float64], limits: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    total = sums[limits]
    rows = np.searchsorted(sums, rng.random(len(limits)) * total, side="right") - 1
    return np.where(total > 0, np.minimum(rows, limits - 1), -1).astype(np.int64)


def _arrow(
    table: TableFacts,
    columns: Mapping[str, pa.Array],
    keys: Mapping[str, NDArray[np.int64]],
    times: NDArray[np.int64] | None,
    n: int,
) -> pa.Table:
    arrays: dict[str, pa.Array] = {}
    for column in table.columns:
        if column == table.pkey:
            arrays[column] = pa.array(np.arange(n, dtype=np.int64))
        elif column in keys:
            arrays[column] = pa.array(keys[column], mask=keys[column] < 0)
        elif column == table.time_col and times is not None:
            arrays[column] = as_times(np.where(times == NEVER, 0, times), times == NEVER)
        else:
            arrays[column] = columns[column]
    return pa.table(arrays)
