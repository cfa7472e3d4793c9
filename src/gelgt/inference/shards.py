"""Predictions for a whole population in parts that any number of processes make, in any order.

    division = Division(predictor.db, table, predictor.seeds(at=…))
    plan = make_plan(predictor, len(division), at, shards=16, options={…})
    agree(folder, plan)                             # or an error that says what differs
    for number in missing(folder, plan):
        write_part(folder, plan, number, entities, tables)
    finish(folder, plan)                            # True once all parts are there: `_SUCCESS`

An entity belongs to a part by a hash of the user's own key, and the rows of a part are in the order
of these hashes: the parts behind each other are the same table whatever their number. So that this
holds to the last bit, the batches that go through the model are cut from the whole population in
this order, and a part computes the batches at its two ends whole: a product of matrices on a CPU
rounds a few of its last rows otherwise, depending on how many there are. A part that is made twice
is the same part twice, and whoever renames it last changes nothing. gelgt/inference/plan.py
describes the files.
"""

import socket
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import GelgtError
from gelgt.files import write_text
from gelgt.hashing import splitmix64
from gelgt.inference.fingerprints import data_fingerprint, model_fingerprint
from gelgt.inference.plan import (
    SUCCESS,
    Commit,
    Plan,
    cannot_write,
    commit_path,
    part_name,
    read_commit,
    read_plan,
    write_record,
)
from gelgt.inference.predictor import Predictor
from gelgt.inference.seeds import SeedRows
from gelgt.inference.write import write_predictions
from gelgt.runs.folder import checksum
from gelgt.sampling.seeds import entity_keys
from gelgt.sources.database import Database

MAX_SHARDS = 99_999  # five digits in the name of a part
STALE = 600.0  # seconds after which a temporary file that nobody writes to is left over


