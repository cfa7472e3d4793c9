"""`Asked`: which states were asked for before. Each distinct one has a number, in the order in
which they first came; thousands of them are looked up in one compiled loop."""

import numpy as np
from numpy.typing import NDArray

ROOM = 1 << 12  # slots at first; at most half of them are taken


class Asked:
    """Numbers states by the 64-bit sums of `row_prints`."""

    def __init__(self) -> None:
        self._keys = np.zeros(0, np.uint64)
        self._make_room(ROOM)

    def __len__(self) -> int:
        return len(self._keys)

    def places(self, states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The number of each state (n, U), and which of the states are new, each once.

        Example:
            >>> asked = Asked()
            >>> places, new = asked.places(np.array([[1, 0], [1, 1], [1, 0]]))
            >>> places.tolist(), new.tolist()
            ([0, 1, 0], [0, 1])
        """
        from gelgt.explain.kernels import place_keys, row_prints

        keys = row_prints(np.ascontiguousarray(states, np.int64))
        most = 2 * (len(self._keys) + len(keys))
        if most > len(self._slots):
            self._make_room(1 << most.bit_length())
        places, new = place_keys(keys, self._slots, self._numbers, len(self._keys))
        self._keys = np.concatenate([self._keys, keys[new]])
        return places, new

    def _make_room(self, slots: int) -> None:
        self._slots, self._numbers = np.zeros(slots, np.uint64), np.full(slots, -1, np.int64)
        if len(self._keys):
            from gelgt.explain.kernels import place_keys

            place_keys(self._keys, self._slots, self._numbers, 0)
