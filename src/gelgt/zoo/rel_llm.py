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

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from gelgt.config import ModelConfig
from gelgt.errors import GelgtError
from gelgt.nn.base import ModelContext, RelationalModel
from gelgt.nn.layout import PackedTokens
from gelgt.nn.norms import LayerNorm
from gelgt.nn.rows import ModelInput
from gelgt.zoo.language_model import (
    check_folder,
    fingerprint_of,
    open_language_model,
    transformers,
)
from gelgt.zoo.parts import TokenEncoder, direction_tables
from gelgt.zoo.rdl import HeteroSAGE, RDLConfig
from gelgt.zoo.row_text import RowText


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
        text = config.text_length if config.has_text else 0
        language = open_language_model(config.language_model, config.prompts + text)
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
        tokens = self.pass_messages(inputs).refined(self.config.prompts)
        lengths = tokens.offsets[1:] - tokens.offsets[:-1]
        before = torch.zeros_like(lengths)  # words that stand before the rows
        words = None
        if self.text is not None:
            words, before = self.text(inputs, lengths.device)  # (B, W) token numbers, (B,)
        x = self.soft_prompts(tokens, before, words)
        # (B, longest, words)
        hidden = self.language(inputs_embeds=x, use_cache=False).last_hidden_state
        last = before + lengths - 1  # the seed
        out: Tensor = self.narrow(hidden[torch.arange(len(lengths), device=x.device), last])
        return out

    def pass_messages(self, inputs: ModelInput) -> PackedTokens:
        """The rows as GraphSAGE leaves them."""
        tokens: PackedTokens = self.encoder(inputs)
        blocks = tokens.blocks(self.tables)
        directions = tokens.directions(blocks, self.pairs)
        h = blocks.split(tokens.h)
        for layer in self.layers:
            h = layer(h, directions)
        return replace(tokens, h=blocks.join(h))

    def soft_prompts(self, tokens: PackedTokens, before: Tensor, words: Tensor | None) -> Tensor:
        """What the language model reads: the words of each text, then its rows, the seed last: (B,
        longest, words).

        A causal model sees only what stands before, so padding comes last and needs no mask.

        Args:
            before: (B,) words of each text.
            words: (B, W) their token numbers; None without texts.
        """
        subgraph, lengths = tokens.subgraph, tokens.offsets[1:] - tokens.offsets[:-1]
        rows = torch.arange(len(subgraph), device=subgraph.device)
        place = before[subgraph] + tokens.offsets[subgraph + 1] - 1 - rows
        longest = int((before + lengths).max())
        prompts: Tensor = self.project(tokens.h)
        x = prompts.new_zeros(len(lengths) * longest, prompts.shape[1])
        if words is not None:
            at = torch.arange(words.shape[1], device=words.device)
            is_word = at < before[:, None]  # (B, W)
            seeds = torch.arange(len(lengths), device=words.device)[:, None]
            embedded = self.language.get_input_embeddings()(words[is_word])
            x = x.index_copy(0, (seeds * longest + at)[is_word], embedded.to(x.dtype))
        return x.index_copy(0, subgraph * longest + place, prompts).view(len(lengths), longest, -1)

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
