"""Which rows the row numbers in a task folder mean.

RelBench's label files name entities by their row numbers. When a source grows, or its rows are
sorted by another time, the same numbers mean other rows. So a saved task states what its labels
were made from, in its manifest and beside its label files:

    gelgt:
      labels:
        hash: 5f0c…                 # of the label values as written; other values are edits
        rows:
          customers: {count: 812, hash: 3f9a…}      # of the user's keys of the first 812 rows
        times: {orders: placed_at, lines: [order_id]}   # what dates the rows of each table

    tasks/NAME/gelgt/keys/customers.parquet     row number and user's key of every labelled row

`count` is one more than the highest row number in the labels: rows that were added after it change
no number below it, so a table that only grew at its end still has the numbering of the labels. The
rows of a table without a primary key are identified by all their columns. The labels of a sentence
depend on the times of rows: where the schema has other time columns by now, they answer another
question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gelgt.errors import TaskError, some
from gelgt.schema.model import TableSchema
from gelgt.sources.readable import read_parquet
from gelgt.sources.relbench_folder import is_relbench_folder
from gelgt.tasks.keys import row_numbers
from gelgt.tasks.labels import Raw, sort_rows
from gelgt.tasks.task import SPLITS, Definition

if TYPE_CHECKING:
    from gelgt.sources.database import Database

Rows = np.ndarray[Any, np.dtype[np.int64]]
KEYS = Path("gelgt") / "keys"


def describe(db: Database, task: Definition, labels: Mapping[str, pa.Table]) -> dict[str, Any]:
    """What is written under `gelgt: labels:` for label tables of (time, entity, target)."""
    rows = {}
    for table, numbers in labelled_rows(task, labels).items():
        count = int(numbers.max()) + 1 if len(numbers) else 0
        rows[table] = {"count": count, "hash": _key_hash(db, table, count)}
    return {"hash": label_hash(labels), "rows": rows, "times": _times(db)}


def write_keys(
    db: Database, task: Definition, labels: Mapping[str, pa.Table], folder: Path
) -> None:
    """Write the user's keys of all labelled rows, where the table has a key."""
    for table, numbers in labelled_rows(task, labels).items():
        if db.table(table).pkey is None:
            continue
        (folder / KEYS).mkdir(parents=True, exist_ok=True)
        parts = _user_keys(db.keys(table), numbers)
        # Named by their position: a key column may be called anything, "row" too.
        names = ["row", *(f"key{i}" for i in range(len(parts)))]
        pq.write_table(pa.table([pa.array(numbers), *parts], names), _key_file(folder, table))


def labelled_rows(task: Definition, labels: Mapping[str, pa.Table]) -> dict[str, Rows]:
    """The distinct row numbers in some label tables, by table."""
    numbers = {task.entity_table: [labels[split].column("entity") for split in SPLITS]}
    if task.dst_entity_table is not None:
        lists = [pc.list_flatten(labels[split].column("target")) for split in SPLITS]
        numbers.setdefault(task.dst_entity_table, []).extend(lists)
    return {
        table: np.unique(np.concatenate([c.to_numpy() for c in columns])).astype(np.int64)
        for table, columns in numbers.items()
    }


def label_hash(labels: Mapping[str, pa.Table]) -> str:
    """A hash of label values; file format and chunks do not enter it."""
    digest = hashlib.blake2b(digest_size=16)
    for split in SPLITS:
        for name in ("time", "entity", "target"):
            _add(digest, labels[split].column(name))
    return digest.hexdigest()


