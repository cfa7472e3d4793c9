"""The schema and tasks of a RelBench database: `NAME.yaml` beside this file, read into `Facts`.

    val_timestamp, test_timestamp      the split times
    period: [first, last]              the time that rows are spread over
    tables:
      orders:
        pkey, time_col, fkeys          as in a manifest of RelBench
        columns: {name: kind}          kinds of PyTorch Frame, and `id` for keys and other
                                       identifiers
        generate:                      how the twin's rows are generated; the schema ends here
          rows: 500
          time_from: race_id           the time is that of this parent (else drawn); `delayed`: at
                                       the parent's end; `time_shift`: days
          even: true                   all parents of `time_from` have equally many rows
          delay: 600                   the median days from a row's time to its end
          days, early, since           whole days; spread evenly over the period; no row before a
                                       date
          null_times: 0.05             share of rows without a time; `strays`: two rows far outside
                                       the period
          null_keys: {parent_id: 0.1}  shares of null references
          future_keys: [event]         references that may point at a row of a later time
          copied_keys: {a_id: b_id}    the parent's own reference
          only_keys: {parent_id: {type: 2}}    a reference to the same table, from rows with this
                                               value to earlier rows without it
          unique: [a_id, b_id]         at most one row for each pair
          values: {column: …}          what `values.py` reads
    tasks:
      churn: …                         the keys of RelBench's task manifest; `entity_table` is the
                                       source of a recommendation

The schemas, split times and label rules are those of RelBench 2.x. What is under `generate`, and
all SQL, was written for the twins.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError, did_you_mean
from gelgt.schema.manifest import load_yaml

FOLDER = Path(__file__).parent
TWINS: tuple[str, ...] = tuple(sorted(path.stem for path in FOLDER.glob("rel-*.yaml")))


@dataclass(frozen=True)
class TableFacts:
    """A table: its keys, its time and the kinds of its columns, and how its rows are generated."""

    name: str
    pkey: str | None
    time_col: str | None
    fkeys: Mapping[str, str]
    columns: Mapping[str, str]
    generate: Mapping[str, Any]

    def value(self, column: str) -> Mapping[str, Any]:
        """How the values of a column are generated; ``c_*`` stands for columns that begin so."""
        specs: Mapping[str, Mapping[str, Any]] = self.generate.get("values") or {}
        by_prefix = (
            spec
            for name, spec in specs.items()
            if name.endswith("*") and column.startswith(name[:-1])
        )
        return specs[column] if column in specs else next(by_prefix, {})


@dataclass(frozen=True)
class Facts:
    """A database and its tasks."""

    name: str
    val_timestamp: str
    test_timestamp: str
    period: tuple[str, str]
    tables: Mapping[str, TableFacts]
    tasks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def in_order(self) -> list[TableFacts]:
        """Every table after those that it refers to, other than itself."""
        done: dict[str, TableFacts] = {}
        while len(done) < len(self.tables):
            ready = [
                t
                for t in self.tables.values()
                if t.name not in done and set(t.fkeys.values()) - {t.name} <= set(done)
            ]
            done |= {table.name: table for table in ready}
        return list(done.values())


@cache
def read_facts(name: str) -> Facts:
    """The facts of one of `TWINS`.

    Raises:
        GelgtError: there is no such twin.
    """
    if name not in TWINS:
        raise GelgtError(
            "unknown_twin",
            f"There is no twin of a database '{name}'.",
            hint=did_you_mean(name, TWINS),
        )
    content = load_yaml(FOLDER / f"{name}.yaml")
    tables = {table: TableFacts(table, **spec) for table, spec in content["tables"].items()}
    return Facts(
        name,
        content["val_timestamp"],
        content["test_timestamp"],
        tuple(content["period"]),
        tables,
        content["tasks"],
    )
