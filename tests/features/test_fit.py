"""Statistics come from the training period alone, and nothing but its rows can change them."""

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gelgt.features import HashedNgrams, fit
from gelgt.features.fit import fit_statistics

START = datetime(2020, 1, 1)
UNTIL = int(np.datetime64("2020-01-03", "us").astype(np.int64))
KINDS = {
    "n": "numerical",
    "c": "categorical",
    "m": {"kind": "multicategorical", "separator": "|"},
    "w": "timestamp",
    "s": "text",
}


def fitted(
    make_db: Any,
    days: list[float | None],
    until: int | None = UNTIL,
    row_group_size: int = 1000,
    **columns: list[Any],
) -> Any:
    times = pa.array(
        [None if d is None else START + timedelta(days=d) for d in days], pa.timestamp("us")
    )
    rows = pa.table({"at": times, **columns})
    kinds = {c: KINDS[c] for c in columns}
    db = make_db(
        {"t": (rows, {"time_col": "at", "kinds": {"at": "ignored", **kinds}})},
        row_group_size=row_group_size,
    )
    return fit_statistics(db, until, HashedNgrams()).tables["t"]


def test_later_and_timeless_rows_never_contribute_even_out_of_order(make_db: Any) -> None:
    s = fitted(
        make_db,
        [5, 1, None, 2, 2.5],
        n=[1e9, 1.0, -1e9, 3.0, 7.0],
        c=["late", "a", "never", "b", "late"],
        m=["z", "a|b", "y", "b", "q"],
    )
    assert (s["n"].count, s["n"].mean, s["n"].std) == (2, 2.0, 1.0)
    assert s["n"].quantiles == (1.0, 1.5, 2.0, 2.5, 3.0)
    assert s["c"].categories == ("a", "b")
    assert (s["m"].categories, s["m"].counts) == (("b", "a"), (2, 1))


def test_the_last_instant_counts_and_no_end_means_all_rows_with_a_time(make_db: Any) -> None:
    # 2020-01-03 itself, not 86 microseconds later
    assert fitted(make_db, [2.0, 2.0 + 1e-9], n=[1.0, 2.0])["n"].count == 1
    assert fitted(make_db, [2.0, 3000.0, None], until=None, n=[1.0, 2.0, 3.0])["n"].count == 2


def test_a_timeless_table_contributes_all_rows(make_db: Any) -> None:
    db = make_db({"t": (pa.table({"n": [1.0, 2.0, 6.0]}), {"kinds": {"n": "numerical"}})})
    assert fit_statistics(db, UNTIL, HashedNgrams()).tables["t"]["n"].mean == 3.0


def test_nothing_to_fit_gives_usable_defaults(make_db: Any) -> None:
    late = fitted(
        make_db,
        [9, 9],
        n=[1.0, 2.0],
        c=["a", "b"],
        m=["a", "b"],
        w=pa.array([START] * 2, pa.timestamp("us")),
        s=["x", "y"],
    )
    assert (late["n"].mean, late["n"].std, late["n"].count) == (0.0, 1.0, 0)
    assert late["c"].categories == late["m"].categories == ()
    assert late["w"].count == 0


def test_moments_and_quantiles_equal_numpy(make_db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "BLOCK", 64)
    values = 1e9 + np.random.default_rng(0).normal(size=1000)
    values[::7] = np.nan
    s = fitted(make_db, [1.0] * 1000, n=pa.array(values))["n"]
    filled = values[~np.isnan(values)]
    assert s.mean == pytest.approx(filled.mean(), rel=1e-15)
    assert s.std == pytest.approx(filled.std(), rel=1e-9)
    np.testing.assert_allclose(s.quantiles, np.quantile(filled, [0, 0.25, 0.5, 0.75, 1]))


def test_the_layout_of_the_file_changes_no_bit(
    make_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "BLOCK", 64)
    monkeypatch.setattr(fit, "SAMPLE_ROWS", 50)
    rng = np.random.default_rng(0)
    n, days = rng.lognormal(size=1000), rng.uniform(0, 4, 1000)
    whole = fitted(make_db, days.tolist(), n=n.tolist())
    assert fitted(make_db, days.tolist(), n=n.tolist(), row_group_size=13) == whole
    early = days <= 2
    assert fitted(make_db, days[early].tolist(), n=n[early].tolist(), row_group_size=77) == whole


def test_timestamps(make_db: Any) -> None:
    times = pa.array([START + timedelta(days=d) for d in (3, 1, 2)] + [None], pa.timestamp("us"))
    s = fitted(make_db, [0, 0, 0, 0], w=times)["w"]
    first = int(np.datetime64(START, "s").astype(np.int64))
    assert (s.count, s.oldest, s.median, s.newest) == (
        3,
        first + 86400,
        first + 2 * 86400,
        first + 3 * 86400,
    )
