"""The values of the wide database's columns.

Numeric columns are, after the planted one, by turns

    noise      standard normal          copy       the same values as the noise column before it
    skewed     lognormal, 5 % null      sparse     97 % null
    count      whole numbers            constant   one value

and none of them, nor any category or text, tells anything about the label.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.testing.twins.values import WORDS
from gelgt.testing.wide.rows import FIRST, Rows, generator
from gelgt.testing.wide.schema import KEYS, TABLES, WINDOW, WINDOWS

Floats = NDArray[np.float64]

KINDS = (
    *("noise", "skewed", "count", "noise", "copy"),
    *("sparse", "noise", "constant", "count", "skewed"),
)
PERSISTENCE = 0.6  # correlation of a customer's basket level between two windows
DANGLING = 0.005  # share of page views of products that are gone


def make_table(name: str, rows: Mapping[str, Rows], seed: int) -> pa.Table:
    """A table: primary key, foreign keys, time, categories, texts, numbers."""
    spec, part = TABLES[name], rows[name]
    columns = {KEYS.get(name, "id"): _keys(name, np.arange(part.count))}
    for column, parent in spec.parents.items():
        columns[column] = _foreign(name, column, parent, part.keys[column], seed)
    if spec.time is not None:
        columns[spec.time] = pa.array(part.times * 1_000_000).cast(pa.timestamp("us"))
    for column in spec.words:
        columns[column] = _categories(part.count, generator(seed, name, column))
    for column in spec.texts:
        columns[column] = _texts(part.count, generator(seed, name, column))
    if spec.planted is not None:
        columns[spec.planted] = pa.array(_planted(name, rows, generator(seed, name, spec.planted)))
    for place in range(spec.numbers - (spec.planted is not None)):
        kind = KINDS[place % len(KINDS)]
        column = f"{kind}_{place + 1}"
        columns[column] = (
            columns[f"noise_{place}"]
            if kind == "copy"
            else _numbers(kind, part.count, generator(seed, name, column))
        )
    return pa.table(columns)


def _keys(table: str, rows: NDArray[np.int64]) -> pa.Array:
    if table not in KEYS:
        return pa.array(rows + 1)
    prefix = KEYS[table].upper()
    return pa.array([f"{prefix}-{row:05d}" for row in rows.tolist()], pa.string())


def _foreign(table: str, column: str, parent: str, rows: NDArray[np.int64], seed: int) -> pa.Array:
    if (table, column) == ("page_views", "product_sku"):
        is_gone = generator(seed, table, column).random(len(rows)) < DANGLING
        rows = np.where(is_gone, 99_999, rows)  # of no product
    keys = _keys(parent, rows)
    return pc.if_else(pa.array(rows < 0), pa.scalar(None, keys.type), keys)


def _planted(name: str, rows: Mapping[str, Rows], rng: np.random.Generator) -> Floats:
    """Thousandths, so that sums over them are exact."""
    part = rows[name]
    values = rng.standard_normal(part.count)
    if name == "orders":  # the customer's level in the window, and half as much noise
        shocks = rng.standard_normal((rows["customers"].count, WINDOWS))
        level = shocks.copy()
        for window in range(1, WINDOWS):
            level[:, window] = (
                PERSISTENCE * level[:, window - 1] + np.sqrt(1 - PERSISTENCE**2) * shocks[:, window]
            )
        values = level[part.keys["customer_id"], (part.times - FIRST) // WINDOW] + 0.5 * values
    return np.round(values, 3)


def _numbers(kind: str, count: int, rng: np.random.Generator) -> pa.Array:
    if kind == "constant":
        return pa.array(np.ones(count))
    if kind == "count":
        return pa.array(rng.poisson(rng.uniform(2, 60), count))
    if kind == "skewed":
        return pa.array(np.round(rng.lognormal(3.0, 1.0, count), 2), mask=rng.random(count) < 0.05)
    values = np.round(rng.standard_normal(count) * rng.uniform(1, 50), 3)
    return pa.array(values, mask=rng.random(count) < 0.97) if kind == "sparse" else pa.array(values)


def _categories(count: int, rng: np.random.Generator) -> pa.Array:
    """Between three and nine words, the first ones most often; 2 % null."""
    words = pa.array(rng.choice(WORDS, int(rng.integers(3, 10)), replace=False).tolist())
    place = (len(words) * rng.random(count) ** 1.5).astype(np.int64)
    return words.take(pa.array(place, mask=rng.random(count) < 0.02))


def _texts(count: int, rng: np.random.Generator) -> pa.Array:
    """Between three and eight words."""
    words = np.array(WORDS)[rng.integers(0, len(WORDS), (count, 8))]
    lengths = rng.integers(3, 9, count)
    texts = [" ".join(row[:length]) for row, length in zip(words.tolist(), lengths.tolist())]
    return pa.array(texts, pa.string())
