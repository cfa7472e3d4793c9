"""Two small frames, customers and their orders, that tests of sources spoil in one way each."""

from typing import Any

import pandas as pd

DAY = pd.date_range("2024-01-01", periods=6, tz=None)


def customers(**more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {"id": [1, 2, 3], "joined_at": DAY[:3], "name": ["Ann", "Bob", "Cid"]} | more
    )


def orders(**more: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": [10, 11, 12, 13],
            "customer_id": [1, 1, 2, 3],
            "placed_at": DAY[2:6],
            "amount": [5.0, 7.5, 1.0, 9.0],
        }
        | more
    )
