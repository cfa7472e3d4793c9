"""Sentences: random PREDICT sentences against a slow reference in plain Python, labels and
populations; and mutated ones, which are understood or refused with a GelgtError.

Most of a query over rows as few as these is opening files and making tables. So one of the
databases is read as gelgt reads any, and the others have the rows of their views in memory, where
the two queries of a sentence are one statement.
"""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

import gelgt
from campaigns.frame import Campaign
from campaigns.grammar import Grammar, mutate
from campaigns.reference import Reference
from campaigns.shop_rows import KEYS, START, Rows, random_rows
from campaigns.world import cached_in
from gelgt.errors import GelgtError
from gelgt.tasks.engine import Engine, engine
from gelgt.tasks.predict import label_sql, parse, plan_sentence, population_sql
from gelgt.tasks.split import Split
from gelgt.tasks.sql_text import quote

DATABASES = 5  # of which the first is read from its files
TIMES = [START + timedelta(days=d) for d in (0, 17, 30, 45)]
VAL, TEST, LATEST = (START + timedelta(days=d) for d in (20, 40, 75))
SPLIT = Split(VAL, TEST)
NAMES = ("timestamp", "entity", "target")


@dataclass(frozen=True)
class Opened:
    """Rows, the same as a database with its keys in the order of the rows, and an engine.

    Attributes:
        is_in_memory: Whether the engine has copied what its views show.
    """

    rows: Rows
    db: gelgt.Database
    context: Any  # of the engine, which ends with it
    engine: Engine
    keys: dict[str, list[Any]]
    is_in_memory: bool


def prepare(folder: Path) -> list[Opened]:
    opened = []
    with cached_in(folder / "cache"):
        for number in range(DATABASES):
            rows = random_rows(np.random.default_rng([7, number]))
            # what is inferred is tried by the campaigns messy and future
            schema = {name: entry | {"event_dates": {}} for name, entry in rows.schema().items()}
            schema["items"]["dated_by"] = "order"
            db = gelgt.open(rows.frames(), schema=schema)
            run = engine(db)
            keys = {table: _keys(db, table) for table in rows.tables}
            opened.append(Opened(rows, db, run, run.__enter__(), keys, number > 0))
            if number > 0:
                _copy_views(opened[-1])
    return opened


def _copy_views(opened: Opened) -> None:
    """Tables that stand before the views of the same names."""
    for name in opened.db.table_names:
        copy = f"CREATE TEMP TABLE {quote(name)} AS SELECT * FROM main.{quote(name)}"
        opened.engine._con.execute(copy)


def _keys(db: gelgt.Database, table: str) -> list[Any]:
    keys = db.keys(table)
    if keys is not None:
        return keys.column(KEYS[table]).to_pylist()
    return list(range(db.num_rows(table)))


def case(world: list[Opened], number: int, random: np.random.Generator) -> str:
    opened = world[int(random.integers(len(world)))]
    grammar = Grammar(random, opened.keys)
    text, target, where = grammar.sentence()
    if random.random() < 0.35:
        return _mutated(opened, mutate(text, random))
    plan = plan_sentence(opened.db, parse(text))
    keys = opened.keys[grammar.entity]
    time = TIMES[int(random.integers(len(TIMES)))]
    labels, population = (_at_once if opened.is_in_memory else _one_by_one)(opened, plan)
    found = {(at, keys[entity]): value for at, entity, value in labels if value is not None}
    reference = Reference(opened.rows, grammar.entity, target, where)
    _same(found, reference.labels(TIMES, _end), text)
    eligible = {keys[entity] for at, entity in population if at == time}
    assert eligible == reference.population(time), f"another population of: {text}"
    return "labels found" if found else "no labels"


Found = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]  # labels and populations


def _one_by_one(opened: Opened, plan: Any) -> Found:
    times, run = np.array(TIMES, "datetime64[us]"), opened.engine
    run.run(label_sql(plan, NAMES, SPLIT, LATEST), times, timedelta(days=7))
    labels = _rows(run, NAMES)
    run.run(population_sql(plan), times)
    return labels, _rows(run, NAMES[:2])


def _at_once(opened: Opened, plan: Any) -> Found:
    times, run = np.array(TIMES, "datetime64[us]"), opened.engine
    columns = ", ".join(NAMES)
    sql = f"""SELECT {columns}, true AS is_label FROM ({label_sql(plan, NAMES, SPLIT, LATEST)}
    ) UNION ALL SELECT timestamp, entity, NULL, false FROM ({population_sql(plan)}
    )"""
    run.run(sql, times, timedelta(days=7))
    rows = _rows(run, (*NAMES, "is_label"))
    return [row[:3] for row in rows if row[3]], [row[:2] for row in rows if not row[3]]


def _end(time: datetime) -> datetime:
    return VAL if time < VAL else TEST if time < TEST else LATEST


def _rows(run: Engine, names: tuple[str, ...]) -> list[tuple[Any, ...]]:
    batches = list(run.batches({name: f'"{name}"' for name in names}, "true"))
    return [row for batch in batches for row in zip(*(c.to_pylist() for c in batch.columns))]


def _same(found: dict[Any, Any], expected: dict[Any, Any], text: str) -> None:
    assert found.keys() == expected.keys(), f"labels of other entities: {text}"
    for key, value in expected.items():
        other = found[key]
        is_same = (
            math.isclose(float(other), float(value), rel_tol=1e-12, abs_tol=1e-12)
            if isinstance(value, (int, float))
            else other == value
        )
        assert is_same, f"{key} is {other!r}, not {value!r}: {text}"


def _mutated(opened: Opened, text: str) -> str:
    try:
        plan = plan_sentence(opened.db, parse(text))
        times = np.array(TIMES[:2], "datetime64[us]")
        opened.engine.run(label_sql(plan, NAMES, SPLIT, LATEST), times, timedelta(days=7))
        opened.engine.run(population_sql(plan), times)
    except GelgtError:
        return "mutated: refused"
    return "mutated: understood"


CAMPAIGN = Campaign("sentences", prepare, case, long=100_000, short=80)
