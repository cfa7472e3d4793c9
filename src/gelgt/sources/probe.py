"""`schema.infer.Probe` over the staged files, by DuckDB; answers are cached."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from gelgt.sources.stage import StagedTable
from gelgt.sources.table_file import mapped_table

_SORTED_ROWS = 1 << 23  # 64 MiB of whole numbers, twice


class StagedTypes:
    """How staged columns are compared as keys."""

    def __init__(self, tables: Mapping[str, StagedTable]) -> None:
        self.tables = tables

    def value(self, table: str, column: str) -> str:
        """A column in the type in which keys are compared: whole numbers as BIGINT, the rest as it
        is."""
        stored = self.tables[table].columns[column].stored
        is_cast = self.key_type(table, column) != self.tables[table].types()[column]
        return f"CAST({stored} AS BIGINT)" if is_cast else stored

    def key_type(self, table: str, column: str) -> str:
        """The canonical type in which a column serves as a key."""
        kind, facts = self.tables[table].types()[column], self.tables[table].columns[column]
        return "int64" if kind == "float64" and facts.is_whole and not facts.non_finite else kind


class StagedProbe(StagedTypes):
    """Questions about staged columns."""

    def __init__(self, connection: Any, tables: Mapping[str, StagedTable]) -> None:
        super().__init__(tables)
        self.connection = connection
        self.rows = {name: mapped_table(table.path) for name, table in tables.items()}
        for name, rows in self.rows.items():
            connection.register(self.relation(name), rows)
        self.distinct = cache(self._distinct)
        self.median = cache(self._median)

    def relation(self, table: str) -> str:
        """The name of a staged table in DuckDB."""
        return f"staged{self.tables[table].path.stem}"

    def one(self, query: str) -> tuple[Any, ...]:
        return self.all(query)[0]

    def all(self, query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self.connection.execute(query).fetchall()]

    def is_unique(self, table: str, column: str) -> bool:
        return bool(self.distinct(table, column) == self.tables[table].rows)

    def is_free_of_repeats(self, table: str, column: str) -> bool:
        """Whether it is certain that no value occurs twice. Whole numbers are sorted in memory, a
        tenth of the work of grouping them; of other and of very long columns nothing is said."""
        staged = self.tables[table]
        if staged.columns[column].type != pa.int64() or staged.rows > _SORTED_ROWS:
            return False
        values = self.rows[table].column(staged.columns[column].stored).drop_null().to_numpy()
        values = np.sort(values)
        return bool(np.all(values[1:] != values[:-1]))

    def _distinct(self, table: str, column: str) -> int:
        count = f"count(DISTINCT {self.value(table, column)})"
        return int(self.one(f"SELECT {count} FROM {self.relation(table)}")[0])

    def contained(self, table: str, column: str, parent: str, key: str) -> int:
        child = f"SELECT DISTINCT {self.value(table, column)} AS v FROM {self.relation(table)}"
        keys = f"SELECT {self.value(parent, key)} FROM {self.relation(parent)}"
        return int(
            self.one(f"SELECT count(*) FROM ({child}) WHERE v IS NOT NULL AND v IN ({keys})")[0]
        )

    def key_density(self, table: str, column: str, parent: str, key: str) -> float:
        value, number = self.value(table, column), self.value(parent, key)
        ends = f"SELECT min({value}), max({value}) FROM {self.relation(table)}"
        least, most = self.one(ends)
        if least is None:
            return 1.0
        within = f"{number} BETWEEN {least} AND {most}"
        query = f"SELECT count(DISTINCT {number}) FROM {self.relation(parent)} WHERE {within}"
        return float(self.one(query)[0] / (most - least + 1))

    def repeats(self, table: str, column: str, other: str) -> float:
        value, same = self.value(table, column), self.value(table, other)
        query = f"SELECT count(*) FILTER ({value} = {same}), count({value})"
        equal, known = self.one(f"{query} FROM {self.relation(table)}")
        return equal / known if known else 0.0

    def rank_correlation(self, table: str, column: str, other: str) -> float:
        x, y = self.value(table, column), self.value(table, other)
        ranks = (
            f"SELECT rank() OVER (ORDER BY {x}) AS a, rank() OVER (ORDER BY {y}) AS b FROM "
            f"{self.relation(table)} WHERE {x} IS NOT NULL"
        )
        correlation = self.one(f"SELECT corr(a, b) FROM ({ranks})")[0]
        return float(correlation) if correlation is not None else 0.0

    def _median(self, table: str, column: str) -> float | None:
        value = f"epoch(quantile_disc({self.value(table, column)}, 0.5))"
        median = self.one(f"SELECT {value} FROM {self.relation(table)}")[0]
        return None if median is None else float(median)
