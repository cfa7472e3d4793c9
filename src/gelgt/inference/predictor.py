"""`Predictor`: a trained model on a database, one verb at three levels.

    predict_batch(inputs)                       tensors of one batch  →  probabilities or values
    predict_table(rows, times)                  row numbers → tables with the user's keys, chunk by
                                                chunk
    predict(entities, at) or predict(frame=…)   the user's own keys   →  Prediction

A prediction at a time sees every row before it and none after, whatever regime the model was
trained in (docs/time.md). Under seed-time it is the one that was scored for the same entity and
time; `--as-of` of the training holds here too. It does not depend on who else is predicted for;
twice the same question gives the same bits.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import SamplingConfig
from gelgt.errors import GelgtError
from gelgt.features import Features, open_features
from gelgt.graph import Graph
from gelgt.history.seed_history import HistoryPlan, seed_history
from gelgt.inference.memory import release_memory
from gelgt.inference.prediction import VECTOR, Prediction
from gelgt.inference.seeds import SeedRows, choose_seeds
from gelgt.inference.source import Opened, open_for
from gelgt.inference.task import run_definition
from gelgt.nn import ModelInput, RelationalModel
from gelgt.nn.ensemble import Ensemble, members_in
from gelgt.nn.trees import Trees
from gelgt.sampling import Sampler, Seeds, SubgraphLoader, make_seeds
from gelgt.tasks.task import Definition
from gelgt.training import Run
from gelgt.training.data import hidden
from gelgt.training.lanes import Lanes
from gelgt.training.members import new_model
from gelgt.training.predict import autocast
from gelgt.training.run import choose_device
from gelgt.training.table import key_table, prediction_columns, times_column
from gelgt.training.target import Target

CHUNK = 8192  # rows that are seeds, subgraphs and results at a time
BATCH = 128  # larger ones are no faster on a CPU, and need more memory
LANES = 2  # batches side by side on a CPU; never one, whose sums PyTorch could split otherwise
RELEASE = 2  # batches after which freed memory goes back to the system
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

    Raises:
        GelgtError: the source lacks what the model knows, or the weights do not fit.
    """

    def __init__(
        self, run: Run, source: Any, device: str = "auto", batch_size: int = BATCH
    ) -> None:
        if batch_size < 1:
            raise GelgtError("bad_option", f"batch_size is {batch_size}.", hint="Give at least 1.")
        opened: Opened = open_for(run, source)
        self.run, self.db, self.notices = run, opened.db, opened.notices
        self.device, self.batch_size = choose_device(device), batch_size
        self.task: Definition = run_definition(run, self.db)
        self.target: Target = run.target
        self.graph = self.db.graph()
        self.features = open_features(self.db, statistics=run.statistics)
        self.hide = hidden(self.task, self.db, run.statistics, run.config.model)
        self.sampler = Sampler(self.graph, prediction_sampling(run.config.sampling))
        self.model = trained_model(run, self.graph, self.features, self.hide).to(self.device)

    @cached_property
    def keys(self) -> pa.Table | None:
        """The user's keys of the entity table."""
        return self.db.keys(self.task.entity_table)

    # Tensors.
    @torch.inference_mode()
    def predict_batch(self, inputs: ModelInput) -> NDArray[np.float64]:
        """Probabilities or values of a batch: (B,) or (B, C)."""
        with autocast(self.run.config.train, self.device):
            return self.target.decode(self.model(inputs.to(self.device)))

    @torch.inference_mode()
    def embed_batch(self, inputs: ModelInput) -> NDArray[np.float32]:
        """Seed vectors of a batch: (B, d)."""
        with autocast(self.run.config.train, self.device):
            vectors: Tensor = self.model.embed(inputs.to(self.device))
        return vectors.float().cpu().numpy()

    # Tables.
    def predict_table(
        self, rows: NDArray[np.int64], times: NDArray[np.int64]
    ) -> Iterator[pa.Table]:
        """Predictions for rows of the entity table at times in seconds since 1970, in bounded
        memory.

        Yields:
            Tables of up to `CHUNK` rows and one schema: the key, ``time``, ``prediction``,
            probabilities. One at least, maybe empty.
        """
        yield from self._tables(rows, times, self._predicted)

    def embed_table(self, rows: NDArray[np.int64], times: NDArray[np.int64]) -> Iterator[pa.Table]:
        """Seed vectors likewise: the key, ``time``, ``vector_0``, ``vector_1``, …"""
        yield from self._tables(rows, times, self._embedded)

    # The user's own terms.
    def seeds(self, entities: Any = None, at: Any = None, frame: Any = None) -> SeedRows:
        """The rows and times that keys and times mean, checked; see `choose_seeds`."""
        chosen = choose_seeds(self.db, self.graph, self.task, entities, at, frame)
        return SeedRows(chosen.rows, chosen.times, (*self.notices, *chosen.notices))

    def predict(self, entities: Any = None, at: Any = None, frame: Any = None) -> Prediction:
        """Predict for entities at a time.

        Args:
            entities: Keys of the entity table, as the source holds them; None means everyone whom
                the task is about.
            at: The time; by default now, or just after the newest row, with a notice, where that
                lies more than one window back.
            frame: A pandas or Arrow table of (key, time) instead.

        Raises:
            GelgtError: ``unknown_keys``, ``not_there_yet``, ``bad_time``, …
        """
        chosen = self.seeds(entities, at, frame)
        return Prediction(
            pa.concat_tables(self.predict_table(chosen.rows, chosen.times)), chosen.notices
        )

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
        for start in range(0, max(1, len(rows)), CHUNK):
            part = slice(start, start + CHUNK)
            seeds = make_seeds(self.db, self.graph, table, rows[part], times[part])
            made = key_table(self.db, table, rows[part], self.keys)
            for name, values in {"time": times_column(seeds.time), **columns(seeds)}.items():
                made = made.append_column(name, values)
            schema = schema or made.schema
            yield made.cast(schema)

    def _each(self, seeds: Seeds, work: Callable[[ModelInput], NDArray[Any]]) -> list[NDArray[Any]]:
        found = []
        with Lanes(LANES if self.device.type == "cpu" else 1) as lanes:
            for number, part in enumerate(lanes.map(work, self._loader(seeds))):
                found.append(part)
                if number % RELEASE == RELEASE - 1:
                    release_memory()
        return found

    def _loader(self, seeds: Seeds) -> SubgraphLoader:
        plan, history = HistoryPlan.of(self.run.config.model), None
        if plan:
            history = seed_history(
                self.db, self.graph, self.features, self.task, self.sampler.config, seeds, plan
            )

        def then(batch: Any) -> ModelInput:
            return ModelInput.of(batch, self.features, self.hide, history)

        return SubgraphLoader(
            self.sampler, seeds, self.batch_size, layout="packed", threads=2, prefetch=3, then=then
        )

    def _predicted(self, seeds: Seeds) -> dict[str, pa.Array]:
        parts = self._each(seeds, self.predict_batch)
        shape = (0, self.target.space.width) if self.target.space.width else (0,)
        found = prediction_columns(self.target, np.concatenate(parts) if parts else np.zeros(shape))
        labels = self.target.space.labels
        # A chunk without a single label, or without rows, does not show the type of its column.
        if self.target.task_type == "multiclass_classification":
            found["prediction"] = found["prediction"].cast(pa.array(labels).type)
        elif self.target.task_type == "multilabel_classification":
            found["prediction"] = found["prediction"].cast(pa.list_(pa.array(labels).type))
        return found

    def _embedded(self, seeds: Seeds) -> dict[str, pa.Array]:
        parts = self._each(seeds, self.embed_batch)
        width = self.run.config.model.width
        vectors = np.concatenate(parts) if parts else np.zeros((0, width), np.float32)
        return {
            f"{VECTOR}{place}": pa.array(np.ascontiguousarray(vectors[:, place]))
            for place in range(width)
        }