def is_same_numbering(db: Database, rows: Mapping[str, Any]) -> bool:
    """Whether the row numbers of a saved task mean the same rows in a database."""
    try:
        saved = {str(table): (int(entry["count"]), entry["hash"]) for table, entry in rows.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        raise TaskError(
            "bad_manifest",
            "'gelgt: labels: rows:' of the task's manifest must give a count and a hash for each "
            f"table, got {rows!r}.",
            hint="Make the task again.",
        ) from None
    return all(
        count <= db.num_rows(db.table(table).name) and _key_hash(db, table, count) == digest
        for table, (count, digest) in saved.items()
    )


def retimed(db: Database, task: Definition, times: Any) -> list[str]:
    """The tables whose rows have other times now than when the labels of a sentence were saved."""
    if task.sentence is None or task.kind != "forecast" or not isinstance(times, Mapping):
        return []
    today = _times(db)
    return [table for table in db.table_names if table in times and times[table] != today[table]]


def _times(db: Database) -> dict[str, Any]:
    """By table: its time column, else the keys that date its rows."""
    tables = db.schema.tables.values()
    return {
        table.name: table.time_col or [fk.column for fk in table.dating_keys] or _rule(table)
        for table in tables
    }


def _rule(table: TableSchema) -> list[str]:
    """What says since when rows exist that no key of theirs dates."""
    return [table.dating.rule] if table.is_dated and table.dating is not None else []


def database_of(folder: Path) -> Path | None:
    """The RelBench folder that a task folder lies in; its rows have the numbers of the labels."""
    root = folder.resolve().parent.parent
    return root if folder.resolve().parent.name == "tasks" and is_relbench_folder(root) else None


def renumbered(
    db: Database, task: Definition, raw: Mapping[str, Raw], folder: Path
) -> dict[str, Raw]:
    """Labels with the row numbers of a database, matched by the keys of the rows that they were
    made for.

    Raises:
        TaskError: ``labels_of_other_rows`` where the keys are not stored, ``unknown_key`` where
            rows are gone.
    """
    numbers = labelled_rows(task, {split: raw[split].rows for split in SPLITS})
    new_numbers = {
        table: (old, _current_rows(db, task, table, old, folder)) for table, old in numbers.items()
    }
    moved = {}
    for split in SPLITS:
        rows = raw[split].rows
        entities = _moved(rows.column("entity").to_numpy(), *new_numbers[task.entity_table])
        rows = rows.set_column(1, "entity", pa.array(entities))
        if task.dst_entity_table is not None:
            lists = rows.column("target").to_pylist()
            flat = np.array([x for values in lists for x in values], np.int64)
            items = iter(_moved(flat, *new_numbers[task.dst_entity_table]).tolist())
            targets = [sorted(next(items) for _ in values) for values in lists]
            rows = rows.set_column(2, "target", pa.array(targets, pa.list_(pa.int64())))
        moved[split] = replace(raw[split], rows=sort_rows(rows))
    return moved


def _moved(values: Rows, before: Rows, after: Rows) -> Rows:
    return after[np.searchsorted(before, values)]


def _current_rows(db: Database, task: Definition, table: str, numbers: Rows, folder: Path) -> Rows:
    keys = _stored_keys(folder, table, numbers) if db.table(table).pkey is not None else None
    if keys is None:
        raise TaskError(
            "labels_of_other_rows",
            f"The labels of '{task.name}' name rows of '{table}' by their numbers, and the rows "
            "have other numbers now.",
            hint="Make the task again, or open the data that it was made from.",
        )
    try:
        return row_numbers(db, table, keys)
    except TaskError as error:
        raise TaskError(
            error.code,
            f"The labels of '{task.name}' are about rows that are gone: {error.message}",
            hint="Make the task again, or take these rows out of its label files.",
        ) from None


def _stored_keys(folder: Path, table: str, numbers: Rows) -> list[pa.ChunkedArray] | None:
    """The keys of some rows as the task folder stores them, else as the database folder around it
    does; None where neither does."""
    path, root = _key_file(folder, table), database_of(folder)
    if path.is_file():
        stored = read_parquet(path, "Make the task again.", TaskError)
        places = pc.index_in(pa.array(numbers), value_set=stored.column("row").combine_chunks())
        if places.null_count:
            missing = numbers[pc.is_null(places).to_numpy(zero_copy_only=False)].tolist()
            raise TaskError(
                "labels_of_other_rows",
                f"{folder.name}/{path.name} has no key for {len(missing):,} rows of '{table}' "
                f"that the label files name: {some(missing)}.",
                hint="Take these labels out of the files, or make the task again from a frame "
                "with the keys of your table.",
            )
        return [stored.column(i).take(places) for i in range(1, stored.num_columns)]
    if root is None:
        return None
    keys = root / KEYS / f"{table}.parquet"
    return _user_keys(read_parquet(keys) if keys.is_file() else None, numbers)


def _user_keys(keys: pa.Table | None, numbers: Rows) -> list[pa.ChunkedArray]:
    """The user's keys of some rows; the numbers themselves where they are the keys."""
    if keys is None:
        return [pa.chunked_array([pa.array(numbers)])]
    return [column.take(pa.array(numbers)) for column in keys.columns]


def _key_file(folder: Path, table: str) -> Path:
    return folder / KEYS / f"{table}.parquet"


def _key_hash(db: Database, table: str, count: int) -> str:
    """A hash of the keys of the first `count` rows, or of all their columns where there is no
    key."""
    digest = hashlib.blake2b(f"{count}".encode(), digest_size=16)
    schema, keys = db.table(table), db.keys(table)
    if keys is None and schema.pkey is not None:
        _add(digest, pa.chunked_array([pa.array(np.arange(count))]))
    else:
        columns = list(schema.columns) if keys is None else keys.column_names
        for name in columns:
            values = db.read(table, [name]).column(0) if keys is None else keys.column(name)
            _add(digest, values.slice(0, count))
    return digest.hexdigest()


def _add(digest: hashlib.blake2b, values: pa.ChunkedArray) -> None:
    """Add the values of a column to a hash, whatever their chunks."""
    kind, has_nulls = values.type, values.null_count > 0
    if not has_nulls and (
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_timestamp(kind)
    ):
        plain = values.cast(pa.int64()) if pa.types.is_timestamp(kind) else values
        digest.update(np.ascontiguousarray(plain.to_numpy()).tobytes())
        return
    for value in values.to_pylist():
        text = repr(value).encode()
        digest.update(len(text).to_bytes(8, "little") + text)
