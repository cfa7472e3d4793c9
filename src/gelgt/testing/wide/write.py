"""The wide database as a folder of Parquet files, and what is true about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.errors import GelgtError
from gelgt.files import whole_folder
from gelgt.metrics import roc_auc
from gelgt.testing.wide.columns import make_table
from gelgt.testing.wide.rows import Rows, generator, make_rows
from gelgt.testing.wide.schema import (
    SENTENCE,
    TABLES,
    TEST,
    VAL,
    WINDOW,
    WINDOWS,
    window_start,
)
from gelgt.testing.wide.truth import Truth, truth


@dataclass(frozen=True)
class Labels:
    """S labels, in the order of time and customer.

    Attributes:
        customer: (S,) ids.
        time: (S,) seed times in seconds since 1970.
        label: (S,) whether the customer renewed in the window after it.
        truth: What is true of them.
    """

    customer: NDArray[np.int64]
    time: NDArray[np.int64]
    label: NDArray[np.bool_]
    truth: Truth


@dataclass(frozen=True)
class WideDatabase:
    """The database on disk, its task and what is true about it."""

    folder: Path
    val_timestamp: str = str(np.datetime64(window_start(VAL), "s").astype("datetime64[D]"))
    test_timestamp: str = str(np.datetime64(window_start(TEST), "s").astype("datetime64[D]"))
    sentence: str = SENTENCE

    def tables(self) -> dict[str, pa.Table]:
        """All tables, read from the files."""
        return {name: pq.read_table(self.folder / f"{name}.parquet") for name in TABLES}

    def labels(self) -> dict[str, Labels]:
        """The labels of train, val and test with their truth, as the sentence makes them with
        these split times: from the first window that begins behind the first renewal on."""
        tables = self.tables()
        first = -(-(_moments(tables["renewals"]).min() - window_start(0)) // WINDOW)
        borders = {"train": (first, VAL), "val": (VAL, TEST), "test": (TEST, WINDOWS - 1)}
        return {split: _labels(tables, range(*border)) for split, border in borders.items()}

    @property
    def oracle_auc(self) -> float:
        """ROC-AUC of the exact probability on the test split: what no model can beat but by
        luck."""
        test = self.labels()["test"]
        area = roc_auc(test.label, test.truth.probability)
        assert area is not None  # the split holds both labels
        return area


def wide_database(folder: str | Path, *, scale: float = 1.0, seed: int = 0) -> WideDatabase:
    """Write the wide database, one Parquet file for each table.

    Args:
        folder: Where the files go; must be empty or new.
        scale: Times the number of rows; 1 gives about 600,000 rows and 80,000 labels.
        seed: The same seed and scale give the same bytes.

    Raises:
        GelgtError: the scale is not positive, or the folder holds files.
    """
    target = Path(folder)
    if not scale > 0:
        raise GelgtError(
            "bad_option",
            f"scale must be a positive number, got {scale}.",
            hint="1 gives about 600,000 rows.",
        )
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise GelgtError(
            "not_empty",
            f"The folder {target} must be empty or new; it holds files.",
            hint="Choose another folder.",
        )
    rows = make_rows(scale, seed)
    tables = {name: make_table(name, rows, seed) for name in TABLES if name != "renewals"}
    rows["renewals"] = _renewals(tables, seed)
    tables["renewals"] = make_table("renewals", rows, seed)
    with whole_folder(target) as temporary:
        for name, table in tables.items():
            pq.write_table(table, temporary / f"{name}.parquet")
    return WideDatabase(target)


def _renewals(tables: Mapping[str, pa.Table], seed: int) -> Rows:
    """At a random moment of a window, for the customers whom the truth chooses."""
    rng = generator(seed, "renewals")
    customer, time = _eligible(tables, range(WINDOWS))
    renews = rng.random(len(customer)) < truth(tables, customer, time).probability
    moment = time[renews] + rng.integers(1, WINDOW, int(renews.sum()))
    return Rows(len(moment), moment, {"customer_id": customer[renews] - 1})


def _eligible(
    tables: Mapping[str, pa.Table], windows: range
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ids of the customers who have signed up by the start of each window, and that time."""
    customers = tables["customers"]
    signed_up = customers["signed_up_at"].cast("timestamp[s]").cast("int64").to_numpy()
    starts = np.array([window_start(window) for window in windows])
    window, row = np.nonzero(signed_up <= starts[:, None])
    return customers["id"].to_numpy()[row], starts[window]


def _labels(tables: Mapping[str, pa.Table], windows: range) -> Labels:
    customer, time = _eligible(tables, windows)
    renewals = tables["renewals"]
    moment = _moments(renewals)
    begin = moment - (moment - window_start(0)) % WINDOW  # never at a border of a window
    renewed = set(zip(renewals["customer_id"].to_pylist(), begin.tolist()))
    label = np.array([pair in renewed for pair in zip(customer.tolist(), time.tolist())], np.bool_)
    return Labels(customer, time, label, truth(tables, customer, time))


def _moments(renewals: pa.Table) -> NDArray[np.int64]:
    """When each renewal happened, in seconds since 1970."""
    seconds = renewals["renewed_at"].cast("timestamp[s]").cast("int64")
    return np.asarray(seconds, np.int64)
