"""The labels of a frame by split.

With a `timedelta` the label at t is about (t, t + timedelta], so RelBench's rules for forecasts
hold:

    train   t <= val - timedelta
    val     val <= t <= test - timedelta
    test    t >= test

Windows of the rows between reach over a split; they are left out and counted. Without a `timedelta`
a label counts as known at its own time, as in an autocomplete task: train t <= val < t <= test < t.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from gelgt.tasks.frame import FrameRows
from gelgt.tasks.labels import Raw, sort_rows
from gelgt.tasks.sampling import key_codes, sample
from gelgt.tasks.split import Split

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database

Mask = np.ndarray[Any, np.dtype[np.bool_]]


def split_frame(
    db: Database,
    table: str,
    frame: FrameRows,
    split: Split,
    timedelta: pd.Timedelta | None,
    existing: int,
    max_rows: int,
) -> dict[str, Raw]:
    """The frame's rows by split.

    Args:
        db: The database.
        table: The entity table.
        frame: The rows.
        split: The split times.
        timedelta: How far a label looks ahead, or None.
        existing: Rows of the entity table that exist at the test time; labels of later ones are
            dropped, as in RelBench.
        max_rows: At most so many training rows.
    """
    parts, gaps = split_masks(frame.rows.column("time").to_numpy(), split, timedelta)
    exists = frame.rows.column("entity").to_numpy() < existing
    raw = {}
    for name, inside in parts.items():
        rows = frame.rows.filter(pa.array(inside & exists))
        dropped = {
            "whose entity does not exist at the test time": int(np.count_nonzero(inside & ~exists))
        }
        if name in gaps:
            following = "validation" if name == "train" else "test"
            reason = f"in the gap before {following} (their windows reach over the split)"
            dropped[reason] = int(np.count_nonzero(gaps[name]))
        if name == "train":
            dropped["without a target (in all splits)"] = frame.without_target
        total = rows.num_rows
        if name == "train" and total > max_rows:
            codes = key_codes(db, table)
            rows = sort_rows(sample(rows.to_batches(), rows.schema, codes, total, max_rows))
        raw[name] = Raw(rows, total, dropped)
    return raw


def split_masks(
    times: np.ndarray[Any, Any], split: Split, timedelta: pd.Timedelta | None
) -> tuple[dict[str, Mask], dict[str, Mask]]:
    """Which rows are in each split, by their seed times, and which in the gap after it."""
    val, test = np.datetime64(split.val, "us"), np.datetime64(split.test, "us")
    if timedelta is None:
        parts = {
            "train": times <= val,
            "val": (times > val) & (times <= test),
            "test": times > test,
        }
        return parts, {}
    window = np.timedelta64(timedelta, "us")
    parts = {
        "train": times <= val - window,
        "val": (times >= val) & (times <= test - window),
        "test": times >= test,
    }
    gaps = {
        "train": (times > val - window) & (times < val),
        "val": (times > np.maximum(test - window, val)) & (times < test),
    }
    return parts, gaps


def fitting_split(times: np.ndarray[Any, Any], split: Split, window: Any) -> Split:
    """Inferred split times, moved where they would leave a split without labels: 10 % of the range
    of the labels for each.

    They are then times of labels themselves: with labels at the first of each month, a window of 30
    days fits nowhere else before the test time.
    """
    import pandas as pd

    step = pd.Timedelta(0) if window is None else window
    first, last = pd.Timestamp(times.min()), pd.Timestamp(times.max())
    has_val = np.any(
        (times >= np.datetime64(split.val)) & (times <= np.datetime64(split.test - step))
    )
    if first <= split.val - step and last >= split.test and has_val:
        return split
    part = max((last - first) * 0.1, step)
    test = _latest(times, last - part)
    return Split(_latest(times, test - part), test, True)


def _latest(times: np.ndarray[Any, Any], limit: Any) -> Any:
    """The latest of some times that is not after a limit; the limit itself where there is none."""
    import pandas as pd

    before = times[times <= np.datetime64(limit)]
    return pd.Timestamp(before.max() if len(before) else limit).as_unit("us")
