"""What tells whether two processes, maybe on two machines, predict with the same model on the same
rows.

    model   the checksums of the files of a run that a prediction reads
    data    the values of every row and key that the model knows, in their order, and the schema

Neither depends on where the files lie, nor on the version of the library that wrote them. The rows
of a database are digested once on each machine: the result is kept in the cache, beside the graph.
"""

import hashlib

import pyarrow as pa

from gelgt.files import write_text
from gelgt.runs.folder import INTERVALS, REQUIRED, SUCCESS, Run, read_json
from gelgt.sources.cache import text_key
from gelgt.sources.database import Database
from gelgt.sources.digest import RowDigest

FORMAT = 1  # raise it when the digest of the same rows changes
KEPT = "fingerprint"  # name of the file in the cache of a database, with the format
DIGESTED = (pa.int64(), pa.string())  # types of keys that are digested as they are


def model_fingerprint(run: Run) -> str:
    """Of the files of a run that a prediction reads; its report and label tables do not matter."""
    files = read_json(run.folder / SUCCESS)["files"]
    return text_key("\n".join(f"{name} {files.get(name)}" for name in (*REQUIRED, INTERVALS)))


def data_fingerprint(db: Database) -> str:
    """Of the rows, keys and schema of a database; reads every row, the first time."""
    kept = db.cache_dir / f"{KEPT}.{FORMAT}"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    digest = hashlib.blake2b(repr(db.schema).encode(), digest_size=16)
    for table in db.table_names:
        digest.update(f"\0{table}\0{_rows(db, table)}\0{_keys(db, table)}".encode())
    write_text(kept, digest.hexdigest())
    return digest.hexdigest()


def _rows(db: Database, table: str) -> str:
    if not db.table(table).columns:
        return str(db.num_rows(table))
    with RowDigest() as digest:
        for batch in db.batches(table):
            digest.add(batch.columns)
    return str(digest.result())


def _keys(db: Database, table: str) -> str:
    keys = db.keys(table)
    if keys is None or not keys.num_rows:
        return "" if keys is None else repr(keys.column_names)
    with RowDigest() as digest:
        for batch in keys.to_batches():
            digest.add([_digestible(column) for column in batch.columns])
    return f"{keys.column_names} {digest.result()}"


def _digestible(values: pa.Array) -> pa.Array:
    if values.type in DIGESTED:
        return values
    texts = [None if value is None else repr(value) for value in values.to_pylist()]
    return pa.array(texts, pa.string())
