"""`StandIn`: a row that shows some columns of another row. Which columns these are is a mask with
one bit for each column of the table, so that hundreds of them become an array at once."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class StandIn(NamedTuple):
    """A row of a table with some columns of another row, the donor.

    Attributes:
        columns: Bits of the columns that are the donor's, in the order of the table's features.
    """

    table: str
    row: int
    donor: int
    columns: int


def unpacked(masks: Sequence[int], width: int) -> NDArray[np.bool_]:
    """(n, width) the first bits of masks, the lowest first.

    Example:
        >>> unpacked([1, 6], 3).tolist()
        [[True, False, False], [False, True, True]]
    """
    size = width // 8 + 1
    raw = b"".join([mask.to_bytes(size, "little") for mask in masks])
    words = np.frombuffer(raw, np.uint8).reshape(len(masks), size)
    bits = np.unpackbits(words, axis=1, bitorder="little")
    return bits[:, :width].astype(bool)
