"""The compiled kernel against n-grams written from the definition."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given, settings

from gelgt.features.text import HashedNgrams

MASK = 2**64 - 1
START, PRIME, GOLDEN = 0xCBF29CE484222325, 0x100000001B3, 0x9E3779B97F4A7C15


def mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def fnv(tag: str, items: list[int]) -> int:
    value = (START ^ ord(tag)) * PRIME & MASK
    for item in items:
        value = (value ^ item) * PRIME & MASK
    return value


def code(character: str) -> int:
    return int.from_bytes(character.encode(), "big")


def words_of(text: str) -> list[str]:
    return "".join(c if ord(c) >= 0x80 or c.isalnum() else " " for c in text).split(" ")


def slow_vector(text: str, dim: int) -> np.ndarray:
    hashes: list[int] = []
    before = None
    for word in filter(None, words_of(text)):
        marked = [0, *map(code, word), 0]
        hashes += [fnv("R", marked[i : i + 3]) for i in range(len(marked) - 2)]
        whole = fnv("W", [code(c) for c in word])
        hashes += [whole, whole]
        if before is not None:
            hashes.append(mix(before ^ ord("P")) ^ whole)
        before = whole
    vector = np.zeros(dim)
    for value in hashes:
        for block in range(dim // 64):
            bits = mix((value + (block + 1) * GOLDEN) & MASK)
            vector[block * 64 : block * 64 + 64] += [1 if bits >> k & 1 else -1 for k in range(64)]
    norm = np.sqrt((vector**2).sum())
    return (vector / norm if norm else vector).astype(np.float32)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.text("abcxyz019 .,-éß東🚲", max_size=30), min_size=1, max_size=5),
    st.sampled_from([64, 128]),
)
def test_equals_the_definition(texts: list[str], dim: int) -> None:
    np.testing.assert_array_equal(
        HashedNgrams(dim).embed(pa.array(texts)), np.stack([slow_vector(t, dim) for t in texts])
    )
