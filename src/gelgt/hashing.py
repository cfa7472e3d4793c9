"""SplitMix64 (Steele, Lea, Flood 2014): the one hash behind random orders, samples of label rows
and hashed texts. It takes a counter and holds no state, so the same input gives the same bits on
every machine.

The function is plain arithmetic on unsigned 64-bit numbers: it takes numpy arrays, and kernels
compile it for scalars with ``numba.njit(splitmix64)``. `nn/structure.py` has its form on tensors.
"""

import numpy as np
from numpy.typing import NDArray

INCREMENT = np.uint64(0x9E3779B97F4A7C15)
FACTOR_1, FACTOR_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFT_1, SHIFT_2, SHIFT_3 = np.uint64(30), np.uint64(27), np.uint64(31)


def splitmix64(counter: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """64 well-mixed bits for each counter: every input bit changes every output bit.

    Example:
        >>> hex(splitmix64(np.zeros(1, np.uint64))[0])
        '0xe220a8397b1dcdaf'
    """
    z = counter + INCREMENT
    z = (z ^ (z >> SHIFT_1)) * FACTOR_1
    z = (z ^ (z >> SHIFT_2)) * FACTOR_2
    return z ^ (z >> SHIFT_3)
