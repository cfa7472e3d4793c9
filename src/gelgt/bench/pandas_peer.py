"""The same work with pandas and numpy, as a careful engineer would write it: the peer of
`gelgt bench graph`.

`import_tables` reads each table, orders it by time, numbers the rows, maps foreign keys to row
numbers and writes Parquet again; `build_graph` makes the two-way adjacency, newest neighbours
first. Everything is held in memory, and neither checks keys, infers kinds nor counts findings.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gelgt.testing.large import schema

Ints = npt.NDArray[np.int64]


def import_tables(source: Path, out: Path) -> None:
    """Write tables ordered by time (then key) whose keys are row numbers; -1 is no parent."""
    out.mkdir(parents=True, exist_ok=True)
    keys = schema()
    frames = {
        name: _ordered(pd.read_parquet(source / f"{name}.parquet"), spec)
        for name, spec in keys.items()
    }
    numbers = {name: pd.Index(frame[keys[name]["pkey"]]) for name, frame in frames.items()}
    for name, frame in frames.items():
        for column, parent in keys[name]["fkeys"].items():
            frame[column] = numbers[parent].get_indexer(pd.Index(frame[column]))
        frame[keys[name]["pkey"]] = np.arange(len(frame))
        frame.to_parquet(out / f"{name}.parquet", index=False)


def _ordered(frame: pd.DataFrame, spec: dict[str, Any]) -> pd.DataFrame:
    by = [spec["time_col"], spec["pkey"]] if spec["time_col"] else [spec["pkey"]]
    return frame.sort_values(by, ignore_index=True)


def build_graph(out: Path) -> tuple[Ints, Ints]:
    """Adjacency over both directions of every foreign key, sorted by source, then newest first,
    then node; saved as `.npy`."""
    keys = schema()
    wanted = {
        name: [spec["pkey"], *spec["fkeys"], *([spec["time_col"]] if spec["time_col"] else [])]
        for name, spec in keys.items()
    }
    frames = {
        name: pd.read_parquet(out / f"{name}.parquet", columns=columns)
        for name, columns in wanted.items()
    }
    offsets = dict(zip(frames, np.cumsum([0, *(len(f) for f in frames.values())]).tolist()))
    total = sum(len(f) for f in frames.values())
    time = np.full(total, np.iinfo(np.int64).min)
    heads, tails = [], []
    for name, frame in frames.items():
        start = offsets[name]
        if keys[name]["time_col"]:
            seconds = frame[keys[name]["time_col"]].astype("datetime64[s]").astype(np.int64)
            time[start : start + len(frame)] = seconds.to_numpy()
        for column, parent in keys[name]["fkeys"].items():
            number = frame[column].to_numpy()
            child = np.flatnonzero(number >= 0)
            heads.append(start + child)
            tails.append(offsets[parent] + number[child])
    source = np.concatenate(heads + tails)
    target = np.concatenate(tails + heads)
    order = np.lexsort((target, -time[target], source))
    indptr = np.zeros(total + 1, dtype=np.int64)
    np.cumsum(np.bincount(source, minlength=total), out=indptr[1:])
    indices = target[order]
    np.save(out / "indptr.npy", indptr)
    np.save(out / "indices.npy", indices)
    np.save(out / "node_time.npy", time)
    return indptr, indices
