"""The optional embedder, with a stand-in for the library: the real one is an extra and needs a
model."""

import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from gelgt.errors import GelgtError
from gelgt.features.sentences import SentenceEmbedder


class StandIn:
    def __init__(self, name: str, local_files_only: bool) -> None:
        if name == "missing" and local_files_only:
            raise OSError("not in the cache")

    def get_sentence_embedding_dimension(self) -> int:
        return 3

    def encode(self, texts: list[str], batch_size: int, show_progress_bar: bool) -> np.ndarray:
        return np.array([[len(text), 1, 1] for text in texts], np.float32)


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(GelgtError, match=r"gelgt\[text\]"):
        SentenceEmbedder("any")


def test_embeds_what_is_filled_and_never_downloads_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=StandIn)
    )
    assert SentenceEmbedder("here").embed(pa.array(["ab", None])).tolist() == [[2, 1, 1], [0, 0, 0]]
    with pytest.raises(GelgtError, match="download=True"):
        SentenceEmbedder("missing")
    assert SentenceEmbedder("missing", download=True).spec() == {
        "name": "sentence-transformers",
        "model": "missing",
        "dim": 3,
    }
