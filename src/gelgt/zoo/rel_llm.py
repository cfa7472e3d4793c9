"""`rel-llm`: a graph encoder writes soft prompts for a causal language model (Rel-LLM; Wu, Dwivedi
and Leskovec, 2025).

Kept: heterogeneous GraphSAGE encodes the subgraph; the vectors of the seed and of its nearest rows
are projected to the width of the language model's word vectors and stand in its input like words;
the language model stays as it is, and only encoder, projection and head learn; the entity's own row
can stand before them as text (`model.has_text`).

    [text of the entity's row]  row, row, …, row, seed → language model → last hidden state of the
                                seed → head

Simplified: the answer is read by a head from the last hidden state instead of being generated as
words, so every kind of task works and a prediction is one pass; the rows that become prompts are
those that gelgt's refinement would keep; the encoder is not pretrained by masking cells; text holds
the entity's row, not the rows that it refers to, which the prompts stand for.

The language model is any folder that `transformers` wrote (``--set model.language_model=PATH``;
nothing is ever downloaded). Its weights are not copied into a run, which holds the path and a
fingerprint of the files; they are, if they are trained along (`model.is_tuned`). Without a path
there is a tiny model of random weights, which knows no language: it is trained with everything
else, and shows no more than that the machinery works.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gelgt.config import ModelConfig
from gelgt.errors import GelgtError
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.norms import LayerNorm
from gelgt.nn.rows import ModelInput
from gelgt.zoo.parts import Blocks, TokenEncoder, directed_edges, direction_tables
from gelgt.zoo.rdl import HeteroSAGE, RDLConfig
from gelgt.zoo.row_text import RowText

TINY = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1,
    "bos_token_id": None,
    "eos_token_id": None,
}


class RelLLMConfig(RDLConfig):
    """A graph encoder, as `rdl` has it, before a language model.

    Attributes:
        language_model: A folder with a causal language model as `transformers` saves it; None is a
            tiny one of random weights.
        is_tuned: Whether its weights are trained too, and kept in the run.
        prompts: Rows that become soft prompts, the seed included.
        has_text: Whether the entity's row stands before them as text; needs a tokenizer in the
            folder.
        text_length: Most tokens of that text.
    """

    language_model: str | None = None
    is_tuned: bool = False
    prompts: int = Field(default=16, ge=1)
    has_text: bool = False
    text_length: int = Field(default=64, ge=1)


class RelLLM(RelationalModel):
    """GraphSAGE → soft prompts → a causal language model → the head."""

    config_type = RelLLMConfig
    presets: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "cpu": {
            "model": {
                "width": 64,
                "row_width": 16,
                "row_layers": 1,
                "row_names": False,
                "row_times": False,
            },
            "sampling": {"budget": 80},
            "train": {"ensemble": 1},
        },
        "gpu": {"model": {"prompts": 32}, "sampling": {"budget": 300}, "train": {"ensemble": 1}},
        "paper": {
            "model": {"prompts": 32, "has_text": False, "row_width": 128, "row_layers": 4},
            "sampling": {"budget": 300},
        },
    }

    fingerprint: Tensor

    def __init__(self, config: RelLLMConfig, context: ModelContext) -> None:
        super().__init__(config, context)
        graph = context.graph
        self.config: RelLLMConfig = config
        self.pairs, self.tables = direction_tables(graph.relations, graph.tables), len(graph.tables)
        self.encoder = TokenEncoder(config, self.columns, graph.tables)
        self.layers = nn.ModuleList(
            HeteroSAGE(config, self.tables, len(self.pairs)) for _ in range(config.layers)
        )
        language = open_language_model(config)
        self.is_frozen = config.language_model is not None and not config.is_tuned
        language.requires_grad_(not self.is_frozen)
        # nothing else reads words
        language.get_input_embeddings().requires_grad_(config.has_text and not self.is_frozen)
        # Outside of `self.modules` a frozen one is not saved; `_apply` and `train` below do for it
        # what modules do by themselves.
        self.outside = [language] if self.is_frozen else []
        self.inside = nn.ModuleList([] if self.is_frozen else [language])
        words = int(language.config.hidden_size)
        self.project = nn.Sequential(
            LayerNorm(config.width),
            nn.Linear(config.width, words),
            nn.GELU(),
            nn.Linear(words, words),
        )
        self.narrow = nn.Sequential(LayerNorm(words), nn.Linear(words, config.width))
        self.text = (
            RowText.of(config.language_model, self.columns, config.text_length)
            if config.has_text
            else None
        )
        self.register_buffer("fingerprint", fingerprint_of(config.language_model))
        self.add_head(context)

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        assert isinstance(config, RelLLMConfig)
        transformers()
        check_folder(config.language_model)

    @property
    def language(self) -> Any:
        """The language model."""
        return self.outside[0] if self.is_frozen else self.inside[0]

    @property
    def facts(self) -> str:
        size = sum(p.numel() for p in self.language.parameters())
        name = (
            "a tiny random language model"
            if self.config.language_model is None
            else f"the language model {self.config.language_model}"
        )
        return (
            f"before {name} of {size:,} parameters, "
            f"{'frozen' if self.is_frozen else 'trained along'}"
        )

    def embed(self, inputs: ModelInput) -> Tensor:
        """Seed vectors (B, d)."""
        tokens = self.encoder(inputs)
        blocks = Blocks.of(tokens, self.tables)
        directions = directed_edges(tokens, blocks, self.pairs)
        h = blocks.split(tokens.h)
        for layer in self.layers:
            h = layer(h, directions)
        tokens = replace(tokens, h=blocks.join(h)).refined(self.config.prompts)
        subgraph, lengths = tokens.subgraph, tokens.offsets[1:] - tokens.offsets[:-1]
        before = torch.zeros_like(lengths)  # words that stand before the rows
        words = None
        if self.text is not None:
            words, before = self.text(inputs, lengths.device)  # (B, W) token numbers, (B,)
        # A causal model sees only what stands before, so padding comes last and needs no mask. The
        # seed is the last of its rows.
        place = (
            before[subgraph]
            + tokens.offsets[subgraph + 1]
            - 1
            - torch.arange(len(subgraph), device=subgraph.device)
        )
        longest = int((before + lengths).max())
        prompts: Tensor = self.project(tokens.h)
        x = prompts.new_zeros(len(lengths) * longest, prompts.shape[1])
        if words is not None:
            at = torch.arange(words.shape[1], device=words.device)
            is_word = at < before[:, None]  # (B, W)
            where = (torch.arange(len(lengths), device=words.device)[:, None] * longest + at)[
                is_word
            ]
            x = x.index_copy(
                0, where, self.language.get_input_embeddings()(words[is_word]).to(x.dtype)
            )
        x = x.index_copy(0, subgraph * longest + place, prompts).view(len(lengths), longest, -1)
        # (B, longest, words)
        hidden = self.language(inputs_embeds=x, use_cache=False).last_hidden_state
        out: Tensor = self.narrow(
            hidden[torch.arange(len(lengths), device=x.device), before + lengths - 1]
        )
        return out

    def train(self, mode: bool = True) -> "RelLLM":
        """As ever, but the language model has no dropout of its own: its masks would not repeat on
        several threads."""
        super().train(mode)
        self.language.eval()
        return self

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "RelLLM":
        for language in self.outside:
            language._apply(fn)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(f"{prefix}fingerprint")
        if (
            self.is_frozen
            and saved is not None
            and not torch.equal(saved.cpu(), self.fingerprint.cpu())
        ):
            raise GelgtError(
                "other_language_model",
                f"The language model in {self.config.language_model} is not the one that this run "
                "was trained with.",
                hint="Put the files back, or train again.",
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)


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


def open_language_model(config: RelLLMConfig) -> Any:
    """The body of a causal language model, without its output words: float32, no dropout.

    Raises:
        GelgtError: the folder holds none, or it takes too few tokens.
    """
    library, path = transformers(), config.language_model
    longest = config.prompts + (config.text_length if config.has_text else 0)
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
