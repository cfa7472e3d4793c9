"""Hashed n-grams: the same bytes everywhere, near texts near, any text in bounded time."""

import hashlib
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from gelgt.errors import GelgtError
from gelgt.features.ngrams import MAX_BYTES
from gelgt.features.text import HashedNgrams, embedder_from_spec

GOLDEN_TEXTS = ["The quick brown fox", "naïve Straße ÅNGSTRÖM 東京 🚲", "", None, "x", "a-b_c 12,5"]
GOLDEN = "0f2802e6148e8bec"


def digest(vectors: np.ndarray) -> str:
    return hashlib.sha256(vectors.astype("<f2").tobytes()).hexdigest()[:16]


def embed(*texts: str | None, dim: int = 64) -> np.ndarray:
    return HashedNgrams(dim).embed(pa.array(texts, pa.string()))


def test_golden_vectors() -> None:
    """A changed hash changes every feature of every trained model: raise the version in `spec` with
    it."""
    assert digest(embed(*GOLDEN_TEXTS)) == GOLDEN
    assert HashedNgrams().spec() == {"name": "hashed-ngrams", "version": 1, "dim": 64}


def test_another_process_gives_the_same_bytes() -> None:
    code = (
        "import hashlib, pyarrow as pa; from gelgt.features.text import HashedNgrams;"
        f"print(hashlib.sha256(HashedNgrams().embed(pa.array({GOLDEN_TEXTS!r}, "
        "pa.string())).astype('<f2').tobytes()).hexdigest()[:16])"
    )
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
        ).stdout.strip()
        == GOLDEN
    )


def test_unit_length_or_zero() -> None:
    lengths = np.linalg.norm(embed("one", "two words", "", None, "?!"), axis=1)
    np.testing.assert_allclose(lengths, [1, 1, 0, 0, 0], atol=1e-6)


def test_near_texts_are_nearer_than_unrelated_ones() -> None:
    near = [
        ("the delivery was late again", "the delivery was late again!"),
        ("How long should I ferment a lager?", "how long to ferment lager"),
        ("Grand Prix of Monaco", "Monaco Grand Prix"),
        ("recommendation", "recommendations"),
    ]
    far = "zebra xylophone quartz mining jacuzzi"
    for one, other in near:
        a, b, c = embed(one, other, far)
        assert a @ b > 0.4 > a @ c + 0.1
    assert np.allclose(*embed("ÄPFEL", "äpfel"))


@pytest.mark.parametrize("dim", [64, 128, 192])
def test_wider_vectors_extend_narrow_ones_in_sign(dim: int) -> None:
    wide = embed("some longer text here", dim=dim)[0]
    assert wide.shape == (dim,)
    assert np.array_equal(np.sign(wide[:64]), np.sign(embed("some longer text here")[0]))


@pytest.mark.parametrize("dim", [0, 32, 100])
def test_other_widths_are_refused(dim: int) -> None:
    with pytest.raises(GelgtError, match="multiple of 64"):
        HashedNgrams(dim)


def test_slices_and_large_strings() -> None:
    texts = pa.array(["zero", "one", None, "three", "four"])
    whole = HashedNgrams().embed(texts)
    assert np.array_equal(HashedNgrams().embed(texts[1:4]), whole[1:4])
    assert np.array_equal(HashedNgrams().embed(texts.cast(pa.large_string())[2:]), whole[2:])
    assert HashedNgrams().embed(texts[:0]).shape == (0, 64)
    assert not HashedNgrams().embed(pa.array(["", ""])).any()


def test_long_text_is_cut_between_characters() -> None:
    # 4095 bytes, so that a two-byte character straddles the limit
    prefix = "wort " * (MAX_BYTES // 5)
    assert np.array_equal(*embed(prefix + "ö", prefix + "ä und mehr"))
    start = time.perf_counter()
    embed("long text " * 1_000_000)
    assert time.perf_counter() - start < 2


def test_made_again_from_its_spec() -> None:
    assert embedder_from_spec(HashedNgrams(128).spec()).dim == 128
    for other in (
        {"name": "hashed-ngrams", "version": 2, "dim": 64},
        {"name": "hashed-ngrams", "version": 1, "dim": [64]},
        {"name": "hashed-ngrams", "version": 1},
        {"name": "sentence-transformers", "model": 7},
    ):
        with pytest.raises(GelgtError, match="no text embedder"):
            embedder_from_spec(other)
