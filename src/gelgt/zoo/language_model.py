"""Causal language models as `transformers` saves them: opened from a folder, never downloaded."""

import hashlib
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gelgt.errors import GelgtError

TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1,
    "bos_token_id": None,
    "eos_token_id": None,
}


def transformers() -> Any:
    """The library, imported when a model needs it.

    Raises:
        GelgtError: it is not installed.
    """
    try:
        library = import_module("transformers")
    except ImportError:
        raise GelgtError(
            "missing_extra",
            "The model rel-llm needs transformers.",
            hint="pip install 'gelgt[llm]'",
        ) from None
    library.utils.logging.disable_progress_bar()  # it would be written between gelgt's own lines
    return library


def open_language_model(path: str | None, longest: int) -> Any:
    """The body of a causal language model, without its output words: float32, no dropout.

    Args:
        path: Its folder; None is a tiny one of random weights.
        longest: Tokens that it must take.

    Raises:
        GelgtError: the folder holds none, or it takes too few tokens.
    """
    library = transformers()
    if path is None:
        return library.LlamaModel(
            library.LlamaConfig(**TINY, max_position_embeddings=max(4096, longest))
        ).eval()
    check_folder(path)
    try:
        model = library.AutoModelForCausalLM.from_pretrained(
            Path(path).expanduser(),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
        )
    except (OSError, ValueError, KeyError) as error:
        first = str(error).strip().splitlines()[0]
        raise GelgtError(
            "no_language_model",
            f"{path} cannot be opened as a causal language model: {first}",
            hint="It must be saved as safetensors.",
        ) from None
    room = getattr(model.config, "max_position_embeddings", longest)
    if longest > room:
        raise GelgtError(
            "bad_config",
            f"model.prompts and text make {longest} tokens, but the language model takes {room}.",
            hint="Set fewer prompts.",
        )
    return model.base_model.eval()


def check_folder(path: str | None) -> None:
    """Refuse a folder without a language model; None is the tiny one of random weights.

    Raises:
        GelgtError: there is none.
    """
    if path is not None and not (Path(path).expanduser() / "config.json").is_file():
        raise GelgtError(
            "no_language_model",
            f"{path} holds no language model.",
            hint="Name a folder that transformers' save_pretrained wrote.",
        )


def fingerprint_of(path: str | None) -> Tensor:
    """(16,) bytes that follow from the files of a language model; zeros where there is none."""
    if path is None:
        return torch.zeros(16, dtype=torch.uint8)
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(
        p
        for p in Path(path).expanduser().iterdir()
        if p.suffix in (".json", ".safetensors", ".model", ".txt")
    ):
        digest.update(file.name.encode())
        with file.open("rb") as content:
            while block := content.read(1 << 22):
                digest.update(block)
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)
