"""Hashed n-grams of UTF-8 text, compiled.

Words are runs of ASCII letters and digits and of any character beyond ASCII. Each word, each pair
of neighbouring words and each run of three characters (with a mark at both ends of the word) is
hashed to 64 bits per block of 64 dimensions, and each bit is a sign: the vector is the sum of those
±1, a random projection of the n-gram counts with a fixed matrix that is never stored. Sums are
integers and the norm is taken in float64, so every machine gives the same bytes.

Imported only when text is embedded, because importing numba is slow. Every operand is uint64:
together with a signed integer, numba would compute in floats.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gelgt.compiled import compiled
from gelgt.hashing import INCREMENT, splitmix64

MAX_BYTES = 4096  # the cost of one text is bounded
# a word also shows in its runs of three, shared with similar words; by itself it counts twice
WORD_WEIGHT = 2

_START = np.uint64(0xCBF29CE484222325)  # FNV-1a
_PRIME = np.uint64(0x100000001B3)
# so that kinds of n-gram never coincide
_WORD, _PAIR, _RUN = np.uint64(0x57), np.uint64(0x50), np.uint64(0x52)
_MARK = np.uint64(0)  # the edge of a word: no character of a word is 0
_ZERO, _ONE = np.uint64(0), np.uint64(1)

_mix: Any = compiled(splitmix64)


@compiled
def _add(counts: NDArray[np.int32], value: np.uint64, weight: int) -> int:
    """Count the set bits of the hash in each dimension; returns the weight, for the running
    total."""
    for block in range(counts.shape[0] // 64):
        bits = _mix(value + np.uint64(block) * INCREMENT)
        for k in range(64):
            counts[block * 64 + k] += np.int32(weight) * np.int32((bits >> np.uint64(k)) & _ONE)
    return weight


@compiled
def _add_run(
    counts: NDArray[np.int32], first: np.uint64, second: np.uint64, third: np.uint64
) -> int:
    value = (((_START ^ _RUN) * _PRIME ^ first) * _PRIME ^ second) * _PRIME ^ third
    return _add(counts, value * _PRIME, 1)


@compiled
def _is_word_byte(byte: int) -> bool:
    return byte >= 0x80 or 0x61 <= byte <= 0x7A or 0x30 <= byte <= 0x39


@compiled
def _embed_text(data: NDArray[np.uint8], start: int, stop: int, counts: NDArray[np.int32]) -> int:
    """Add the n-grams of one lower-cased text to `counts`; returns their total weight."""
    total = 0
    previous_word = _ZERO
    place = start
    while place < stop:
        if not _is_word_byte(data[place]):
            place += 1
            continue
        word = (_START ^ _WORD) * _PRIME
        before, last = _MARK, _MARK
        length = 0
        while place < stop and _is_word_byte(data[place]):
            character = np.uint64(data[place])
            place += 1
            # the rest of a character beyond ASCII
            while place < stop and (data[place] & 0xC0) == 0x80:
                character = (character << np.uint64(8)) | np.uint64(data[place])
                place += 1
            word = (word ^ character) * _PRIME
            if length > 0:
                total += _add_run(counts, before, last, character)
            before, last = last, character
            length += 1
        total += _add_run(counts, before, last, _MARK)
        total += _add(counts, word, WORD_WEIGHT)
        if previous_word != _ZERO:
            # without the increment, as the vectors of texts have always been
            total += _add(counts, _mix((previous_word ^ _PAIR) - INCREMENT) ^ word, 1)
        previous_word = word
    return total


@compiled
def embed_rows(
    offsets: NDArray[Any],
    data: NDArray[np.uint8],
    valid: NDArray[np.bool_],
    out: NDArray[np.float32],
) -> None:
    """Unit vectors of lower-cased texts, `data[offsets[i]:offsets[i + 1]]`, into `out` (n, dim),
    which holds zeros."""
    counts = np.zeros(out.shape[1], np.int32)
    for row in range(out.shape[0]):
        if not valid[row]:
            continue
        start, stop = offsets[row], offsets[row + 1]
        if stop - start > MAX_BYTES:
            stop = start + MAX_BYTES
            while stop > start and (data[stop] & 0xC0) == 0x80:  # not inside a character
                stop -= 1
        counts[:] = 0
        total = _embed_text(data, start, stop, counts)
        squares = np.int64(0)
        for k in range(counts.shape[0]):
            counts[k] = 2 * counts[k] - total  # as many +1 as set bits, -1 for the others
            squares += np.int64(counts[k]) * np.int64(counts[k])
        if squares > 0:
            norm = np.sqrt(np.float64(squares))
            for k in range(counts.shape[0]):
                out[row, k] = np.float32(np.float64(counts[k]) / norm)