class Division:
    """A population in the order of the hashes of its keys.

    Args:
        db: The database.
        table: The entity table.
        seeds: The population.
    """

    def __init__(self, db: Database, table: str, seeds: SeedRows) -> None:
        hashes = key_hashes(db, table, seeds.rows)
        order = np.argsort(hashes, kind="stable")
        self.hashes: NDArray[np.uint64] = hashes[order]
        self.rows: NDArray[np.int64] = seeds.rows[order]
        self.times: NDArray[np.int64] = np.asarray(seeds.times)[order]

    def __len__(self) -> int:
        return len(self.rows)

    def part(self, number: int, shards: int) -> SeedRows:
        """The entities whose hash h has ⌊h · shards / 2⁶⁴⌋ = number."""
        return self._between(*self._ends(number, shards))

    def batches(self, number: int, shards: int, size: int) -> tuple[SeedRows, int]:
        """The entities of all batches of the population that hold some of a part, and how many of
        them come before the part."""
        start, stop = self._ends(number, shards)
        if start == stop:
            return self._between(start, stop), 0
        first = start // size * size
        return self._between(first, -(-stop // size) * size), start - first

    def _between(self, start: int, stop: int) -> SeedRows:
        return SeedRows(self.rows[start:stop], self.times[start:stop])

    def _ends(self, number: int, shards: int) -> tuple[int, int]:
        return self._place(number, shards), self._place(number + 1, shards)

    def _place(self, number: int, shards: int) -> int:
        least = -(-(number << 64) // shards)
        if least >= 1 << 64:
            return len(self.hashes)
        return int(np.searchsorted(self.hashes, np.uint64(least)))


def key_hashes(db: Database, table: str, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A hash of the user's key of each row. Whole numbers are mixed many at a time; other keys take
    the identity that sampling uses, microseconds each."""
    keys = db.keys_of(table, rows)
    if keys is None:
        return splitmix64(rows.astype(np.uint64))
    if keys.num_columns == 1 and pa.types.is_integer(keys.schema.types[0]):
        numbers = keys.column(0).cast(pa.int64()).to_numpy()
        return splitmix64(numbers.astype(np.int64).view(np.uint64))
    return entity_keys(db, table, rows)


def make_plan(
    predictor: Predictor, entities: int, at: str | None, shards: int, options: dict[str, Any]
) -> Plan:
    """What the parts of a population share.

    Raises:
        GelgtError: ``bad_option``: a number of shards that cannot be.
    """
    from gelgt import __version__

    if not 1 <= shards <= MAX_SHARDS:
        raise GelgtError(
            "bad_option",
            f"The number of shards must be between 1 and {MAX_SHARDS:,}, got {shards}.",
            hint="Some hundred thousand entities a shard are a good size.",
        )
    return Plan(
        shards=shards,
        entities=entities,
        at=at,
        model=model_fingerprint(predictor.run),
        data=data_fingerprint(predictor.db),
        options=options,
        version=__version__,
    )


def missing(folder: Path, plan: Plan) -> list[int]:
    """The parts that have to be made."""
    return [n for n in range(plan.shards) if read_commit(folder, plan, n) is None]


def write_part(
    folder: Path, plan: Plan, number: int, entities: int, tables: Iterable[pa.Table]
) -> Commit:
    """Write the predictions of a part as they come, and commit it.

    Raises:
        GelgtError: ``cannot_write``; nothing is committed then.
    """
    start, path = time.perf_counter(), folder / part_name(number, plan.shards)
    rows = write_predictions(tables, path)
    try:
        commit = Commit(
            part=number,
            entities=entities,
            rows=rows,
            bytes=path.stat().st_size,
            checksum=checksum(path),
            seconds=round(time.perf_counter() - start, 3),
            finished=round(time.time(), 3),
            host=socket.gethostname(),
            plan=plan,
        )
        write_record(commit_path(folder, number, plan.shards), commit)
    except OSError as error:
        raise cannot_write(folder, error) from None
    return commit


def finish(folder: Path, plan: Plan) -> bool:
    """Write `_SUCCESS` if all parts are there, with the bytes that were committed, and hold the
    whole population; whether it is there now.

    A part whose bytes have changed loses its commit record, so that it is made again.

    Raises:
        GelgtError: ``…_mismatch``, ``damaged_part``.
    """
    commits: list[Commit] = []
    for number in range(plan.shards):
        commit = read_commit(folder, plan, number)
        if commit is None:
            return False
        commits.append(commit)
    for commit in commits:
        _check_bytes(folder, plan, commit)
    entities = sum(commit.entities for commit in commits)
    if entities != plan.entities:
        raise GelgtError(
            "damaged_part",
            f"The parts in {folder} hold {entities:,} entities of {plan.entities:,}.",
            hint="Remove the folder and start again.",
        )
    lines = [f"{c.checksum}  {part_name(c.part, plan.shards)}  {c.rows}" for c in commits]
    try:
        write_text(folder / SUCCESS, "\n".join(lines) + "\n")
    except OSError as error:
        raise cannot_write(folder, error) from None
    _sweep(folder)
    return True


def is_finished(folder: Path) -> bool:
    return (folder / SUCCESS).is_file()


def committed(folder: Path) -> tuple[Plan, list[Commit]]:
    """The plan of a folder and the parts that are committed, in order.

    Raises:
        GelgtError: ``no_parts``: the folder holds no sharded predictions.
    """
    plan = read_plan(folder)
    if plan is None:
        raise GelgtError(
            "no_parts",
            f"{folder} holds no sharded predictions.",
            hint="Start some with: gelgt predict RUN --all --out FOLDER --shards N",
        )
    found = (read_commit(folder, plan, number) for number in range(plan.shards))
    return plan, [commit for commit in found if commit is not None]


def _check_bytes(folder: Path, plan: Plan, commit: Commit) -> None:
    path = folder / part_name(commit.part, plan.shards)
    if checksum(path) == commit.checksum:
        return
    with suppress(OSError):
        commit_path(folder, commit.part, plan.shards).unlink()
    raise GelgtError(
        "damaged_part",
        f"{path} was changed after it was written.",
        hint="Start again: it is made anew, and nothing else.",
    )


def _sweep(folder: Path) -> None:
    """Remove what killed processes have left."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()
