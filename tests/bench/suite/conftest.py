"""Two small shops as folders with tasks."""

from pathlib import Path

import pandas as pd
import pytest

import gelgt
from gelgt.demo import shop

SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"


@pytest.fixture(scope="session")
def shops(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`corner` with a binary task and one of values, `market` with a binary task."""
    root, folders = tmp_path_factory.mktemp("suite"), {}
    for seed, name in enumerate(("corner", "market")):
        made = shop(root / f"{name}.db", customers=40, days=240, seed=seed + 5)
        test = pd.Timestamp(made.test_timestamp)
        stated = {"val_timestamp": str(test - pd.Timedelta(days=30)), "test_timestamp": str(test)}
        db = gelgt.open(made.url, schema=stated, out=root / name)
        db.task(SENTENCE, name="soon", eval_timestamps=3).save()
        folders[name] = root / name
    db = gelgt.open(folders["corner"])
    db.task(SENTENCE.replace(" > 0", ""), name="amount", eval_timestamps=3).save()
    return folders
