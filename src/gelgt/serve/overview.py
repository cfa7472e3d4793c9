"""All predictions at one time, and who is alike: what a person looks at first.

Both are made when they are first asked for, in the background, chunk by chunk, for all eligible
entities, or for a sample of them where they are many.
"""

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gelgt.errors import GelgtError, did_you_mean
from gelgt.inference import Predictor
from gelgt.inference.prediction import Prediction
from gelgt.scoring.table import key_table
from gelgt.serve.failures import BUG
from gelgt.serve.search import column_texts, few_values

log = logging.getLogger("gelgt.serve")
MOST = 20_000  # entities
CHUNK = 256  # after which others may use the predictor


@dataclass(frozen=True)
class Filter:
    """Which predictions are listed.

    Attributes:
        order: The column that orders them; None for what the task predicts.
        is_rising: Lowest first.
        least: Of that column.
        most: Of that column.
        where: Column of the entity table → the value it has, as text.
    """

    order: str | None = None
    is_rising: bool = False
    least: float | None = None
    most: float | None = None
    where: tuple[tuple[str, str], ...] = ()


class Overview:
    """Predictions for all eligible entities at the default time.

    Args:
        predictor: Used while `lock` is held.
        lock: Shared with others who use it.
    """

    def __init__(self, predictor: Predictor, lock: threading.Lock) -> None:
        self.predictor, self.lock = predictor, lock
        self.done = self.total = self.population = 0
        self.failure: GelgtError | None = None
        self._starting, self._is_started = threading.Lock(), False
        # Not the same as `_starting`, which the thread that answers requests takes.
        self._choosing, self._embedding = threading.Lock(), threading.Lock()
        self._table: pa.Table | None = None
        self._vectors: NDArray[np.float32] | None = None
        self._rows: NDArray[np.int64] = np.zeros(0, np.int64)
        self._times: NDArray[np.int64] = np.zeros(0, np.int64)

    def start(self) -> None:
        """Begin, if that has not happened."""
        with self._starting:
            if not self._is_started:
                self._is_started = True
                threading.Thread(target=self._work, name="gelgt-overview", daemon=True).start()

    @property
    def table(self) -> pa.Table | None:
        """The predictions; None while they are made."""
        if self.failure is not None:
            raise self.failure
        return self._table

    def select(self, chosen: Filter) -> pa.Table:
        """The predictions that a filter lets through, in its order.

        Raises:
            GelgtError: ``unknown_column``.
        """
        table = self.table
        assert table is not None
        order = chosen.order or self.order
        if order not in self.orders:
            raise GelgtError(
                "unknown_column",
                f"Predictions cannot be ordered by '{order}'.",
                hint=did_you_mean(order, self.orders),
            )
        keep = np.ones(table.num_rows, bool)
        values = table.column(order).to_numpy()
        if chosen.least is not None:
            keep &= values >= chosen.least
        if chosen.most is not None:
            keep &= values <= chosen.most
        for name, value in chosen.where:
            if name not in self.filters:
                raise GelgtError(
                    "unknown_column",
                    f"'{name}' is no column to choose by.",
                    hint=did_you_mean(name, self.filters),
                )
            texts = column_texts(self.predictor.db, self.predictor.task.entity_table, name)
            own = pc.equal(texts.take(pa.array(self._rows)), value)
            keep &= pc.fill_null(own, False).to_numpy()
        table = table.filter(pa.array(keep))
        return table.sort_by([(order, "ascending" if chosen.is_rising else "descending")])

    @property
    def orders(self) -> list[str]:
        """The columns of predictions that are numbers."""
        table, keys = self._table, len(self._keys(self._rows[:0]).column_names)
        if table is None:
            return []
        return [f.name for f in list(table.schema)[keys:] if _is_number(f.type)]

    @property
    def order(self) -> str:
        orders = self.orders
        return next((name for name in orders if name.startswith("probability")), orders[0])

    @cached_property
    def filters(self) -> dict[str, list[str]]:
        """Columns of the entity table with their values, where these are few."""
        return few_values(self.predictor.db, self.predictor.task)

    def look_alikes(self, entity: Any, at: int | None, k: int) -> list[dict[str, Any]]:
        """The entities whose vectors are nearest to that of one at a time, with theirs at the time
        of the overview; by cosine. Beside them what is predicted, once that is known."""
        if not self._recommends:
            self.start()
        with self.lock:
            seeds = self.predictor.named_seeds([entity], [at])
            own = self._embed(seeds.rows, seeds.times)[0]
        vectors = self._all_vectors()
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(own)
        likeness = (vectors @ own) / np.maximum(norms, 1e-12)
        likeness[self._rows == seeds.rows[0]] = -np.inf
        best = np.argsort(-likeness, kind="stable")[: min(k, len(likeness))]
        best = best[np.isfinite(likeness[best])]
        keys = self._keys(self._rows[best]).to_pylist()
        return [
            {**key, **values, "likeness": float(likeness[place])}
            for key, values, place in zip(keys, self._predicted(best), best)
        ]

    def _predicted(self, places: NDArray[np.int64]) -> list[dict[str, Any]]:
        """What is predicted for some of the entities, as far as it is known."""
        table = self._table
        if table is None:
            return [{} for _ in places]
        # One number says it, or the class of several that have one each.
        is_class = self.order.startswith("probability_")
        shown = table.select(["prediction" if is_class else self.order])
        predicted: list[dict[str, Any]] = shown.take(pa.array(places)).to_pylist()
        return predicted

    @property
    def _recommends(self) -> bool:
        """Whether there are several rows for an entity, and nothing to order entities by."""
        return self.predictor.task.dst_entity_table is not None

    def _work(self) -> None:
        try:
            self._choose()
            tables: list[pa.Table] = []
            for part in self._chunks():
                with self.lock:
                    made = self.predictor.predict_table(self._rows[part], self._times[part])
                    tables.extend(made)
                self.done += len(self._rows[part])
            self._table = pa.concat_tables(tables).combine_chunks()
        except GelgtError as error:
            self.failure = error
        except Exception:  # a thread that ends without a word would be waited for
            log.exception("the overview failed")
            self.failure = BUG

    def _choose(self) -> None:
        with self._choosing:
            if not self.total:
                self._choose_once()

    def _choose_once(self) -> None:
        with self.lock:
            chosen = self.predictor.seeds()
        rows, times = chosen.rows, np.asarray(chosen.times)
        self.population = len(rows)
        if len(rows) > MOST:
            # drawn once, the same for the same rows
            places = np.sort(np.random.default_rng(0).choice(len(rows), MOST, replace=False))
            rows, times = rows[places], times[places]
        self._rows, self._times, self.total = rows, times, len(rows)

    def _chunks(self) -> Iterator[slice]:
        for start in range(0, len(self._rows), CHUNK):
            yield slice(start, start + CHUNK)

    def _all_vectors(self) -> NDArray[np.float32]:
        with self._embedding:
            if self._vectors is None:
                self._choose()
                parts = []
                for part in self._chunks():
                    with self.lock:
                        parts.append(self._embed(self._rows[part], self._times[part]))
                self._vectors = np.concatenate(parts)
        return self._vectors

    def _embed(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.float32]:
        return Prediction(pa.concat_tables(self.predictor.embed_table(rows, times))).vectors

    def _keys(self, rows: NDArray[np.int64]) -> pa.Table:
        return key_table(self.predictor.db, self.predictor.task.entity_table, rows)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))
