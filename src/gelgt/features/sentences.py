"""Text embeddings of a sentence-transformers model, an optional extra
(`pip install 'gelgt[text]'`)."""

from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import GelgtError


class SentenceEmbedder:
    """A sentence-transformers model as a `TextEmbedder`.

    Args:
        model: A local folder or the name of a model that is already in the Hugging Face cache.
        download: Fetch the model if it is not there. Nothing is ever downloaded otherwise.
        batch_size: Texts per forward pass.
    """

    def __init__(self, model: str, *, download: bool = False, batch_size: int = 256) -> None:
        try:
            library = import_module("sentence_transformers")
        except ImportError:
            raise GelgtError(
                "missing_extra",
                "sentence-transformers is not installed.",
                hint="pip install 'gelgt[text]'",
            ) from None
        try:
            self._model = library.SentenceTransformer(model, local_files_only=not download)
        except OSError as error:
            raise GelgtError(
                "missing_model",
                f"The model '{model}' is not on this machine ({error}).",
                hint="Pass download=True, or a local folder.",
            ) from None
        self._name, self._batch_size = model, batch_size

    @property
    def dim(self) -> int:
        return int(self._model.get_sentence_embedding_dimension())

    def spec(self) -> dict[str, Any]:
        return {"name": "sentence-transformers", "model": self._name, "dim": self.dim}

    def embed(self, texts: pa.Array) -> NDArray[np.float32]:
        out = np.zeros((len(texts), self.dim), np.float32)
        filled = texts.is_valid().to_numpy(zero_copy_only=False)
        if filled.any():
            out[filled] = self._model.encode(
                texts.drop_null().to_pylist(), batch_size=self._batch_size, show_progress_bar=False
            )
        return out
