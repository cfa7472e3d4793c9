"""`Patched`: the values of a column with those of further rows behind the table's own, so that a
row can be shown with other values and the table is not copied."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Patched:
    """A column of R rows, and of further ones that are numbered from R on.

    Attributes:
        values: (R,) of the table.
        extra: (E,) of the further rows.
    """

    values: NDArray[Any]
    extra: NDArray[Any]

    def taken(self, rows: NDArray[Any], missing: float) -> NDArray[Any]:
        """The values of some rows; `missing` for the row -1."""
        out = np.full(len(rows), missing, self.values.dtype)
        own, more = (rows >= 0) & (rows < len(self.values)), rows >= len(self.values)
        out[own] = self.values[rows[own]]
        out[more] = self.extra[rows[more] - len(self.values)]
        return out
