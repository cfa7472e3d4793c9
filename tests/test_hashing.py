"""SplitMix64 on arrays, and compiled for scalars, against its definition."""

import numpy as np

from gelgt.compiled import compiled
from gelgt.hashing import splitmix64

MASK = 2**64 - 1
COUNTERS = [0, 1, 42, 2**63, MASK]


def defined(counter: int) -> int:
    z = (counter + 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def test_the_hash_never_changes() -> None:
    # the first output of the published generator from seed 0
    assert splitmix64(np.zeros(1, np.uint64))[0] == 0xE220A8397B1DCDAF


def test_arrays_and_compiled_scalars_give_the_same_bits() -> None:
    bits = splitmix64(np.array(COUNTERS, np.uint64))
    scalar = compiled(splitmix64)
    assert bits.tolist() == [defined(counter) for counter in COUNTERS]
    assert [int(scalar(np.uint64(counter))) for counter in COUNTERS] == bits.tolist()
