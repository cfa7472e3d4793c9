"""`Features`: the encoded rows of one database, memory-mapped, sliced into TensorFrames."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gelgt.errors import SchemaError, did_you_mean
from gelgt.features.statistics import (
    FORMAT,
    ColumnStatistics,
    FeatureStatistics,
    statistics_key,
)
from gelgt.features.versions import Versions
from gelgt.graph.arrays import hash_arrays, load_array
from gelgt.schema.model import Finding
from gelgt.sources.seal import is_whole

if TYPE_CHECKING:
    from torch_frame import TensorFrame
    from torch_frame.data.stats import StatType


class Features:
    """Row features of every table, opened from the folder that `open_features` filled.

    Attributes:
        statistics: What the rows were encoded with; a model stores them.
        rows: Number of rows of each table.
        findings: Values that could not be read and count as missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        meta = json.loads((self.folder / "features.json").read_text(encoding="utf-8"))
        self.rows: dict[str, int] = meta["rows"]
        self.findings = [Finding(**entry) for entry in meta["findings"]]

    def __repr__(self) -> str:
        columns = sum(map(len, self.statistics.tables.values()))
        until = self.statistics.fit_until or "the end"
        return (
            f"Features({len(self.rows)} tables, {sum(self.rows.values()):,} rows, {columns} "
            f"columns, fitted until {until})"
        )

    def __reduce__(self) -> tuple[type["Features"], tuple[Path]]:
        return Features, (self.folder,)  # a worker process maps the same files

    @cached_property
    def statistics(self) -> FeatureStatistics:
        return FeatureStatistics.load(self.folder / "stats.json")

    @property
    def tables(self) -> list[str]:
        return list(self.rows)

    def columns(self, table: str, hide: Collection[str] = ()) -> Mapping[str, ColumnStatistics]:
        """The feature columns of a table with their statistics, in order, without the hidden
        ones."""
        if table not in self.rows:
            raise SchemaError(
                "unknown_table",
                f"There are no features of a table '{table}'.",
                hint=did_you_mean(table, self.tables),
            )
        return {name: s for name, s in self.statistics.tables[table].items() if name not in hide}

    def arrays(self, table: str) -> Mapping[str, NDArray[Any]]:
        """The arrays of a table by file name; see `features/encode.py` for their layout."""
        self.columns(table)
        return self._arrays[table]

    def versions(self, table: str) -> Versions | None:
        """What rows of a table held before the dates in them; None where no row has such a date."""
        return self._versions[table]

    @cached_property
    def _versions(self) -> dict[str, Versions | None]:
        return {table: Versions.of(arrays) for table, arrays in self._arrays.items()}

    def size(self, table: str) -> int:
        """Rows of a table and their versions."""
        versions = self.versions(table)
        return self.rows[table] + (0 if versions is None else len(versions.row))

    def rows_at(
        self, table: str, rows: NDArray[Any], limits: NDArray[np.int64] | int
    ) -> NDArray[Any]:
        """(n,) what is read of some rows by seeds that may see nothing from their limits on: the
        rows, or versions of them (`features/versions.py`)."""
        versions = self.versions(table)
        return rows if versions is None else versions.at(rows, limits)

    @cached_property
    def _arrays(self) -> dict[str, dict[str, NDArray[Any]]]:
        folders = {
            name: self.folder / "tables" / str(number) for number, name in enumerate(self.rows)
        }
        return {
            name: {path.stem: load_array(path) for path in sorted(folder.glob("*.npy"))}
            for name, folder in folders.items()
        }

    def frame(
        self, table: str, rows: Sequence[int] | NDArray[np.int64], hide: Collection[str] = ()
    ) -> "TensorFrame":
        """The features of some rows or versions of rows, in the order given; a row may be named
        several times.

        Args:
            table: The table.
            rows: Row numbers (n,).
            hide: Columns to leave out, such as the target of an autocomplete task. Names that are
                no features are fine.

        Returns:
            A `torch_frame.TensorFrame`; a table without any feature gets one constant number,
            `__const__`.
        """
        from gelgt.features.frames import tensor_frame

        places = np.asarray(rows, np.int64)
        size = self.size(table) if table in self.rows else 0
        if len(places) and (places.min() < 0 or places.max() >= size):
            raise IndexError(f"'{table}' has rows 0…{size - 1}, not {places.min()}…{places.max()}")
        return tensor_frame(self, table, places, hide)

    def col_stats(self, table: str, hide: Collection[str] = ()) -> "dict[str, dict[StatType, Any]]":
        """Statistics of the columns of `frame`, as PyTorch Frame's encoders want them."""
        from gelgt.features.frames import col_stats

        return col_stats(self.columns(table, hide))

    def content_hash(self) -> str:
        """A hash of arrays and statistics, wherever they lie: equal for equal databases, whatever
        their source."""

        def all_arrays() -> Iterator[tuple[str, NDArray[Any]]]:
            for number, arrays in enumerate(self._arrays.values()):
                for name, array in arrays.items():
                    yield f"{number}/{name}", array

        return hash_arrays(json.dumps(self.rows) + self.statistics.to_json(), all_arrays())


def find_features(cache: Path, statistics: FeatureStatistics) -> Path | None:
    """The features in the cache folder of a database that were encoded with some statistics,
    whatever their name: a model that was trained there finds those of its training."""
    key = statistics.key()
    for folder in sorted(cache.glob(f"features-v{FORMAT}-*")):
        path = folder / "stats.json"
        with suppress(OSError):  # removed in this moment, or not for us to read
            if path.is_file() and statistics_key(path.read_bytes()) == key and is_whole(folder):
                return folder
    return None
