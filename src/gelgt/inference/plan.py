"""What the parts of sharded predictions agree on, and the records beside them.

    _plan.json                          written first, by whoever comes first: `Plan`
    part-00003-of-00016.parquet         the predictions of a part
    _part-00003-of-00016.commit.json    written after it: `Commit`. A part without one is no part
    _SUCCESS                            written last: all parts are there and fit together

Names with an underscore are skipped by those who read a folder of Parquet files (Arrow, pandas,
Spark, DuckDB with `*.parquet`). A part of another model, other data, another time or other options
is refused, never mixed with the rest.
"""

import json
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError
from gelgt.files import write_text
from gelgt.runs.record import Part, read_record

PLAN = "_plan.json"
SUCCESS = "_SUCCESS"
FORMAT = 1
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


def part_name(number: int, shards: int) -> str:
    """
    >>> part_name(3, 16)
    'part-00003-of-00016.parquet'
    """
    return f"part-{number:05d}-of-{shards:05d}.parquet"


def commit_path(folder: Path, number: int, shards: int) -> Path:
    """Where the commit record of a part is."""
    return folder / f"_{part_name(number, shards).removesuffix('.parquet')}.commit.json"


def read_plan(folder: Path) -> Plan | None:
    """The plan of a folder; None where there is none yet."""
    path = folder / PLAN
    return read_record(path, Plan) if path.is_file() else None


def agree(folder: Path, plan: Plan) -> None:
    """Write the plan into a folder that has none; where somebody was first, check that it is the
    same.

    Raises:
        GelgtError: ``…_mismatch``, or the folder holds something else or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / PLAN).exists():
            _check_empty(folder)
            _write_first(folder / PLAN, plan)
    except OSError as error:
        raise cannot_write(folder, error) from None
    there = read_plan(folder)
    assert there is not None
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


def read_commit(folder: Path, plan: Plan, number: int) -> Commit | None:
    """The commit record of a part whose file is there in its full size; None where the part has to
    be made.

    Raises:
        GelgtError: ``…_mismatch``: it is a part of something else.
    """
    path = commit_path(folder, number, plan.shards)
    if not path.is_file():
        return None
    try:
        commit = read_record(path, Commit)
    except GelgtError:
        return None  # damaged: the part is made again
    check_same(plan, commit.plan, f"The predictions of {path.name} differ", is_folder=True)
    file = folder / part_name(number, plan.shards)
    try:
        is_whole = file.stat().st_size == commit.bytes
    except FileNotFoundError:
        is_whole = False
    return commit if is_whole and commit.part == number else None


def write_record(path: Path, record: Part) -> None:
    """Write a record, whole or not at all."""
    write_text(path, json.dumps(record.model_dump(), ensure_ascii=False, indent=1) + "\n")


def cannot_write(path: Path, error: OSError) -> GelgtError:
    return GelgtError(
        "cannot_write",
        f"Predictions cannot be written to {path}: {error.strerror or error}.",
        hint="Free space or get permission to write there, then start again: what is committed "
        "stays; or give another folder.",
    )


def _check_empty(folder: Path) -> None:
    others = sorted(p.name for p in folder.iterdir() if not p.name.startswith((".", "_")))
    # somebody who came first may have written a plan and a part in the meantime
    if others and not (folder / PLAN).exists():
        raise GelgtError(
            "folder_in_use",
            f"{folder} holds other files, such as {others[0]}.",
            hint="Give a new or empty folder.",
        )


def _write_first(path: Path, plan: Plan) -> None:
    """Write a plan unless there is one: of several that try at once, one succeeds."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        write_record(temporary, plan)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links: who renames last wins, if two are so close
            if not path.exists():
                os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _differing(mine: dict[str, Any], theirs: dict[str, Any]) -> tuple[str, Any, Any]:
    """The first option that differs."""
    name = next(n for n in sorted({*mine, *theirs}) if mine.get(n) != theirs.get(n))
    return f"option {name.replace('_', '-')}", mine.get(name), theirs.get(name)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = str(value)
    return f"{text[:12]}…" if len(text) == 32 else text
