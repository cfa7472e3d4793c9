"""Rows after the training period leave its statistics, and every earlier row, bit for bit as they
were."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from gelgt.features import Features, open_features

VAL = "2020-06-01"
KINDS = {
    "n": "numerical",
    "c": "categorical",
    "code": "categorical",
    "m": {"kind": "multicategorical", "separator": ";"},
    "w": "timestamp",
    "s": "text",
}


def rows(days: np.ndarray, seed: int, extreme: bool) -> dict[str, pa.Array]:
    rng = np.random.default_rng(seed)
    times = [datetime(2020, 1, 1) + timedelta(days=float(d)) for d in days]
    names = ["new", "newer"] if extreme else ["a", "b", "c"]
    size = len(days)
    return {
        "at": pa.array(times, pa.timestamp("us")),
        "n": pa.array(rng.normal(size=size) * (1e30 if extreme else 1)),
        "c": pa.array(rng.choice(names, size)),
        "code": pa.array(rng.integers(90, 99, size) if extreme else rng.integers(0, 5, size)),
        "m": pa.array([";".join(rng.choice(names, 2)) for _ in range(size)]),
        "w": pa.array(
            [t + timedelta(days=90_000 if extreme else 3) for t in times], pa.timestamp("us")
        ),
        "s": pa.array([f"text {rng.choice(names)}" for _ in range(size)]),
    }


def features(make_db: Any, columns: dict[str, pa.Array]) -> Features:
    spec = {"time_col": "at", "kinds": {**KINDS, "at": "timestamp"}}
    return open_features(make_db({"t": (pa.table(columns), spec)}, val=VAL, row_group_size=64))


def test_appended_rows_change_nothing_before_them(make_db: Any) -> None:
    # up to 2020-06-01
    early = rows(np.sort(np.random.default_rng(0).uniform(0, 152, 300)), 1, extreme=False)
    late = rows(np.linspace(152.5, 300, 200), 2, extreme=True)
    before = features(make_db, early)
    after = features(make_db, {c: pa.concat_arrays([early[c], late[c]]) for c in early})
    assert after.statistics == before.statistics
    assert after.statistics.to_json() == before.statistics.to_json()
    for name, array in before.arrays("t").items():
        longer = after.arrays("t")[name]
        assert len(longer) > len(array) or name.endswith("places")  # unseen parts leave no places
        assert longer[: len(array)].tobytes() == array.tobytes(), name
    old, new = before.frame("t", range(300)), after.frame("t", range(300))
    assert old == new
