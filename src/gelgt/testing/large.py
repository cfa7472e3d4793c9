"""A generated database of millions of rows as a Parquet folder, for benchmarks.

    table      share    time  refers to                     keys
    places     0.05 %   no    –                             int64
    accounts   10 %     yes   places                        int64
    items      4.95 %   no    places                        string
    sessions   22 %     yes   accounts, places              int64
    events     46 %     yes   accounts, items               int64
    reviews    17 %     yes   accounts, items, sessions     int64

That is two foreign keys a row. Parents are drawn from a power law: of 14 million rows about a
million refer to one place. Keys are scattered over 2³¹ values, rows come in random order, 0.8 % of
the foreign keys are null and 0.2 % dangle. Each table has the same eight feature columns, or those
of them that are asked for. Rows are written in chunks, so memory stays small.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gelgt.files import whole_file

if TYPE_CHECKING:
    import pyarrow as pa

Ints = npt.NDArray[np.int64]

CHUNK_ROWS = 500_000
_PRIME = 2**31 - 1
_MULTIPLIER = 1_103_515_245
_NULL, _DANGLING = 0.008, 0.002
_YEARS = 5 * 365 * 86_400
_EPOCH = 1_577_836_800  # 2020-01-01 in seconds
_STATUSES = ("new", "open", "paid", "shipped", "returned", "closed", "held", "void")
_TAGS = 5_000
_WORDS = 2_000


@dataclass(frozen=True)
class _Table:
    name: str
    share: float
    has_time: bool
    parents: tuple[str, ...] = ()
    has_text_keys: bool = False


_TABLES = (
    _Table("places", 0.0005, has_time=False),
    _Table("accounts", 0.10, has_time=True, parents=("places",)),
    _Table("items", 0.0495, has_time=False, parents=("places",), has_text_keys=True),
    _Table("sessions", 0.22, has_time=True, parents=("accounts", "places")),
    _Table("events", 0.46, has_time=True, parents=("accounts", "items")),
    _Table("reviews", 0.17, has_time=True, parents=("accounts", "items", "sessions")),
)
# u ** skew of a uniform u picks the parent: the larger, the more rows share the first one.
_SKEW = {"places": 6.0, "accounts": 2.0, "items": 3.0, "sessions": 1.0}


def large(
    folder: str | Path,
    rows: int = 14_000_000,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    in_parts: bool = False,
) -> dict[str, dict[str, Any]]:
    """Write the database, one Parquet file for each table.

    Args:
        folder: Where the files go; created if missing.
        rows: Number of rows over all tables, at least 1,000.
        seed: The same seed, size and columns give the same rows.
        columns: The feature columns to write; all eight by default.
        in_parts: Whether each table is a folder of files, to which `add_rows` adds one.

    Returns:
        Keys and times of each table, as `gelgt.open(folder, schema=…)` takes them.
    """
    import pyarrow.parquet as pq

    sizes = table_sizes(rows)
    for number, table in enumerate(_TABLES):
        writer = None
        path = Path(folder) / (f"{table.name}/0.parquet" if in_parts else f"{table.name}.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as temporary:
            for chunk, start in enumerate(range(0, sizes[table.name], CHUNK_ROWS)):
                # A generator for each chunk: the rows do not depend on what was drawn before.
                rng = np.random.default_rng([seed, number, chunk])
                stop = min(start + CHUNK_ROWS, sizes[table.name])
                part = _chunk(table, np.arange(start, stop), sizes, rng, columns or tuple(_VALUES))
                writer = writer or pq.ParquetWriter(temporary, part.schema, compression="zstd")
                writer.write_table(part)
            assert writer is not None
            writer.close()
    return schema()


def add_rows(
    folder: str | Path, rows: int, share: float, columns: Sequence[str] | None = None
) -> int:
    """Write a file of later rows for each table with a time of a database in parts; returns how
    many rows. They name older rows, and their keys are none that an older row names.

    Args:
        rows: Rows of the database.
        share: Share of new rows in each of these tables.
    """
    import pyarrow.parquet as pq

    sizes, added = table_sizes(rows), 0
    for number, table in enumerate(_TABLES):
        if not table.has_time:
            continue
        first = 2 * sizes[table.name]  # dangling keys are those of the rows before
        index = np.arange(first, first + round(sizes[table.name] * share))
        rng = np.random.default_rng([number, rows])
        part = _chunk(table, index, sizes, rng, columns or tuple(_VALUES))
        later = _times(_YEARS + np.sort(rng.integers(0, 86_400, len(index))))
        place = part.schema.get_field_index("happened_at")
        part = part.set_column(place, "happened_at", later)
        with whole_file(Path(folder) / table.name / "1.parquet") as temporary:
            pq.write_table(part, temporary, compression="zstd")
        added += len(index)
    return added


def schema() -> dict[str, dict[str, Any]]:
    """Keys and times of each table."""
    return {
        table.name: {
            "pkey": "key",
            "time_col": "happened_at" if table.has_time else None,
            "fkeys": {f"{parent}_key": parent for parent in table.parents},
        }
        for table in _TABLES
    }


def table_sizes(rows: int) -> dict[str, int]:
    """Rows of each table; they add up to `rows`."""
    sizes = {table.name: max(5, round(table.share * rows)) for table in _TABLES}
    sizes["events"] += rows - sum(sizes.values())
    return sizes


def foreign_keys(rows: int) -> int:
    """Number of foreign key cells, the null ones included."""
    sizes = table_sizes(rows)
    return sum(sizes[table.name] * len(table.parents) for table in _TABLES)


def _chunk(
    table: _Table,
    index: Ints,
    sizes: dict[str, int],
    rng: np.random.Generator,
    features: Sequence[str],
) -> "pa.Table":
    import pyarrow as pa

    n = len(index)
    columns = {"key": _keys(index, table.has_text_keys)}
    for parent in table.parents:
        columns[f"{parent}_key"] = _foreign(parent, n, sizes[parent], rng)
    if table.has_time:
        columns["happened_at"] = _times(rng.integers(0, _YEARS, n))
    columns |= {name: draw(n, rng) for name, draw in _VALUES.items() if name in features}
    return pa.table(columns)


def _numbers(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> "pa.Array":
    import pyarrow as pa

    return pa.array(values, mask=missing)


def _keys(index: Ints, as_text: bool) -> "pa.Array":
    """Distinct, scattered key values: multiplication by a constant permutes the numbers below a
    prime."""
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = pa.array((index + 1) * _MULTIPLIER % _PRIME)
    return (
        pc.binary_join_element_wise("IT", pc.utf8_lpad(numbers.cast(pa.string()), 10, "0"), "-")
        if as_text
        else numbers
    )


def _foreign(parent: str, n: int, size: int, rng: np.random.Generator) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    index = _skewed(size, _SKEW[parent], n, rng)
    kind = rng.random(n)
    index[kind < _DANGLING] += size  # beyond the last row: a key that no parent has
    keys = _keys(index, as_text=any(t.name == parent and t.has_text_keys for t in _TABLES))
    return pc.if_else(pa.array(kind > 1.0 - _NULL), pa.scalar(None, keys.type), keys)


def _skewed(size: int, skew: float, n: int, rng: np.random.Generator) -> Ints:
    return np.minimum((size * rng.random(n) ** skew).astype(np.int64), size - 1)


def _times(seconds: Ints) -> "pa.Array":
    import pyarrow as pa

    return pa.array((_EPOCH + seconds) * 1_000_000).cast(pa.timestamp("us"))


def _vocabulary(prefix: str, size: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i:x}" for i in range(size))


def _words(vocabulary: tuple[str, ...], index: Ints) -> "pa.Array":
    import pyarrow as pa

    return pa.array(vocabulary).take(pa.array(index))


def _notes(n: int, rng: np.random.Generator) -> "pa.Array":
    """Four words; the last two are missing in half of the notes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    vocabulary = _vocabulary("w", _WORDS)
    words = [_words(vocabulary, rng.integers(0, _WORDS, n)) for _ in range(4)]
    short = pc.binary_join_element_wise(*words[:2], " ")
    return pc.if_else(
        pa.array(rng.random(n) < 0.5), short, pc.binary_join_element_wise(short, *words[2:], " ")
    )


# Feature columns and how n values of each are drawn.
_VALUES: dict[str, Callable[[int, np.random.Generator], "pa.Array"]] = {
    "amount": lambda n, rng: _numbers(rng.lognormal(3.0, 1.0, n), rng.random(n) < 0.03),
    "score": lambda n, rng: _numbers(rng.normal(size=n)),
    "units": lambda n, rng: _numbers(rng.poisson(3.0, n)),
    "status": lambda n, rng: _words(_STATUSES, _skewed(len(_STATUSES), 2.0, n, rng)),
    "tag": lambda n, rng: _words(_vocabulary("tag", _TAGS), _skewed(_TAGS, 2.0, n, rng)),
    "is_active": lambda n, rng: _numbers(rng.random(n) < 0.7, rng.random(n) < 0.01),
    "due_at": lambda n, rng: _times(rng.integers(0, _YEARS, n)),
    "note": lambda n, rng: _notes(n, rng),
}
