"""The raw label rows of a task: (time, entity, target) for each split, from SQL or from a column.

Raw rows hold the target as the SQL gives it; `targets.py` turns it into labels. Rows that cannot be
labels are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from gelgt.errors import TaskError, some
from gelgt.tasks.engine import Engine, engine, find_column
from gelgt.tasks.sampling import key_codes, sample
from gelgt.tasks.split import Split, Times
from gelgt.tasks.sql_text import ROW_NUMBER, quote, time_literal
from gelgt.tasks.task import SPLITS, Definition
from gelgt.tasks.times import time_range, time_text
from gelgt.tasks.views import lists_until, rows_until

if TYPE_CHECKING:
    from gelgt.sources.database import Database

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")
_NUMBER = ("UBIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


@dataclass(frozen=True)
class Raw:
    """The label rows of one split before their target is interpreted.

    Attributes:
        rows: Columns time, entity, target, sorted by (time, entity).
        total: Number of rows before sampling.
        dropped: What was left out and why.
    """

    rows: pa.Table
    total: int
    dropped: Mapping[str, int] = field(default_factory=dict)


def forecast_rows(
    db: Database, task: Definition, split: Split, times: Mapping[str, Times], max_rows: int
) -> dict[str, Raw]:
    """Label rows from SQL; train and val see the rows up to the test time, test sees all."""
    assert task.sql is not None
    # RelBench drops the labels of rows that do not exist at the test time, in every split.
    bounds = label_bounds(db, task, split)
    raw = {}
    for until, names in ((split.test, ("train", "val")), (None, ("test",))):
        with engine(db, until) as run:
            for name in names:
                columns = run.run(task.sql, times[name], task.timedelta)
                most = max_rows if name == "train" else None
                raw[name] = collect_rows(db, run, task, columns, bounds, most)
    return raw


def autocomplete_rows(
    db: Database, task: Definition, split: Split, sql: str, max_rows: int
) -> dict[str, Raw]:
    """Label rows from a column: train up to the validation time, val up to the test time, test
    after it."""
    assert task.time_col is not None
    latest = time_range(db).latest
    if latest <= split.test:
        raise TaskError(
            "no_room",
            f"There is no row after the test time {time_text(split.test)}.",
            hint="Set an earlier test time.",
        )
    seeds = np.array([np.datetime64(latest, "us")])
    numbered = task.entity_table if db.table(task.entity_table).pkey is None else None
    val, test = time_literal(split.val), time_literal(split.test)
    raw = {}
    with engine(db, None, numbered) as run:
        columns = run.run(sql, seeds)
        time = quote(find_column(columns, task.time_col, "time"))
        parts = {
            "train": f"{time} <= {val}",
            "val": f"{time} > {val} AND {time} <= {test}",
            "test": f"{time} > {test}",
        }
        for name in SPLITS:
            most = max_rows if name == "train" else None
            raw[name] = collect_rows(db, run, task, columns, {}, most, parts[name])
    return raw


def autocomplete_sql(db: Database, table: str, target: str) -> str:
    """The SQL of an autocomplete task that is defined by its column alone."""
    schema = db.table(table)
    key = schema.pkey or ROW_NUMBER
    if schema.time_col is None:
        raise TaskError(
            "no_time",
            f"The table '{table}' has no time column, so its rows cannot be split.",
            hint=f"Name one in a --schema file: {table}: {{time_col: COLUMN}}.",
        )
    if target not in schema.columns or target in schema.key_columns:
        raise TaskError(
            "unknown_column",
            f"'{table}.{target}' is no column that could be predicted.",
            hint="Name a feature column.",
        )
    return f"SELECT {quote(schema.time_col)}, {quote(key)}, {quote(target)}\nFROM {quote(table)}"


def label_bounds(db: Database, task: Definition, split: Split) -> dict[str, str]:
    """Which rows labels may name, as SQL that `collect_rows` takes: those that exist at the test
    time."""
    bounds = {"entity": rows_until(db, task.entity_table, split.test)}
    if task.dst_entity_table is not None:
        bounds["target"] = lists_until(db, task.dst_entity_table, split.test)
    return bounds


def collect_rows(
    db: Database,
    run: Engine,
    task: Definition,
    columns: Mapping[str, str],
    bounds: Mapping[str, str],
    max_rows: int | None,
    part: str = "true",
) -> Raw:
    """The rows of the engine's last run that can be labels: with an entity that exists at the test
    time, a time and a target.

    Args:
        db: The database.
        run: The engine.
        task: The definition.
        columns: The columns of the result, and their types.
        bounds: For the entity, the condition of `rows_until`; for the target of a recommendation,
            the expression of `lists_until`.
        max_rows: More rows are sampled.
        part: A condition on the rows.
    """
    sql = _LabelSql(task, columns, bounds)
    is_usable = f"({part}) AND {sql.has_entity} AND {sql.exists} AND {sql.has_target}"
    total = run.count(is_usable)
    dropped = {
        "without an entity or a time": run.count(f"({part}) AND NOT ({sql.has_entity})"),
        "whose entity does not exist at the test time": run.count(
            f"({part}) AND {sql.has_entity} AND NOT ({sql.exists})"
        ),
        "without a target": run.count(
            f"({part}) AND {sql.has_entity} AND {sql.exists} "
            f"AND NOT coalesce({sql.has_target}, false)"
        ),
    }
    batches = run.batches(sql.expressions, is_usable)
    if max_rows is not None and total > max_rows:
        rows = sample(batches, sql.schema, key_codes(db, task.entity_table), total, max_rows)
    else:
        rows = pa.Table.from_batches(batches, schema=sql.schema)
    check_entities(rows, db, task)
    return Raw(sort_rows(rows), total, dropped)


class _LabelSql:
    """Conditions and expressions over the columns of a label query.

    Attributes:
        has_entity: Whether a row has an entity and a time.
        exists: Whether its entity exists at the test time.
        has_target: Whether it has a target.
        expressions: Time, entity and target in canonical types.
        schema: Of the rows that these give.
    """

    def __init__(
        self, task: Definition, columns: Mapping[str, str], bounds: Mapping[str, str]
    ) -> None:
        assert task.time_col is not None
        time = quote(find_column(columns, task.time_col, "time"))
        entity = quote(find_column(columns, task.entity_col, "entity"))
        label = find_column(columns, task.label_col, "target")
        _check_entity_type(columns, task.entity_col)
        target = _target_expression(label, columns[label], bounds.get("target"))
        arrow = pa.list_(pa.int64()) if "target" in bounds else _target_type(columns[label])
        self.has_entity = f"{entity} IS NOT NULL AND {time} IS NOT NULL"
        self.exists = bounds["entity"].format(row=entity) if "entity" in bounds else "true"
        self.has_target = f"{quote(label)} IS NOT NULL"
        if columns[label] in ("FLOAT", "DOUBLE"):
            self.has_target += f" AND isfinite({quote(label)})"
        if "target" in bounds:
            self.has_target = f"len({target}) > 0"
        self.expressions = {
            "time": f"CAST({time} AS TIMESTAMP)",
            "entity": f"CAST({entity} AS BIGINT)",
            "target": target,
        }
        self.schema = pa.schema(
            [("time", pa.timestamp("us")), ("entity", pa.int64()), ("target", arrow)]
        )


def sort_rows(rows: pa.Table) -> pa.Table:
    """RelBench's order: by time, then entity."""
    order = np.lexsort((rows.column("entity").to_numpy(), rows.column("time").to_numpy()))
    return rows.take(pa.array(order)).combine_chunks()


