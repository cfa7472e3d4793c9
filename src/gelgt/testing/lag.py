"""A database with a planted lag: a user's label depends on the values of one kind of event about L
days ago, and on nothing else.

    users    id, segment                               timeless; the segment is random
    events   id, user_id, kind, value, happened_at     kinds payment, visit and message; values are
                                                       independent standard normals

Events of each kind come at a steady pace, one at a random moment of every step (an eighth of the
lag for payments), so every user has as many of them as any other and no count tells anything. For a
seed (user, time) let

    s = Σ w v / √(Σ w²)        w = exp(-(age - L)² / 2 (L/10)²)

over the values v of the user's payments before that time, a standard normal. The label is 1 with
probability sigmoid(4 s). Values at other ages, values of other kinds and all counts are independent
of it; a model that cannot tell ages apart can at best find the mean of all payments, in which s
drowns.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gelgt.errors import GelgtError
from gelgt.metrics import roc_auc

if TYPE_CHECKING:
    import pandas as pd

    from gelgt.sources.database import Database

START = np.datetime64("2015-01-01T00:00:00", "s")
DAY = 86_400
TARGET = "payment"
STEPS = {TARGET: 0.125, "visit": 0.8, "message": 0.8}  # pace of a kind's events over the lag
WIDTH = 0.1  # of the window, over the lag
SHARPNESS = 4.0
HISTORY, END = 4.0, 8.0  # lags: first seed time, end of the database
# lags between which the seed times of a split lie
BORDERS = {"train": (HISTORY, 7.0), "val": (7.0, 7.5), "test": (7.5, END)}
TRAIN_SEEDS = 2  # training rows of a user


@dataclass(frozen=True)
class LagSplit:
    """S labelled rows.

    Attributes:
        user: (S,) row numbers of users.
        time: (S,) seconds since 1970.
        label: (S,) 0 or 1.
        truth: (S,) s, the weighted sum behind the label: the best possible score.
    """

    user: NDArray[np.int64]
    time: NDArray[np.int64]
    label: NDArray[np.int64]
    truth: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.user)

    @property
    def oracle_auc(self) -> float:
        """AUC of the best possible score: what no model can beat but by luck."""
        area = roc_auc(self.label, self.truth)
        assert area is not None  # a split holds both labels
        return area


@dataclass(frozen=True)
class LagDatabase:
    """Frames, and the labelled rows of train, val and test."""

    lag: float
    frames: Mapping[str, "pd.DataFrame"]
    splits: Mapping[str, LagSplit]
    val_time: np.datetime64
    test_time: np.datetime64

    @property
    def schema(self) -> dict[str, Any]:
        """Keys, times, kinds and split times, as `gelgt.open` takes them."""
        tables = {
            "users": {"pkey": "id", "kinds": {"segment": "categorical"}},
            "events": {
                "pkey": "id",
                "time_col": "happened_at",
                "fkeys": {"user_id": "users"},
                "kinds": {"kind": "categorical", "value": "numerical"},
            },
        }
        return {
            "val_timestamp": str(self.val_time),
            "test_timestamp": str(self.test_time),
            "tables": tables,
        }

    def open(self, out: Path | None = None) -> "Database":
        """Import the frames; to the folder `out` if one is given, else to the cache."""
        from gelgt.sources import open

        return open(dict(self.frames), schema=self.schema, out=out)


def lag_database(lag: float, rows: int, *, eval_rows: int = 1000, seed: int = 0) -> LagDatabase:
    """Generate the database.

    Args:
        lag: L, in days.
        rows: Labelled training rows, two a user.
        eval_rows: Labelled rows of validation and of test each, at most one a user.
        seed: Fixes everything.

    Example:
        >>> made = lag_database(30, rows=200, eval_rows=100)
        >>> {name: len(split) for name, split in made.splits.items()}
        {'train': 200, 'val': 100, 'test': 100}
    """
    if lag <= 0 or rows < 2 or eval_rows < 2:
        raise GelgtError(
            "bad_option",
            "lag must be positive, rows and eval_rows at least 2, got "
            f"{lag}, {rows} and {eval_rows}.",
            hint="Give larger numbers.",
        )
    # another lag is another database, not the same one stretched
    rng = np.random.default_rng([seed, round(lag * DAY)])
    users = max(-(-rows // TRAIN_SEEDS), eval_rows)
    unit = lag * DAY  # seconds
    # (users, events of the kind)
    times = {kind: _steady(users, step, rng) * unit for kind, step in STEPS.items()}
    values = {kind: rng.standard_normal(moments.shape) for kind, moments in times.items()}
    splits = {}
    for name, borders in BORDERS.items():
        count = rows if name == "train" else eval_rows
        who = np.arange(count) % users if name == "train" else rng.permutation(users)[:count]
        when = np.floor(rng.uniform(*borders, count) * unit)
        splits[name] = _label(who, when, times[TARGET], values[TARGET], unit, rng)
    frames = _frames(times, values, rng)
    return LagDatabase(
        lag, frames, splits, _instant(BORDERS["val"][0] * unit), _instant(BORDERS["test"][0] * unit)
    )


def _steady(users: int, step: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """One moment in every step, in lags: (users, END / step)."""
    steps = round(END / step)
    return (np.arange(steps) + rng.random((users, steps))) * step


def _label(
    who: NDArray[np.int64],
    when: NDArray[np.float64],
    times: NDArray[np.float64],
    values: NDArray[np.float64],
    unit: float,
    rng: np.random.Generator,
) -> LagSplit:
    # (S, payments), in lags; ages are whole seconds, as they are stored
    age = (when[:, None] - np.floor(times[who])) / unit
    weight = np.where(age > 0, np.exp(-((age - 1.0) ** 2) / (2 * WIDTH**2)), 0.0)
    truth = (values[who] * weight).sum(1) / np.sqrt((weight**2).sum(1))
    label = rng.random(len(who)) < 1 / (1 + np.exp(-SHARPNESS * truth))
    return LagSplit(
        who.astype(np.int64), when.astype(np.int64) + _seconds(START), label.astype(np.int64), truth
    )


def _frames(
    times: Mapping[str, NDArray[np.float64]],
    values: Mapping[str, NDArray[np.float64]],
    rng: np.random.Generator,
) -> dict[str, "pd.DataFrame"]:
    import pandas as pd

    users = len(next(iter(times.values())))
    seconds = np.concatenate(
        [np.floor(moments).astype(np.int64).ravel() for moments in times.values()]
    )
    events = pd.DataFrame(
        {
            "id": np.arange(len(seconds)),
            "user_id": np.concatenate(
                [np.repeat(np.arange(users), moments.shape[1]) for moments in times.values()]
            ),
            "kind": np.repeat(list(times), [moments.size for moments in times.values()]),
            "value": np.concatenate([drawn.ravel() for drawn in values.values()]),
            "happened_at": START + seconds.astype("timedelta64[s]"),
        }
    )
    segments = rng.choice(["a", "b", "c", "d"], users)
    return {"users": pd.DataFrame({"id": np.arange(users), "segment": segments}), "events": events}


def _instant(seconds: float) -> np.datetime64:
    return START + np.timedelta64(int(seconds), "s")


def _seconds(instant: np.datetime64) -> int:
    return int(instant.astype(np.int64))
