"""Entities by the beginning of their key, or by a text in their row."""

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gelgt.scoring.table import key_table
from gelgt.sources.database import Database
from gelgt.tasks.keys import key_names
from gelgt.tasks.task import Definition

COLUMNS = 16  # columns of the entity table that are searched, and shown beside a key
FEW = 24  # values of a column that one can choose by


class Entities:
    """The rows of the entity table, to be looked for.

    Columns that the task hides are neither searched nor shown.
    """

    def __init__(self, db: Database, task: Definition) -> None:
        self.db, self.task, self.table = db, task, task.entity_table

    @cached_property
    def _keys(self) -> pa.ChunkedArray:
        """(rows,) keys as text, lower case; their parts separated by a blank."""
        keys = key_table(self.db, self.table, np.arange(self.db.num_rows(self.table)))
        texts = [pc.cast(column, pa.string()) for column in keys.columns]
        joined = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, " ")
        return pc.utf8_lower(joined)

    @cached_property
    def _texts(self) -> dict[str, pa.ChunkedArray]:
        names = text_columns(self.db, self.task)
        table = self.db.read(self.table, names) if names else pa.table({})
        return {name: pc.utf8_lower(pc.fill_null(table.column(name), "")) for name in names}

    def find(self, text: str, limit: int) -> list[dict[str, Any]]:
        """Up to so many entities: first those whose key is or begins with the text, then those
        with the text in one of their columns; without a text the first ones."""
        wanted = text.strip().lower()
        if not wanted:
            rows = np.arange(min(limit, self.db.num_rows(self.table)))
            return self._shown(rows)
        exact = _rows(pc.equal(self._keys, wanted))
        begins = _rows(pc.starts_with(self._keys, pattern=wanted))
        found = list(dict.fromkeys([*exact[:limit], *begins[:limit]]))
        # of a key with several parts, any of them may be known
        parts = [self._keys] if len(key_names(self.db, self.table)) > 1 else []
        for column in (*parts, *self._texts.values()):
            if len(found) >= limit:
                break
            inside = _rows(pc.match_substring(column, pattern=wanted))[: 2 * limit]
            found = list(dict.fromkeys([*found, *inside]))
        return self._shown(np.asarray(found[:limit], np.int64))

    def _shown(self, rows: Any) -> list[dict[str, Any]]:
        keys = key_table(self.db, self.table, rows).to_pylist()
        names = text_columns(self.db, self.task)
        texts: list[dict[str, Any]] = [{} for _ in keys]
        if names and len(rows):
            texts = self.db.read(self.table, names).take(pa.array(rows)).to_pylist()
        plain = (next(iter(k.values())) if len(k) == 1 else list(k.values()) for k in keys)
        return [
            {"key": key, "about": {n: _short(v) for n, v in row.items() if v is not None}}
            for key, row in zip(plain, texts)
        ]


def text_columns(db: Database, task: Definition) -> list[str]:
    """Columns of the entity table that hold texts, without those that the task hides."""
    return [
        n for n in _shown_columns(db, task) if db.table(task.entity_table).columns[n] == "string"
    ]


def few_values(db: Database, task: Definition) -> dict[str, list[str]]:
    """Categories of the entity table that have a few values, with these as text."""
    kinds, found = db.table(task.entity_table).kinds, {}
    for name in _shown_columns(db, task):
        if name in kinds and kinds[name].kind == "categorical":
            values = pc.unique(column_texts(db, task.entity_table, name)).drop_null()
            if 1 < len(values) <= FEW:
                found[name] = sorted(values.to_pylist())
    return found


def column_texts(db: Database, table: str, name: str) -> pa.ChunkedArray:
    """(rows,) the values of a column as texts, null where there are none."""
    return pc.cast(db.read(table, [name]).column(0), pa.string())


def _shown_columns(db: Database, task: Definition) -> list[str]:
    table = db.table(task.entity_table)
    hidden = {column for owner, column in task.remove_columns if owner == task.entity_table}
    keys = table.key_columns | set(table.primary_key.columns if table.primary_key else ())
    return [n for n in table.columns if n not in hidden | keys][:COLUMNS]


def _rows(mask: pa.ChunkedArray) -> list[int]:
    return [int(row) for row in np.flatnonzero(pc.fill_null(mask, False).to_numpy())]


def _short(value: Any, most: int = 80) -> str:
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"
