"""Databases whose signal lies where one model's mechanism must reach: along keys, in a cell, in the
structure.

    users ◄─ visits (bridge) ─► places        visits carry `value`, `kind` and a time; users and
                                              places carry numbers

Every user is labelled once, so the entity mean knows nothing but the base rate.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from planted import BORDERS, Planted, moment, opened

KINDS = ("walk", "ride", "call")


def visits(out: Path, signal: str, users: int = 900, each: int = 6, seed: int = 0) -> Planted:
    """A label by the sign of one number.

    Args:
        signal: ``value`` (the mean of the visits' values), ``weight`` (the mean weight of the
            places behind the visits), ``kind`` (the mean value of the rides among the visits) or
            ``cell`` (of the user's columns a, b and c, that which `pick` names).
    """
    rng = np.random.default_rng(seed)
    places = 80
    visitor = np.repeat(np.arange(users), each)
    place = rng.integers(0, places, users * each)
    value, weight = rng.standard_normal(users * each), rng.standard_normal(places)
    kind = rng.integers(0, 3, users * each)
    kind[::each] = 1  # everybody rides once
    columns, pick = rng.standard_normal((users, 3)), rng.integers(0, 3, users)
    score = {
        "value": value.reshape(users, each).mean(1),
        "weight": weight[place].reshape(users, each).mean(1),
        "kind": np.where(kind == 1, value, 0.0).reshape(users, each).sum(1),
        "cell": columns[np.arange(users), pick],
    }[signal]
    frames = {
        "users": pd.DataFrame(
            {
                "id": np.arange(users),
                "pick": np.array(["a", "b", "c"])[pick],
                **dict(zip("abc", columns.T)),
            }
        ),
        "places": pd.DataFrame({"id": np.arange(places), "weight": weight}),
        "visits": pd.DataFrame(
            {
                "id": np.arange(users * each),
                "user_id": visitor,
                "place_id": place,
                "value": value,
                "kind": np.array(KINDS)[kind],
                "at": moment(rng.uniform(0, 90, users * each)),
            }
        ),
    }
    tables = {
        "users": {
            "pkey": "id",
            "kinds": {"pick": "categorical"} | dict.fromkeys("abc", "numerical"),
        },
        "places": {"pkey": "id", "kinds": {"weight": "numerical"}},
        "visits": {
            "pkey": "id",
            "time_col": "at",
            "fkeys": {"user_id": "users", "place_id": "places"},
            "kinds": {"value": "numerical", "kind": "categorical"},
        },
    }
    return opened(frames, tables, np.arange(users), once(users, rng), score > 0, out)


def gatherings(out: Path, users: int = 600, seed: int = 0) -> Planted:
    """Users with six visits to three places each, without a column or a time that says anything: 2,
    2, 2 visits, or 4, 1, 1."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, users)
    shape = np.array([[0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 2]])[label]  # (users, 6)
    frames = {
        "users": pd.DataFrame({"id": np.arange(users)}),
        "places": pd.DataFrame({"id": np.arange(3 * users)}),
        "visits": pd.DataFrame(
            {
                "id": np.arange(6 * users),
                "user_id": np.repeat(np.arange(users), 6),
                "place_id": (3 * np.arange(users)[:, None] + shape).ravel(),
            }
        ),
    }
    tables = {
        "users": {"pkey": "id"},
        "places": {"pkey": "id"},
        "visits": {"pkey": "id", "fkeys": {"user_id": "users", "place_id": "places"}},
    }
    return opened(frames, tables, np.arange(users), once(users, rng), label, out)


def once(users: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A day for each user: two thirds in training, the others in validation and test."""
    border = np.array(BORDERS)[np.repeat([0, 0, 0, 0, 1, 2], -(-users // 6))[:users]]
    return rng.uniform(border[:, 0], border[:, 1])
