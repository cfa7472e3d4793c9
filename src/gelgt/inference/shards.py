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
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gelgt.errors import GelgtError
from gelgt.hashing import splitmix64
from gelgt.inference.fingerprints import data_fingerprint, model_fingerprint
from gelgt.inference.part_folder import PartFolder, WrittenPart, part_folder
from gelgt.inference.plan import (
    READERS,
    SUCCESS,
    Commit,
    Place,
    Plan,
    check_agreed,
    commit_name,
    part_name,
    read_commits,
    read_plan,
    record_text,
)
from gelgt.inference.predictor import Predictor
from gelgt.inference.seeds import SeedRows
from gelgt.sampling.seeds import entity_keys
from gelgt.sources.database import Database

MAX_SHARDS = 99_999  # five digits in the name of a part


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


def missing(folder: Place, plan: Plan) -> list[int]:
    """The parts that have to be made."""
    done = {commit.part for commit in read_commits(folder, plan)}
    return [number for number in range(plan.shards) if number not in done]


def write_part(
    folder: Place, plan: Plan, number: int, entities: int, tables: Iterable[pa.Table]
) -> Commit:
    """Write the predictions of a part as they come, and commit it.

    Raises:
        GelgtError: ``cannot_write``, or what object storage answers; nothing is committed then.
    """
    start, folder = time.perf_counter(), part_folder(folder)
    written = folder.write_part(part_name(number, plan.shards), tables)
    commit = Commit(
        part=number,
        entities=entities,
        rows=written.rows,
        bytes=written.bytes,
        checksum=written.checksum,
        seconds=round(time.perf_counter() - start, 3),
        finished=round(time.time(), 3),
        host=socket.gethostname(),
        plan=plan,
        tag=written.tag,
    )
    folder.write(commit_name(number, plan.shards), record_text(commit))
    return commit


def finish(folder: Place, plan: Plan) -> bool:
    """Write `_SUCCESS` if all parts are there, with the bytes that were committed, and hold the
    whole population; whether it is there now.

    A part whose bytes have changed loses its commit record, so that it is made again.

    Raises:
        GelgtError: ``…_mismatch``, ``damaged_part``.
    """
    folder = part_folder(folder)
    commits = read_commits(folder, plan)
    if len(commits) < plan.shards:
        return False
    check_agreed(folder, plan)
    with ThreadPoolExecutor(READERS) as pool:
        list(pool.map(lambda commit: _check_bytes(folder, plan, commit), commits))
    entities = sum(commit.entities for commit in commits)
    if entities != plan.entities:
        raise GelgtError(
            "damaged_part",
            f"The parts in {folder} hold {entities:,} entities of {plan.entities:,}.",
            hint="Remove the folder and start again.",
        )
    lines = [f"{c.checksum}  {part_name(c.part, plan.shards)}  {c.rows}" for c in commits]
    folder.write(SUCCESS, "\n".join(lines) + "\n")
    folder.sweep()
    return True


def is_finished(folder: Place) -> bool:
    return part_folder(folder).size(SUCCESS) is not None


def committed(folder: Place) -> tuple[Plan, list[Commit]]:
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
    return plan, read_commits(folder, plan)


def _check_bytes(folder: PartFolder, plan: Plan, commit: Commit) -> None:
    name = part_name(commit.part, plan.shards)
    written = WrittenPart(commit.rows, commit.bytes, commit.checksum, commit.tag)
    if folder.holds(name, written):
        return
    folder.remove(commit_name(commit.part, plan.shards))
    raise GelgtError(
        "damaged_part",
        f"{folder}/{name} was changed after it was written.",
        hint="Start again: it is made anew, and nothing else.",
    )
