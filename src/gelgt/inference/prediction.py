"""`Prediction`: what a model says about some (entity, time) rows, with the user's own keys."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.inference.write import write_predictions

if TYPE_CHECKING:
    import pandas as pd

VECTOR = "vector_"


@dataclass(frozen=True)
class Prediction:
    """Predictions or seed vectors, row by row.

    Attributes:
        table: The entity's key, ``time``, and ``prediction`` with ``probability`` (binary),
            ``probability_<class>``, or ``lower`` and ``upper`` where intervals were asked for; or
            ``vector_0``, ``vector_1``, … of `embed`.
        notices: What the user should know about them.

    Example:
        >>> import pyarrow as pa
        >>> made = Prediction(pa.table({"id": [42, 57], "prediction": [0.5, 2.0]}))
        >>> len(made), made.to_pandas()["prediction"].tolist()
        (2, [0.5, 2.0])
    """

    table: pa.Table
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def to_pandas(self) -> "pd.DataFrame":
        """A frame; its ``attrs["notices"]`` are the notices."""
        frame: pd.DataFrame = self.table.to_pandas()
        frame.attrs["notices"] = list(self.notices)
        return frame

    def save(self, path: str | Path) -> Path:
        """Write a .parquet or .csv file, whole or not at all."""
        write_predictions([self.table], path)
        return Path(path)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """(n, d) seed vectors; (n, 0) where these are predictions."""
        names = [name for name in self.table.column_names if _is_vector(name)]
        columns: list[Any] = [self.table.column(name).to_numpy() for name in names]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self), 0), np.float32)


def _is_vector(name: str) -> bool:
    return name.startswith(VECTOR) and name.removeprefix(VECTOR).isdigit()
