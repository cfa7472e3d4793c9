"""The readers of the artifacts that `files.py` damages: each gives a hash of what it has read."""

import hashlib
from collections.abc import Iterator
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import gelgt
from campaigns.world import World, cached_in
from gelgt.errors import GelgtError


def digest(*parts: object) -> str:
    """A hash of tables, arrays and texts."""
    sum_ = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, pa.Table):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_table(part.combine_chunks())
            sum_.update(sink.getvalue())
        elif isinstance(part, bytes):
            sum_.update(f"{len(part)} ".encode() + part)
        else:
            sum_.update(repr(part).encode())
    return sum_.hexdigest()


@cache
def _opened(folder: Path) -> gelgt.Database:
    return gelgt.open(folder)


def whole(world: World) -> gelgt.Database:
    """The database of the world, where something else is damaged: opened once, and each time as if
    nothing had been read of it yet."""
    db = copy(_opened(world.database))
    db._held_keys = {}
    return db


def read_run(folder: Path, world: World) -> str:
    from gelgt.runs.folder import load_run
    from gelgt.runs.record import Profile, read_record

    run = load_run(folder)
    profile = read_record(folder / "profile.json", Profile)
    records = (run.schema, run.task, run.intervals(), run.history_plan, profile)
    return digest(*records, *_parts(run.weights()))


def _parts(tensors: dict[str, Any]) -> Iterator[object]:
    for name, tensor in sorted(tensors.items()):
        yield from (name, tensor.numpy().tobytes())


def predict(folder: Path, world: World) -> str:
    from gelgt.inference import Predictor
    from gelgt.runs.folder import load_run

    db = whole(world)
    predictor = Predictor(load_run(folder), db, device="cpu")
    keys = db.keys("customers")
    assert keys is not None
    return digest(predictor.predict(keys.column(0)[:8], at=world.at).table)


def report(folder: Path, world: World) -> str:
    from gelgt.report import write_report

    path = write_report(folder, folder.parent / "report.html")
    return str(Path(path).exists())


def read_checkpoint(folder: Path, world: World) -> str:
    from gelgt.training.checkpoint import load_checkpoint

    loaded = load_checkpoint(folder, "key")
    if loaded is None:
        raise GelgtError("no_checkpoint", "none")
    state, snapshot = loaded
    return digest(state, *_parts(snapshot.tensors()))


def read_task(folder: Path, world: World) -> str:
    task = whole(world).task(str(folder))
    made = [notice for notice in task.notices if "again" in notice]
    tables = [task.table(split) for split in ("train", "val", "test")]
    return "edited" if task.is_edited or made else digest(*tables)


def read_import(folder: Path, world: World) -> str:
    db = gelgt.open(folder)
    if db.folder != folder:
        return "edited"  # a manifest that was changed by hand: rows are imported again
    return digest(*((name, db.read(name), db.keys(name) or 0) for name in db.table_names))


def read_graph(folder: Path, world: World) -> str:
    with cached_in(folder):
        return whole(world).graph().content_hash()


def read_features(folder: Path, world: World) -> str:
    with cached_in(folder):
        features = whole(world).features()
        frame = features.frame("orders", np.arange(5))
        return digest(features.content_hash(), frame.num_rows)


def read_parts(folder: Path, world: World) -> str:
    from gelgt.inference.shards import committed, finish, missing

    plan, commits = committed(folder)
    if left := missing(folder, plan):
        raise GelgtError("not_whole", f"{left}")
    if not finish(folder, plan):
        raise GelgtError("not_whole", "not finished")
    return digest([(c.part, c.rows, c.checksum) for c in commits])


def read_source(folder: Path, world: World) -> str:
    db = gelgt.open(folder / "shop.db" if folder.name == "sqlite" else folder)
    return digest(*((name, db.num_rows(name)) for name in db.table_names))
