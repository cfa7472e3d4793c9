"""Split times and seed times, by RelBench's rules.

With a window of length w, seed times lie w apart and no label reaches over a split:

    train   val - w, val - 2w, …      back to the earliest row of the tables that labels are about;
                                      at least three
    val     val, val + w, …           as long as t + w <= test
    test    test, test + w, …         as long as t + w <= the latest row of these tables

RelBench goes from the earliest to the latest row of any table, and so do the tasks that it defines;
see events.py.
Validation and test hold at most `num_eval_timestamps` seed times each. RelBench further asks that
the rows up to the test time reach to val + w. A calendar month may be longer than the 30 days that
its window counts for: seed times whose calendar window would end after the split are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gelgt.errors import TaskError
from gelgt.tasks.times import duration_text, time_range, time_text, timestamp

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database
    from gelgt.tasks.events import Events

Times = np.ndarray[Any, np.dtype[np.datetime64]]

MIN_TRAIN_TIMES = 3
MAX_SEED_TIMES = 1_000_000


@dataclass(frozen=True)
class Split:
    """The two times between training, validation and test, and whether they were inferred rather
    than stated."""

    val: pd.Timestamp
    test: pd.Timestamp
    is_inferred: bool = False


def split_times(
    db: Database,
    val: Any = None,
    test: Any = None,
    window: pd.Timedelta | None = None,
    events: Events | None = None,
) -> Split:
    """The split times: the arguments, else the schema's; inferred ones move until one window fits
    on each side.

    Args:
        db: The database.
        val: The validation time.
        test: The test time.
        window: How far a label looks ahead.
        events: The tables that labels are about; inferred times lie before their end.
    """
    given_val, given_test = _stated(db, val, test)
    if given_val is not None and given_test is not None:
        return _ordered(Split(given_val, given_test))
    guess = _guessed(db)
    is_open = given_val is None and given_test is None
    if is_open and guess is not None and _has_room(db, guess, window, events):
        return guess
    return _ordered(_infer(db, given_val, given_test, window, events))


def _stated(db: Database, val: Any, test: Any) -> tuple[pd.Timestamp | None, pd.Timestamp | None]:
    """Validation and test time as arguments or the schema state them."""
    if db.schema.split_origin != "inferred" and None not in (db.val_timestamp, db.test_timestamp):
        val = db.val_timestamp if val is None else val
        test = db.test_timestamp if test is None else test
    return (
        None if val is None else timestamp(val, "validation time"),
        None if test is None else timestamp(test, "test time"),
    )


def _guessed(db: Database) -> Split | None:
    """The split times that were inferred when the database was imported."""
    if not db.val_timestamp or not db.test_timestamp:
        return None
    return Split(timestamp(db.val_timestamp, "v"), timestamp(db.test_timestamp, "t"), True)


def longest(window: pd.Timedelta, months: int) -> pd.Timedelta:
    """The longest that a window can last: a calendar month has up to 31 days."""
    import pandas as pd

    return max(window, pd.Timedelta(days=31 * months))


def _infer(
    db: Database,
    val: pd.Timestamp | None,
    test: pd.Timestamp | None,
    window: pd.Timedelta | None,
    events: Events | None,
) -> Split:
    import pandas as pd

    span = time_range(db) if events is None else events.span
    step = max(span.length * 0.1, window or pd.Timedelta(0)).ceil("us")
    if test is None:
        test = span.latest - step
    if val is None:
        val = test - step
        if window is not None and test > span.earliest:
            # RelBench wants the rows up to the test time to reach to val + window.
            val = min(val, time_range(db, until=test).latest - window)
    return Split(val.as_unit("us"), test.as_unit("us"), True)


def _has_room(
    db: Database, split: Split, window: pd.Timedelta | None, events: Events | None
) -> bool:
    span = time_range(db) if events is None else events.span
    if window is None:
        return events is None or split.test < span.latest
    if not span.earliest <= split.test <= span.latest - window:
        return False
    return bool(split.val + window <= min(time_range(db, until=split.test).latest, split.test))


def _ordered(split: Split) -> Split:
    if split.val >= split.test:
        raise TaskError(
            "bad_split",
            f"The validation time {time_text(split.val)} is not before the test time "
            f"{time_text(split.test)}.",
            hint="Give --val and --test so that --val is earlier.",
        )
    return split


def seed_times(
    db: Database,
    split: Split,
    window: pd.Timedelta,
    eval_timestamps: int | None,
    months: int = 0,
    events: Events | None = None,
) -> dict[str, Times]:
    """The seed times of train, val and test.

    Args:
        db: Gives the time range.
        split: The split times.
        window: How far a label looks ahead; also the distance between seed times.
        eval_timestamps: At most so many in val and in test; None for as many as fit.
        months: Calendar months of the window, 0 if it is not in months.
        events: The tables that labels are about; windows begin and end with them.

    Raises:
        TaskError: a split would hold no window, or training fewer than three.
    """
    full = time_range(db) if events is None else events.span
    visible = time_range(db, until=split.test) if split.test >= full.earliest else full
    latest_row = "the latest row" if events is None else events.latest_row
    earliest = visible.earliest if events is None else events.began
    _check_room(split, window, full.latest, visible.latest, latest_row)
    _check_number(split, window, earliest)
    most = MAX_SEED_TIMES if eval_timestamps is None else eval_timestamps
    times = {
        "train": _backwards(split.val - window, earliest, window),
        "val": _forwards(split.val, split.test - window, window, most),
        "test": _forwards(split.test, full.latest - window, window, most),
    }
    if months:
        ends = {"train": split.val, "val": split.test, "test": full.latest}
        times = {name: _whole_months(t, months, ends[name]) for name, t in times.items()}
    begin = "the earliest row" if events is None else events.earliest_row
    _check_counts(times, split, window, (earliest, begin), full.latest, months)
    return times


def _check_number(split: Split, window: pd.Timedelta, earliest: pd.Timestamp) -> None:
    count = int((split.val - earliest) / window) if split.val > earliest else 0
    if count > MAX_SEED_TIMES:
        raise TaskError(
            "too_many_windows",
            f"A window of {duration_text(window)} fits {count:,} times between "
            f"{time_text(earliest)} and {time_text(split.val)}; {MAX_SEED_TIMES:,} are the most.",
            hint="Use a longer window.",
        )


def _check_room(
    split: Split, window: pd.Timedelta, latest: pd.Timestamp, visible: pd.Timestamp, latest_row: str
) -> None:
    """`visible` is the latest row up to the test time."""
    length = duration_text(window)
    if split.val + window > split.test:
        raise TaskError(
            "no_room",
            f"A window of {length} does not fit between the validation time {time_text(split.val)} "
            f"and the test time {time_text(split.test)}.",
            hint=f"Set the validation time to {time_text(split.test - window)} or earlier, or "
            "shorten the window.",
        )
    if split.test + window > latest:
        raise TaskError(
            "no_room",
            f"A window of {length} after the test time {time_text(split.test)} ends after "
            f"{latest_row} ({time_text(latest)}).",
            hint=f"Set the test time to {time_text(latest - window)} or earlier, or shorten the "
            "window.",
        )
    if split.val + window > visible:
        raise TaskError(
            "no_room",
            f"A window of {length} after the validation time {time_text(split.val)} ends after "
            f"the latest row up to the test time ({time_text(visible)}).",
            hint=f"Set the validation time to {time_text(visible - window)} or earlier, or shorten "
            "the window.",
        )


def _backwards(start: pd.Timestamp, stop: pd.Timestamp, step: pd.Timedelta) -> Times:
    count = max((_us(start) - _us(stop)) // _delta(step) + 1, 0)
    steps = np.arange(count, dtype=np.int64)[::-1]
    return np.array(_us(start) - _delta(step) * steps).astype("datetime64[us]")


def _forwards(start: pd.Timestamp, stop: pd.Timestamp, step: pd.Timedelta, most: int) -> Times:
    count = max(min(most, (_us(stop) - _us(start)) // _delta(step) + 1), 0)
    steps = np.arange(count, dtype=np.int64)
    return np.array(_us(start) + _delta(step) * steps).astype("datetime64[us]")


def _us(time: pd.Timestamp) -> int:
    return int(np.datetime64(time, "us").astype(np.int64))


def _delta(step: pd.Timedelta) -> int:
    return int(np.timedelta64(step, "us").astype(np.int64))


def _whole_months(times: Times, months: int, end: pd.Timestamp) -> Times:
    import pandas as pd

    return np.array(
        [t for t in times if pd.Timestamp(t) + pd.DateOffset(months=months) <= end],
        dtype="datetime64[us]",
    )


def _check_counts(
    times: dict[str, Times],
    split: Split,
    window: pd.Timedelta,
    begin: tuple[pd.Timestamp, str],
    latest: pd.Timestamp,
    months: int,
) -> None:
    earliest, earliest_row = begin
    length = f"{months} calendar month{'s' * (months > 1)}" if months else duration_text(window)
    if len(times["train"]) < MIN_TRAIN_TIMES:
        hint = (
            f"Set the validation time to {time_text(earliest + MIN_TRAIN_TIMES * window)} or "
            "later, or shorten the window."
        )
        if earliest + (MIN_TRAIN_TIMES + 2) * window > latest:
            most = ((latest - earliest) / (MIN_TRAIN_TIMES + 2)).floor("s")
            hint = (
                f"Shorten the window: {most} is the longest of which three fit for training "
                "and one each for validation and test."
            )
        raise TaskError(
            "too_few_windows",
            f"Only {len(times['train'])} windows of {length} fit between {earliest_row} "
            f"({time_text(earliest)}) and the validation time "
            f"({time_text(split.val)}); training needs {MIN_TRAIN_TIMES}.",
            hint=hint,
        )
    for name, start, end in (("val", split.val, split.test), ("test", split.test, latest)):
        if len(times[name]) == 0:
            raise TaskError(
                "no_room",
                f"No window of {length} fits between {time_text(start)} and {time_text(end)} "
                f"({name}).",
                hint="Move the split times apart, or shorten the window.",
            )
