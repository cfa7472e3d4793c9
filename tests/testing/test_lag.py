"""The planted lag is where it is said to be, and nothing else tells the label."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from gelgt.errors import GelgtError
from gelgt.graph import NEVER
from gelgt.metrics import roc_auc
from gelgt.sampling import Sampler, SamplingConfig, make_seeds
from gelgt.testing.lag import DAY, TARGET, LagDatabase, LagSplit, lag_database


def payments(made: LagDatabase, split: LagSplit) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ages in days and values of every payment of each labelled user, future ones included."""
    events = made.frames["events"]
    chosen = events[events["kind"] == TARGET].sort_values("user_id", kind="stable")
    users = len(made.frames["users"])
    times = (
        chosen["happened_at"].to_numpy().astype("datetime64[s]").astype(np.int64).reshape(users, -1)
    )
    values = chosen["value"].to_numpy().reshape(users, -1)
    return (split.time[:, None] - times[split.user]) / DAY, values[split.user]


@pytest.mark.parametrize("lag", [7, 30, 180])
def test_only_payments_about_the_lag_tell_the_label(lag: int) -> None:
    made = lag_database(lag, rows=8000, eval_rows=4000, seed=1)
    split = made.splits["test"]
    assert split.oracle_auc > 0.92
    age, value = payments(made, split)
    inside = np.abs(age - lag) < 0.2 * lag
    outside = (age > 0) & (np.abs(age - lag) > 0.4 * lag)
    assert roc_auc_score(split.label, (value * inside).sum(1)) > 0.85
    for useless in (
        (value * outside).sum(1),
        (value * (age < 0)).sum(1),
        inside.sum(1),
        (age > 0).sum(1),
        split.time,
    ):
        assert abs(roc_auc_score(split.label, useless) - 0.5) < 0.03  # three standard errors
    seen = (value * ((age > 0) & (age < 4 * lag))).sum(1)
    assert 0.55 < roc_auc_score(split.label, seen) < 0.68  # what is left to a model without time


def test_other_kinds_and_users_tell_nothing() -> None:
    made = lag_database(30, rows=8000, eval_rows=4000, seed=2)
    split = made.splits["test"]
    events = made.frames["events"]
    for kind in ("visit", "message"):
        total = events[events["kind"] == kind].groupby("user_id")["value"].sum().to_numpy()
        assert abs(roc_auc_score(split.label, total[split.user]) - 0.5) < 0.03
    segment = (made.frames["users"]["segment"] == "a").to_numpy().astype(float)
    assert abs(roc_auc_score(split.label, segment[split.user]) - 0.5) < 0.03


def test_real_pipeline_reads_it() -> None:
    made = lag_database(30, rows=60, eval_rows=20, seed=3)
    db = made.open()
    graph = db.graph()
    assert db.num_rows("users") == 30
    assert not (graph.node_time == NEVER).any()
    assert set(db.features().columns("events")) == {"kind", "value", "happened_at"}
    for name, split in made.splits.items():
        seeds = make_seeds(db, graph, "users", split.user, split.time)
        sample = Sampler(graph, SamplingConfig(budget=43)).sample(seeds.node, seeds.time, seeds.key)
        # everyone's neighbourhood has the same size
        assert (np.diff(sample.offsets) == 43).all(), name
        assert sample.age.max() < 5 * 30
        assert (split.time < made.test_time.astype(np.int64)).all() == (name != "test")


def test_seed_fixes_everything() -> None:
    first, again, other = (lag_database(7, rows=40, eval_rows=10, seed=s) for s in (5, 5, 6))
    for table in first.frames:
        assert first.frames[table].equals(again.frames[table])
        assert not first.frames[table].equals(other.frames[table])
    assert all(np.array_equal(first.splits[n].label, again.splits[n].label) for n in first.splits)


def test_refuses_what_it_cannot_make() -> None:
    with pytest.raises(GelgtError, match="lag must be positive"):
        lag_database(0, rows=100)


def test_auc_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    label, score = rng.integers(0, 2, 500), rng.integers(0, 20, 500) / 7
    assert roc_auc(label, score) == pytest.approx(roc_auc_score(label, score), abs=1e-12)
