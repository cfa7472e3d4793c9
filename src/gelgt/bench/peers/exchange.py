"""What a peer is given, as files.

    spec.json               the entity table, the task type, keys and kinds, LightGBM's parameters
    tables/TABLE.parquet    `__row__`, `__time__` where the table has times (in whole seconds), keys
                            as row numbers, numbers, categories as text, times
    seeds/SPLIT.parquet     `row`, `time`, `label`; without a label in test

Rows that are never visible are left out, in the frozen regime also those after the horizon. Text
and lists of categories are left out: neither peer reads them by itself.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from gelgt.baselines.boosting import PARAMETERS, PATIENCE, ROUNDS
from gelgt.baselines.lightgbm import MAX_TRAIN_ROWS
from gelgt.presets import RunConfig
from gelgt.sampling import Seeds
from gelgt.sources.row_times import NEVER, RowTimes
from gelgt.training.budget import columns_budget
from gelgt.training.data import TrainingData
from gelgt.training.examples import KNOWN, learnable

ROW, TIME = "__row__", "__time__"
KINDS = ("numerical", "categorical", "timestamp")
SECOND = 1_000_000  # microseconds


def write_exchange(
    folder: Path, data: TrainingData, config: RunConfig, scored: dict[str, Seeds]
) -> None:
    """Write what a peer needs to learn a task and to predict some seeds.

    Args:
        folder: An empty folder.
        data: The database and the task.
        config: Which labels are learned, and the random seed.
        scored: The seeds of ``val`` and ``test`` that exist at their seed time.
    """
    (folder / "tables").mkdir()
    (folder / "seeds").mkdir()
    times = RowTimes(data.db)
    tables = {name: _write_table(folder, data, times, name) for name in data.db.table_names}
    learned = ("train", KNOWN) if config.train.retrain else ("train",)
    for split in learned:
        seeds, labels = learnable(data, (split,), config.train)
        kept = _at_most(len(seeds), config.train.seed)
        _write_seeds(folder, data, split, seeds.take(kept), labels[kept])
    for split, seeds in scored.items():
        of_split = data.labels(split)[data.exists(data.seeds[split])] if split == "val" else None
        _write_seeds(folder, data, split, seeds, of_split)
    spec = {
        "entity_table": data.task.entity_table,
        "task_type": data.task.task_type,
        "is_inclusive": data.sampling.causality == "inclusive",
        "tables": tables,
        "most_columns": columns_budget(config),
        "parameters": PARAMETERS | {"seed": config.train.seed, "num_threads": 2},
        "rounds": ROUNDS,
        "patience": PATIENCE,
    }
    (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")


def _at_most(rows: int, seed: int) -> NDArray[np.int64]:
    """As many labels as LightGBM, the baseline, learns."""
    if rows <= MAX_TRAIN_ROWS:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, MAX_TRAIN_ROWS, replace=False))


def _write_table(folder: Path, data: TrainingData, times: RowTimes, name: str) -> dict[str, Any]:
    """Write a table; gives its keys and the kinds of its columns."""
    schema, hidden = data.db.table(name), data.hide.get(name, ())
    kinds = {
        column: kind.kind
        for column, kind in schema.kinds.items()
        if kind.kind in KINDS and column not in hidden
    }
    keys = [
        fk
        for fk in schema.foreign_keys
        if fk.column not in schema.pointers and fk.column not in hidden
    ]
    columns: dict[str, Any] = {ROW: np.arange(data.db.num_rows(name))}
    visible = np.ones(data.db.num_rows(name), np.bool_)
    if schema.has_time:
        moments = times.of(name)
        visible = moments != NEVER
        if data.sampling.visibility == "frozen" and data.sampling.horizon is not None:
            visible &= moments // SECOND <= data.sampling.horizon
        # the seconds that gelgt compares: a row of the seed's own second is not visible
        whole = np.where(visible, moments // SECOND * SECOND, 0)
        columns[TIME] = pa.array(whole).cast(pa.timestamp("us"))
    for fk in keys:
        parents = times.parents(schema, fk)
        columns[fk.column] = pa.array(parents, mask=parents < 0)
    read = data.db.read(name, list(kinds)) if kinds else None
    for column, kind in kinds.items():
        assert read is not None
        values = read.column(column)
        columns[column] = values.cast(pa.string()) if kind == "categorical" else values
    table = pa.table(columns).filter(pa.array(visible))
    pq.write_table(table, folder / "tables" / f"{name}.parquet")
    return {
        "has_time": schema.has_time,
        "keys": {fk.column: fk.table for fk in keys},
        "kinds": kinds,
    }


def _write_seeds(
    folder: Path, data: TrainingData, split: str, seeds: Seeds, labels: NDArray[Any] | None
) -> None:
    first = data.graph.offsets[data.graph.table_number(data.task.entity_table)]
    columns = {
        "row": seeds.node - first,
        "time": pa.array(seeds.time * SECOND).cast(pa.timestamp("us")),
    }
    if labels is not None:
        columns["label"] = labels.astype(np.float64)
    pq.write_table(pa.table(columns), folder / "seeds" / f"{split}.parquet")
