"""Category lists: counted over a stream, cut to size, and looked up.

Everything happens on the distinct values of one batch, never row by row in Python; a column with a
million different values costs memory for those values and nothing more.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.features.values import Column, category_names, check_nameable
from gelgt.schema.kinds import MAX_CATEGORIES

_COMPACT_AT = 1 << 20  # names that wait before equal ones are added up


class CategoryCounter:
    """Counts the categories of a column, batch by batch."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._pending: list[pa.Table] = []
        self._waiting = 0
        self._compact_at = _COMPACT_AT

    def add(self, values: pa.Array) -> None:
        check_nameable(values.type, self.column)
        counted = pc.value_counts(values.drop_null())
        names = category_names(counted.field("values"), self.column)
        self._pending.append(
            pa.table({"name": names.cast(pa.large_string()), "count": counted.field("counts")})
        )
        self._waiting += len(names)
        if self._waiting >= self._compact_at:
            self._compact()
            # Twice what is left: adding up costs a constant share of a pass, however many names
            # there are.
            self._compact_at = max(_COMPACT_AT, 2 * self._waiting)

    def _compact(self) -> pa.Table:
        table = pa.concat_tables(self._pending).group_by("name").aggregate([("count", "sum")])
        table = table.rename_columns(["name", "count"])
        self._pending, self._waiting = [table], len(table)
        return table

    def result(self) -> tuple[tuple[str, ...], tuple[int, ...], int]:
        """Names and counts by (count falling, name rising), and how many names were cut off."""
        if not self._pending:
            return (), (), 0
        table = self._compact()
        table = table.filter(pc.is_valid(table["name"]))
        order = [("count", "descending"), ("name", "ascending")]
        best = table.take(pc.select_k_unstable(table, MAX_CATEGORIES, order))
        names, counts = tuple(best["name"].to_pylist()), tuple(best["count"].to_pylist())
        return names, counts, len(table) - len(best)


class CategoryIndex:
    """Looks up the positions of values in a category list; -1 for missing and unseen ones."""

    def __init__(self, categories: tuple[str, ...], column: Column) -> None:
        self.column = column
        self._categories = pa.array(categories, pa.string())

    def lookup(self, values: pa.Array) -> tuple[NDArray[np.int32], int]:
        """Positions (n,), and how many values are not in the list."""
        check_nameable(values.type, self.column)
        coded = values.dictionary_encode()
        names = category_names(coded.dictionary, self.column)
        places = pc.index_in(names, value_set=self._categories, skip_nulls=True)
        places = pc.fill_null(places, -1).cast(pa.int32())
        codes = pc.fill_null(places.take(coded.indices), -1).to_numpy(zero_copy_only=False)
        named = pc.sum(pc.is_valid(names.take(coded.indices))).as_py() or 0
        return codes, int(named - np.count_nonzero(codes >= 0))
