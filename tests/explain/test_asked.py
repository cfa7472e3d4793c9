"""Which states were asked for before, and masks of columns."""

import numpy as np

from gelgt.explain.asked import ROOM, Asked
from gelgt.scoring.stand_in import unpacked


def test_each_state_has_one_number_however_many_come() -> None:
    rng, asked = np.random.default_rng(0), Asked()
    numbers: dict[bytes, int] = {}
    for count in (1, 50, ROOM, 3 * ROOM):  # more than there are slots at first
        states = rng.integers(0, 3, (count, 9))
        places, new = asked.places(states)
        known = len(numbers)
        for state in states:
            numbers.setdefault(state.tobytes(), len(numbers))
        assert places.tolist() == [numbers[state.tobytes()] for state in states]
        assert len(new) == len(numbers) - known
        assert places[new].tolist() == list(range(known, len(numbers)))
    assert len(asked) == len(numbers)


def test_masks_of_more_columns_than_a_word_has_bits() -> None:
    chosen = np.random.default_rng(1).random((20, 150)) < 0.3
    masks = [sum(1 << place for place in np.flatnonzero(row).tolist()) for row in chosen]
    np.testing.assert_array_equal(unpacked(masks, 150), chosen)
    assert unpacked([], 5).shape == (0, 5)