def prediction_sampling(trained: SamplingConfig) -> SamplingConfig:
    """What a prediction sees: every row before its time, with ages measured as in training.

    Under seed-time the horizon is `--as-of`, a constant of the model. That of a frozen run is the
    test time, where its view of the data ended; a prediction's view ends at its own time.
    """
    horizon = trained.horizon if trained.visibility == "seed-time" else None
    return trained.model_copy(update={"visibility": "seed-time", "horizon": horizon})


def trained_model(
    run: Run, graph: Graph, features: Features, hide: Mapping[str, tuple[str, ...]]
) -> RelationalModel | Ensemble:
    """The trained model of a run, or its models as one, ready to predict.

    Raises:
        GelgtError: the weights are damaged, or do not fit.
    """
    # the weights that it starts from are thrown away; nobody's generator is moved by them
    with torch.random.fork_rng(devices=[]):
        try:
            weights = run.weights()
            history = next(
                (len(tensor) for name, tensor in weights.items() if name.endswith("history.edges")),
                0,
            )
            models = [
                new_model(run.config, graph, features, run.target.outputs, hide, history)
                for _ in range(members_in(weights))
            ]
            trees = Trees.shaped(weights, run.target.outputs)
            model = models[0] if len(models) == 1 and trees is None else Ensemble(models, trees)
            model.load_state_dict(weights)
        except RuntimeError as error:
            first = str(error).strip().splitlines()[-1].strip()
            raise GelgtError(
                "bad_run",
                f"The weights of {run.folder} do not fit its model: {first}",
                hint="Train again.",
            ) from None
    return model.eval()
