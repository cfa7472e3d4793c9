"""The key of a run: what it depends on. A checkpoint of another key is refused."""

import hashlib
import json

import numpy as np
import pyarrow as pa

from gelgt.presets import RunConfig
from gelgt.tasks import Task
from gelgt.tasks.task import SPLITS
from gelgt.training.job import Options


def run_key(config: RunConfig, task: Task, content_hash: str, options: Options) -> str:
    """What a run depends on; limits of time and patience may change when it is resumed."""
    content = config.model_dump(
        exclude={"origins": True, "train": {"time_limit", "epochs", "patience"}}
    )
    labels = hashlib.blake2b(digest_size=16)
    for split in SPLITS:
        for column in task.table(split).columns:
            is_list = pa.types.is_list(column.type)
            labels.update(repr(column.to_pylist()).encode() if is_list else _bytes(column))
    times = [str(task.val_timestamp), str(task.test_timestamp)]
    depends = [content, content_hash, times, labels.hexdigest(), options.retrain_all]
    text = json.dumps(depends, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _bytes(column: pa.ChunkedArray) -> bytes:
    return np.ascontiguousarray(column.to_numpy()).tobytes()
