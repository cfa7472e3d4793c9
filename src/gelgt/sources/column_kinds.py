"""Column kinds that are not stated, inferred from the rows that exist up to a time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from gelgt.schema.kinds import infer_kind, sample_batches
from gelgt.schema.model import ColumnKind, DatabaseSchema
from gelgt.sources.canonical import ARROW_TYPES
from gelgt.sources.database import Database
from gelgt.sources.row_times import RowTimes, instant

# How the evidence of a column begins that is ignored because of what it tells of the future
# (event_dates.py), at whatever time kinds are inferred.
HIDDEN = "tells whether", "overwritten", "written along with", "stands"
TELLS, OVERWRITTEN, ALONG, PLACEHOLDER = HIDDEN


def inferred_kinds(
    db: Database, table: str, columns: Sequence[str], until: Any, times: RowTimes | None = None
) -> dict[str, ColumnKind]:
    """The kinds of some columns, from rows up to a time (all rows of a table without times, or
    where `until` is None)."""
    schema = db.table(table)
    visible = None
    if until is not None and schema.has_time and not schema.is_left_out:
        visible = (times or RowTimes(db)).of(table) <= instant(until)
    total = db.num_rows(table) if visible is None else int(np.count_nonzero(visible))
    sample = sample_batches(_visible(db.batches(table, list(columns)), visible), total)
    return {c: infer_kind(c, sample.column(c, ARROW_TYPES[schema.columns[c]])) for c in columns}


def with_kinds_until(db: Database, until: Any) -> Database:
    """The database with kinds inferred from rows up to a time, for a task whose validation time is
    earlier than the database's.

    Stated kinds stay. Where nothing changes, the same object is returned.
    """
    if until is None or (db.val_timestamp is not None and db.val_timestamp <= until):
        return db
    times, tables = RowTimes(db), {}
    for name, table in db.schema.tables.items():
        columns = [
            c
            for c, kind in table.kinds.items()
            if kind.origin == "inferred" and not kind.evidence.startswith(HIDDEN)
        ]
        kinds = inferred_kinds(db, name, columns, until, times)
        changed = {
            c: kind
            for c, kind in kinds.items()
            if (kind.kind, kind.separator) != (table.kinds[c].kind, table.kinds[c].separator)
        }
        tables[name] = replace(table, kinds={**table.kinds, **changed})
    schema: DatabaseSchema = replace(db.schema, tables=tables)
    if schema == db.schema:
        return db
    view = Database(db.folder, schema, db.source, db.import_findings)
    view.follows_contract = db.follows_contract
    return view


def _visible(
    batches: Iterator[pa.RecordBatch], visible: "np.ndarray[Any, np.dtype[np.bool_]] | None"
) -> Iterator[pa.RecordBatch]:
    start = 0
    for batch in batches:
        chosen = None if visible is None else visible[start : start + batch.num_rows]
        yield batch if chosen is None or chosen.all() else batch.filter(pa.array(chosen))
        start += batch.num_rows