def _check_entity_type(columns: Mapping[str, str], name: str) -> None:
    type_ = columns[find_column(columns, name, "entity")]
    if not type_.startswith((*_WHOLE, *_NUMBER)):
        raise TaskError(
            "bad_entity",
            f"The entity column '{name}' of the label SQL is {type_}, not a row number.",
            hint="Return the key column.",
        )


def check_entities(rows: pa.Table, db: Database, task: Definition) -> None:
    """Every label must belong to a row of the entity table."""
    entities = rows.column("entity").to_numpy()
    bad = np.unique(entities[(entities < 0) | (entities >= db.num_rows(task.entity_table))])
    if len(bad):
        raise TaskError(
            "unknown_key",
            f"{len(bad):,} values of '{task.entity_col}' are no rows of '{task.entity_table}': "
            f"{some(bad.tolist())}.",
            hint=f"Labels must hold row numbers of '{task.entity_table}'.",
        )


def _target_expression(name: str, type_: str, lists: str | None) -> str:
    if lists is not None:
        return f"list_sort({lists.format(rows=quote(name))})::BIGINT[]"
    arrow = _target_type(type_)
    if pa.types.is_list(arrow):
        return f"{quote(name)}::DOUBLE[]"
    if pa.types.is_string(arrow):
        return f"CAST({quote(name)} AS VARCHAR)"
    types = {pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}
    return f"CAST({quote(name)} AS {types[arrow]})"


def _target_type(type_: str) -> pa.DataType:
    if type_.endswith("[]"):
        return pa.list_(pa.float64())
    if type_ == "BOOLEAN":
        return pa.bool_()
    if type_ in _WHOLE:
        return pa.int64()
    if type_.startswith(_NUMBER):
        return pa.float64()
    if type_ == "VARCHAR" or type_.startswith("ENUM"):
        return pa.string()
    raise TaskError(
        "bad_target",
        f"A target of the type {type_} cannot be predicted.",
        hint="Make it a number, a text, or true and false.",
    )


def split_notices(raw: Mapping[str, Raw]) -> list[str]:
    """How many rows were left out, and why."""
    notices = []
    for name in SPLITS:
        for reason, count in raw[name].dropped.items():
            if count:
                notices.append(f"{name}: {count:,} rows {reason} were left out")
        if raw[name].rows.num_rows < raw[name].total:
            notices.append(
                f"training rows sampled: {raw[name].rows.num_rows:,} of {raw[name].total:,}"
            )
    return notices
