"""Text embedders: hashed n-grams by default, a sentence-transformers model on request.

The default needs no download and no training data, and gives the same bytes in every process and on
every machine.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.errors import GelgtError


class TextEmbedder(Protocol):
    """Turns texts into vectors; the vector of a text must not depend on other texts."""

    @property
    def dim(self) -> int: ...

    def spec(self) -> dict[str, Any]:
        """JSON from which `embedder_from_spec` makes the same embedder again."""
        ...

    def embed(self, texts: pa.Array) -> NDArray[np.float32]:
        """Vectors (n, dim); zeros where there is no text."""
        ...


class HashedNgrams:
    """Words, word pairs and character trigrams, hashed and projected with fixed signs; see
    `features/ngrams.py`.

    Args:
        dim: A multiple of 64.

    Example:
        >>> vectors = HashedNgrams().embed(pa.array(["a red bicycle", "red bicycles", None]))
        >>> vectors.shape, bool(vectors[0] @ vectors[1] > 0.4), float(abs(vectors[2]).max())
        ((3, 64), True, 0.0)
    """

    def __init__(self, dim: int = 64) -> None:
        if dim < 64 or dim % 64:
            raise GelgtError(
                "bad_dimension",
                f"The dimension of hashed n-grams must be a multiple of 64, got {dim}.",
                hint="64 is the default.",
            )
        self._dim = dim

    @property
    def dim(self) -> int:
        return self._dim

    def spec(self) -> dict[str, Any]:
        return {"name": "hashed-ngrams", "version": 1, "dim": self._dim}

    def embed(self, texts: pa.Array) -> NDArray[np.float32]:
        from gelgt.features.ngrams import embed_rows

        out = np.zeros((len(texts), self._dim), np.float32)
        if texts.null_count == len(texts):
            return out
        lowered = pc.utf8_lower(texts)
        _, offsets, data = lowered.buffers()
        kind = np.int64 if pa.types.is_large_string(lowered.type) else np.int32
        # a slice shares its buffers
        starts = np.frombuffer(offsets, kind)[lowered.offset : lowered.offset + len(lowered) + 1]
        letters = np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8)
        embed_rows(starts, letters, lowered.is_valid().to_numpy(zero_copy_only=False), out)
        return out


def embedder_from_spec(spec: Mapping[str, Any]) -> TextEmbedder:
    """The embedder that fitted statistics name."""
    name, dim, model = (spec.get(key) for key in ("name", "dim", "model"))
    if name == "hashed-ngrams" and spec.get("version") == 1 and isinstance(dim, int):
        return HashedNgrams(dim)
    if name == "sentence-transformers" and isinstance(model, str):
        from gelgt.features.sentences import SentenceEmbedder

        return SentenceEmbedder(model)
    raise GelgtError(
        "unknown_embedder",
        f"This gelgt has no text embedder {dict(spec)!r}.",
        hint="Pass the embedder, or train again.",
    )
