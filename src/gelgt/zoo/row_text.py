"""`RowText`: the entity's own row as words for a language model:
``users: segment a, joined 2024-03-01, score 12.5``.

The words come from the features of a batch, so they hold what a model may see and nothing else:
hidden columns are not there. Numbers, categories and times are written out; empty cells, and text
that is only there as an embedding, are left out.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_frame import TensorFrame, stype
from torch_frame.data.stats import StatType

from gelgt.errors import GelgtError
from gelgt.features.frames import CONSTANT
from gelgt.nn.encoders import TableColumns
from gelgt.nn.rows import ModelInput


class RowText:
    """Texts of seeds as token numbers.

    Args:
        tokenizer: Of the language model.
        columns: Of each table.
        length: Most tokens of a text.
    """

    def __init__(self, tokenizer: Any, columns: Mapping[str, TableColumns], length: int) -> None:
        self.tokenizer, self.columns, self.length = tokenizer, columns, length

    @classmethod
    def of(cls, folder: str | None, columns: Mapping[str, TableColumns], length: int) -> "RowText":
        """With the tokenizer of a folder.

        Raises:
            GelgtError: there is none.
        """
        hint = "Set model.has_text=false, or name a folder that holds a tokenizer."
        if folder is None:
            raise GelgtError(
                "no_tokenizer",
                "model.has_text needs a language model, and model.language_model names none.",
                hint=hint,
            )
        library = import_module("transformers")
        try:
            path = Path(folder).expanduser()
            return cls(
                library.AutoTokenizer.from_pretrained(
                    path, local_files_only=True, trust_remote_code=False
                ),
                columns,
                length,
            )
        except (OSError, ValueError, KeyError, ImportError) as error:
            first = str(error).strip().splitlines()[0]
            raise GelgtError(
                "no_tokenizer", f"{folder} holds no tokenizer: {first}", hint=hint
            ) from None

    def __call__(self, inputs: ModelInput, device: torch.device) -> tuple[Tensor, Tensor]:
        """Token numbers (B, W), 0 where a text has ended, and the lengths (B,) of the texts."""
        tokens = [
            self.tokenizer(text, truncation=True, max_length=self.length)["input_ids"]
            for text in self.texts(inputs)
        ]
        lengths = torch.tensor([len(numbers) for numbers in tokens])
        words = torch.zeros(len(tokens), max(1, int(lengths.max())), dtype=torch.int64)
        for place, numbers in enumerate(tokens):
            words[place, : len(numbers)] = torch.tensor(numbers, dtype=torch.int64)
        return words.to(device), lengths.to(device)

    def texts(self, inputs: ModelInput) -> list[str]:
        """The text of each seed's row."""
        batch, rows = inputs.batch.to_packed(), inputs.rows
        seeds = rows.inverse[batch.offsets[:-1]].tolist()  # distinct rows
        names = list(batch.graph.tables)
        tables = [names[number] for number in batch.table[batch.offsets[:-1]].tolist()]
        # the rows of a table lie together
        first = {name: int(places[0]) for name, places in rows.places.items()}
        return [
            f"{table}: {self.cells(table, rows.frames[table], seed - first[table])}"
            for table, seed in zip(tables, seeds)
        ]

    def cells(self, table: str, frame: TensorFrame, row: int) -> str:
        """One row's cells, separated by commas."""
        cells = []
        for kind in (stype.categorical, stype.timestamp, stype.numerical):
            for place, column in enumerate(frame.col_names_dict.get(kind, ())):
                text = (
                    self._cell(table, column, kind, frame.feat_dict[kind][row, place])
                    if column != CONSTANT
                    else ""
                )
                if text:
                    cells.append(f"{column} {text}")
        return ", ".join(cells)

    def _cell(self, table: str, column: str, kind: stype, value: Tensor) -> str:
        if kind == stype.numerical:
            return f"{float(value):.6g}" if torch.isfinite(value) else ""
        if kind == stype.timestamp:
            year, month, day = (int(part) for part in value[:3])
            return f"{year:04d}-{month + 1:02d}-{day + 1:02d}" if year > 0 else ""
        categories = self.columns[table].stats[column][StatType.COUNT][0]
        return str(categories[int(value)]) if 0 <= int(value) < len(categories) else ""
