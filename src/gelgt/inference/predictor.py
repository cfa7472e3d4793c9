"""`Predictor`: a trained model on a database, one verb at two levels; thin over `Scorer`.

    predict_table(rows, times)                  row numbers → tables with the user's keys, in chunks
    predict(entities, at) or predict(frame=…)   the user's own keys → Prediction

A prediction at a time sees every row before it and none after, whatever regime the model was
trained in (docs/time.md). Under seed-time it is the one that was scored for the same entity and
time; `--as-of` of the training holds here too. Twice the same question gives the same bits; who
else is predicted for may change the last ones (about 1e-7).
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.config import SamplingConfig
from gelgt.errors import GelgtError
from gelgt.inference.bounds import Bounds, bounds_of
from gelgt.inference.prediction import VECTOR, Prediction
from gelgt.inference.recommend import Recommend, nothing_there, recommended_table
from gelgt.inference.run_findings import prediction_findings
from gelgt.inference.seeds import SeedRows, choose_seeds, default_time, named_seeds
from gelgt.inference.source import open_for
from gelgt.inference.task import run_definition
from gelgt.memory import check_memory
from gelgt.runs.folder import Run
from gelgt.sampling import Seeds, make_seeds
from gelgt.schema.model import Finding
from gelgt.scoring.load import run_data, run_scorer
from gelgt.scoring.memory import needed_memory
from gelgt.scoring.recommend import RecommendScorer
from gelgt.scoring.scorer import choose_device
from gelgt.scoring.table import key_table, prediction_columns, times_column
from gelgt.tasks.events import newest_event
from gelgt.tasks.task import Definition
from gelgt.tasks.times import seconds

if TYPE_CHECKING:
    import pandas as pd

CHUNK = 8192  # rows that are seeds, subgraphs and results at a time
CUDA_CHUNK = 65_536  # likewise where a GPU waits for the next ones
# The history of a chunk reads the keys of the whole database: a chunk is larger where that is, so
# that this costs less than the network does.
LARGE_GRAPH = 4_000_000  # nodes
NODES_PER_SEED = 400
MAX_CHUNK = 262_144
RECOMMENDED = 2_048  # rows whose recommendations are made at a time
Columns = Callable[[Seeds], dict[str, pa.Array]]


class Predictor:
    """Predicts with a run on a source.

    Args:
        run: The run.
        source: A `Database`, what `open_for` gave, or anything that `gelgt.open` takes; it may have
            changed since training. None is where the run was trained.
        device: ``auto``, ``cpu``, ``cuda``, …
        batch_size: Subgraphs of one pass through the model.

    Attributes:
        notices: What there is to say about the source.
        findings: What the user should know about its tables (`run_findings.py`).

    Raises:
        GelgtError: the source lacks what the model knows, or the weights do not fit.
    """

    def __init__(
        self, run: Run, source: Any, device: str = "auto", batch_size: int | None = None
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise GelgtError("bad_option", f"batch_size is {batch_size}.", hint="Give at least 1.")
        opened = open_for(run, source)
        self.run, self.db, self.notices = run, opened.db, opened.notices
        self.task: Definition = run_definition(run, self.db)
        check_memory(needed_memory(self.db, CHUNK), "Prediction")
        data = run_data(run, self.db, self.task, prediction_sampling(run.config.sampling))
        self.target, self.graph = data.target, data.graph
        self.scorer = run_scorer(run, data, choose_device(device), batch_size)

    @cached_property
    def findings(self) -> list[Finding]:
        return prediction_findings(self.run.record, self.db, self.task)

    # Tables.
    @property
    def batch_size(self) -> int:
        """Seeds that the model sees at a time."""
        scorer = self.scorer
        return RECOMMENDED if isinstance(scorer, RecommendScorer) else scorer.batch_size

    def predict_table(
        self,
        rows: NDArray[np.int64],
        times: NDArray[np.int64],
        recommend: Recommend | None = None,
        interval: float | None = None,
    ) -> Iterator[pa.Table]:
        """Predictions for rows of the entity table at times in seconds since 1970, in bounded
        memory.

        Args:
            recommend: What may be recommended, where the task recommends.
            interval: The level of prediction intervals, such as 0.9, where a number is predicted.

        Yields:
            Tables of up to `MAX_CHUNK` rows and one schema: the key, ``time``, ``prediction``,
            probabilities or ``lower`` and ``upper``; for recommendations the key, ``time``,
            ``rank``, the destination's key, ``score``. One at least, maybe empty.
        """
        bounds = None if interval is None else bounds_of(self.run, interval)
        if isinstance(self.scorer, RecommendScorer):
            yield from self._recommended(self.scorer, rows, times, recommend or Recommend())
            return
        yield from self._tables(rows, times, partial(self._predicted, bounds=bounds))

    def _recommended(
        self,
        scorer: RecommendScorer,
        rows: NDArray[np.int64],
        times: NDArray[np.int64],
        recommend: Recommend,
    ) -> Iterator[pa.Table]:
        wish, table = recommend.wish(self.db, self.task), self.task.entity_table
        for start in range(0, max(1, len(rows)), RECOMMENDED):
            part = slice(start, start + RECOMMENDED)
            seeds = make_seeds(self.db, self.graph, table, rows[part], times[part])
            yield recommended_table(self.db, self.task, rows[part], seeds, scorer, wish)

    def embed_table(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Seed vectors likewise: the key, ``time``, ``vector_0``, ``vector_1``, …"""
        yield from self._tables(rows, times, self._embedded)

    # The user's own terms.
    def seeds(self, entities: Any = None, at: Any = None, frame: Any = None) -> SeedRows:
        """The rows and times that keys and times mean, checked; see `choose_seeds`."""
        chosen = choose_seeds(self.db, self.graph, self.task, entities, at, frame)
        about = (
            nothing_there(self.scorer, chosen.times)
            if isinstance(self.scorer, RecommendScorer)
            else ()
        )
        return SeedRows(chosen.rows, chosen.times, (*self.notices, *chosen.notices, *about))

    @cached_property
    def newest_event(self) -> "pd.Timestamp | None":
        """The newest row of the tables that the task is about."""
        return newest_event(self.db, self.task)

    def default_time(self) -> tuple[int | None, tuple[str, ...]]:
        """The seed time where none is given, in seconds since 1970, and what to say about it; None
        where each row of the entity table has its own."""
        if self.task.kind == "autocomplete":
            return None, ()
        moment, notices = default_time(self.task, self.newest_event)
        return seconds(moment), tuple(notices)

    def named_seeds(self, entities: Sequence[Any], times: Sequence[int | None]) -> SeedRows:
        """The rows of keys, each at a time of its own; see `gelgt.inference.seeds.named_seeds`."""
        return named_seeds(self.db, self.graph, self.task, entities, times)

    def predict(
        self,
        entities: Any = None,
        at: Any = None,
        frame: Any = None,
        recommend: Recommend | None = None,
        interval: float | None = None,
    ) -> Prediction:
        """Predict for entities at a time.

        Args:
            entities: Keys of the entity table, as the source holds them; None means everyone whom
                the task is about.
            at: The time; by default now, or just after the newest row, with a notice, where that
                lies more than one window back.
            frame: A pandas or Arrow table of (key, time) instead.
            recommend: What may be recommended, where the task recommends.
            interval: The level of prediction intervals, such as 0.9, where a number is predicted.

        Raises:
            GelgtError: ``unknown_keys``, ``not_there_yet``, ``bad_time``, ``bad_level``, …
        """
        if interval is not None:
            bounds_of(self.run, interval)  # raises before anything is done
        if recommend is not None and not recommend.is_plain:
            recommend.wish(self.db, self.task)  # raises before anything is done
        chosen = self.seeds(entities, at, frame)
        tables = self.predict_table(chosen.rows, chosen.times, recommend, interval)
        return Prediction(pa.concat_tables(tables), chosen.notices)

    def embed(self, entities: Any = None, at: Any = None, frame: Any = None) -> Prediction:
        """The model's vectors of entities at a time; `Prediction.vectors` is the (n, d) array."""
        chosen = self.seeds(entities, at, frame)
        return Prediction(
            pa.concat_tables(self.embed_table(chosen.rows, chosen.times)), chosen.notices
        )

    def _tables(
        self, rows: NDArray[np.int64], times: NDArray[np.int64], columns: Columns
    ) -> Iterator[pa.Table]:
        table = self.task.entity_table
        schema = None
        size = self._chunk_size()
        for start in range(0, max(1, len(rows)), size):
            part = slice(start, start + size)
            seeds = make_seeds(self.db, self.graph, table, rows[part], times[part])
            chunk = key_table(self.db, table, rows[part])
            for name, values in {"time": times_column(seeds.time), **columns(seeds)}.items():
                chunk = chunk.append_column(name, values)
            schema = schema or chunk.schema
            yield chunk.cast(schema)

    def _chunk_size(self) -> int:
        least = CUDA_CHUNK if self.scorer.device.type == "cuda" else CHUNK
        nodes = self.graph.num_nodes
        if nodes < LARGE_GRAPH:
            return least
        size = max(least, min(MAX_CHUNK, int(nodes // NODES_PER_SEED)))
        # whole batches, as `shards.py` counts on
        return size - size % self.batch_size if size > self.batch_size else size

    def _predicted(self, seeds: Seeds, bounds: Bounds | None) -> dict[str, pa.Array]:
        predictions = self.scorer.predict(seeds).together
        columns = prediction_columns(self.target, predictions)
        if bounds is not None:
            columns |= bounds(predictions)
        labels = self.target.space.labels
        # A chunk without a single label, or without rows, does not show the type of its column.
        if self.target.task_type == "multiclass_classification":
            columns["prediction"] = columns["prediction"].cast(pa.array(labels).type)
        elif self.target.task_type == "multilabel_classification":
            columns["prediction"] = columns["prediction"].cast(pa.list_(pa.array(labels).type))
        return columns

    def _embedded(self, seeds: Seeds) -> dict[str, pa.Array]:
        vectors = self.scorer.vectors(seeds).numpy()
        return {
            f"{VECTOR}{place}": pa.array(np.ascontiguousarray(vectors[:, place]))
            for place in range(vectors.shape[1])
        }


def prediction_sampling(trained: SamplingConfig) -> SamplingConfig:
    """What a prediction sees: every row before its time, with ages measured as in training.

    Under seed-time the horizon is `--as-of`, a constant of the model. That of a frozen run is the
    test time, where its view of the data ended; a prediction's view ends at its own time.
    """
    horizon = trained.horizon if trained.visibility == "seed-time" else None
    return trained.model_copy(update={"visibility": "seed-time", "horizon": horizon})
