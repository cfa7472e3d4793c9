"""What the parts of sharded predictions agree on, and the records beside them.

    _plan.json                          written first, by whoever comes first: `Plan`
    part-00003-of-00016.parquet         the predictions of a part
    _part-00003-of-00016.commit.json    written after it: `Commit`. A part without one is no part
    _SUCCESS                            written last: all parts are there and fit together

They are files of a folder or objects under a prefix (part_folder.py).

Names with an underscore are skipped by those who read a folder of Parquet files (Arrow, pandas,
Spark, DuckDB with `*.parquet`). A part of another model, other data, another time or other options
is refused, never mixed with the rest.
"""

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError
from gelgt.inference.part_folder import PartFolder, part_folder
from gelgt.runs.record import Part, parse_record

Place = str | Path | PartFolder  # where parts go

PLAN = "_plan.json"
SUCCESS = "_SUCCESS"
FORMAT = 1
READERS = 16  # records that are read at a time
# Fields of a plan, with the code of the error where they differ and what they are called in it.
SHARED = {
    "version": ("version_mismatch", "version of gelgt"),
    "model": ("model_mismatch", "model"),
    "data": ("data_mismatch", "data"),
    "at": ("time_mismatch", "seed time"),
    "options": ("options_mismatch", "options"),
    "shards": ("options_mismatch", "number of shards"),
    "entities": ("data_mismatch", "number of entities"),
}
REPAIRS = {
    "version_mismatch": "Install the same gelgt everywhere",
    "model_mismatch": "Copy the run folder again",
    "data_mismatch": "Copy the source again, or read it again with --fresh",
    "time_mismatch": "Give the same --at, or none",
    "options_mismatch": "Give the same options",
}


class Plan(Part):
    """What all parts share.

    Attributes:
        shards: Number of parts.
        entities: Size of the population.
        at: Seed time of all of them, or None where each row has its own (autocomplete).
        model: Fingerprint of the run; see `gelgt.inference.fingerprints`.
        data: Fingerprint of the rows and keys.
        options: What else changes predictions: interval, k, device, …
        version: Of gelgt.
    """

    format: int = FORMAT
    shards: int
    entities: int
    at: str | None
    model: str
    data: str
    options: dict[str, Any]
    version: str


class Commit(Part):
    """A part that is whole.

    Attributes:
        part: Its number, from 0.
        entities: Whom it predicts for.
        rows: Of its file; several for each entity where rows are recommended.
        bytes: Size of its file.
        checksum: Of its file.
        seconds: That it took.
        finished: When, in seconds since 1970.
        host: Where.
        plan: What it was made for.
        tag: The version of the object, in object storage.
    """

    part: int
    entities: int
    rows: int
    bytes: int
    checksum: str
    seconds: float
    finished: float
    host: str
    plan: Plan
    tag: str | None = None


def part_name(number: int, shards: int) -> str:
    """
    >>> part_name(3, 16)
    'part-00003-of-00016.parquet'
    """
    return f"part-{number:05d}-of-{shards:05d}.parquet"


def commit_name(number: int, shards: int) -> str:
    """
    >>> commit_name(3, 16)
    '_part-00003-of-00016.commit.json'
    """
    return f"_{part_name(number, shards).removesuffix('.parquet')}.commit.json"


def read_plan(folder: Place) -> Plan | None:
    """The plan of a folder; None where there is none yet."""
    folder = part_folder(folder)
    text = folder.read(PLAN)
    return None if text is None else parse_record(text, f"{folder}/{PLAN}", Plan)


def agree(folder: Place, plan: Plan) -> None:
    """Write the plan into a folder that has none; where somebody was first, check that it is the
    same.

    Raises:
        GelgtError: ``…_mismatch``, or the folder holds something else or cannot be written.
    """
    folder = part_folder(folder)
    if folder.read(PLAN) is None:
        _check_empty(folder)
        folder.write_first(PLAN, record_text(plan))
    check_agreed(folder, plan)


def check_agreed(folder: PartFolder, plan: Plan) -> None:
    """Raises where the plan of a folder is another one."""
    there = read_plan(folder)
    if there is None:
        raise GelgtError(
            "no_parts", f"{folder} has no plan any more.", hint="Somebody removed it: start again."
        )
    check_same(plan, there, f"The predictions in {folder} differ", is_folder=True)


def check_same(plan: Plan, other: Plan, what: str, is_folder: bool = False) -> None:
    """Raises where two plans differ; the message begins with `what` and names the difference."""
    for field, (code, name) in SHARED.items():
        mine, theirs = getattr(plan, field), getattr(other, field)
        if mine == theirs:
            continue
        if field == "options":
            name, mine, theirs = _differing(mine, theirs)
        else_ = "give another folder, or remove this one" if is_folder else "start again"
        raise GelgtError(
            code,
            f"{what} in the {name}: {_shown(theirs)} there, {_shown(mine)} here.",
            hint=f"{REPAIRS[code]}; otherwise {else_}.",
        )


def read_commit(
    folder: Place, plan: Plan, number: int, sizes: Mapping[str, int] | None = None
) -> Commit | None:
    """The commit record of a part whose file is there in its full size; None where the part has to
    be made.

    Args:
        sizes: What the folder holds, where it has just been listed.

    Raises:
        GelgtError: ``…_mismatch``: it is a part of something else.
    """
    folder, name = part_folder(folder), commit_name(number, plan.shards)
    text = folder.read(name) if sizes is None or name in sizes else None
    if text is None:
        return None
    try:
        commit = parse_record(text, name, Commit)
    except GelgtError:
        return None  # damaged: the part is made again
    check_same(plan, commit.plan, f"The predictions of {name} differ", is_folder=True)
    part = part_name(number, plan.shards)
    is_whole = (folder.size(part) if sizes is None else sizes.get(part)) == commit.bytes
    return commit if is_whole and commit.part == number else None


def read_commits(folder: Place, plan: Plan) -> list[Commit]:
    """The commit records of all parts that are there, in order; some at a time, because object
    storage takes long for each."""
    folder = part_folder(folder)
    sizes = folder.sizes()
    with ThreadPoolExecutor(READERS) as pool:
        commits = pool.map(lambda n: read_commit(folder, plan, n, sizes), range(plan.shards))
        return [commit for commit in commits if commit is not None]


def record_text(record: Part) -> str:
    """A record as it is written."""
    return json.dumps(record.model_dump(), ensure_ascii=False, indent=1) + "\n"


def _check_empty(folder: PartFolder) -> None:
    others = sorted(name for name in folder.sizes() if not name.startswith("_"))
    # somebody who came first may have written a plan and a part in the meantime
    if others and folder.read(PLAN) is None:
        raise GelgtError(
            "folder_in_use",
            f"{folder} holds other files, such as {others[0]}.",
            hint="Give a new or empty folder.",
        )


def _differing(mine: dict[str, Any], theirs: dict[str, Any]) -> tuple[str, Any, Any]:
    """The first option that differs."""
    names = sorted({*mine, *theirs})
    # an option that is there as null differs from one that is not there
    name = next((n for n in names if (n in mine, mine.get(n)) != (n in theirs, theirs.get(n))), "?")
    return f"option {name.replace('_', '-')}", mine.get(name), theirs.get(name)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = str(value)
    return f"{text[:12]}…" if len(text) == 32 else text
