"""Files: every artifact damaged in many ways. Who reads it gets the same answer, or a GelgtError.

Where a reader cannot know better (a manifest is there to be edited, and whoever changes a run can
write new checksums), another answer is fine; a traceback, a crash, a wait without end or a change
outside the folder never is.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from campaigns.damage import damage
from campaigns.file_readers import (
    predict,
    read_checkpoint,
    read_features,
    read_graph,
    read_import,
    read_parts,
    read_run,
    read_source,
    read_task,
    report,
    whole,
)
from campaigns.frame import Campaign
from campaigns.world import World, cached_in, copy_tree, make_world
from gelgt.errors import GelgtError

NOBODY = 65_534  # a user without rights, for files that may not be read
SECONDS = 30  # a reader that takes longer waits for something


@dataclass(frozen=True)
class Artifact:
    """A folder of a kind and those who read it.

    Attributes:
        place: Of the whole one in the world.
        is_sealed: Another answer than that of the whole one is wrong.
        weight: How often it comes.
        is_warm: What its reader builds from the whole database is in the cache already.
    """

    name: str
    place: Callable[[World], Path]
    read: Callable[[Path, World], str]
    is_sealed: bool
    weight: float
    is_warm: bool = False


ARTIFACTS = [
    Artifact("run", lambda w: w.run, read_run, True, 4),
    Artifact("resealed run", lambda w: w.run, read_run, False, 4),
    Artifact("prediction", lambda w: w.run, predict, True, 1, True),
    Artifact("prediction of a resealed run", lambda w: w.run, predict, False, 3, True),
    Artifact("report of a resealed run", lambda w: w.run, report, False, 1),
    Artifact("checkpoint", lambda w: w.folder / "checkpoint", read_checkpoint, True, 3),
    Artifact("task", lambda w: w.task, read_task, False, 4, True),
    Artifact("import", lambda w: w.database, read_import, False, 4),
    Artifact("graph", lambda w: w.cache, read_graph, True, 4),
    Artifact("features", lambda w: w.cache, read_features, True, 4),
    Artifact("parts", lambda w: w.folder / "parts", read_parts, False, 4),
    Artifact("SQLite file", lambda w: w.folder / "sqlite", read_source, False, 1),
    Artifact("CSV files", lambda w: w.folder / "csv", read_source, False, 1),
    Artifact("Parquet files", lambda w: w.folder / "parquet", read_source, False, 1),
]
_WEIGHTS = np.array([a.weight for a in ARTIFACTS]) / sum(a.weight for a in ARTIFACTS)


@dataclass(frozen=True)
class Prepared:
    """The world and the answers of its whole artifacts."""

    world: World
    answers: dict[str, str]


def prepare(folder: Path) -> Prepared:
    world = make_world(folder)
    _sources(world)
    answers = {}
    for artifact in ARTIFACTS:
        with _case_folder(world) as case:
            copy = case / artifact.place(world).name
            copy_tree(artifact.place(world), copy)
            with cached_in(_cache(artifact, world, case)):
                answers[artifact.name] = artifact.read(copy, world)
    shutil.rmtree(world.folder / "warm whole", ignore_errors=True)
    copy_tree(world.folder / "warm", world.folder / "warm whole")
    return Prepared(world, answers)


def _cache(artifact: Artifact, world: World, case: Path) -> Path:
    return world.folder / "warm" if artifact.is_warm else case / "cache"


def _keep_warm(world: World) -> None:
    """What a reader of something damaged added or changed is gone for the next one."""
    warm, as_it_was = world.folder / "warm", world.folder / "warm whole"
    if _times(warm) != _times(as_it_was):
        shutil.rmtree(warm, ignore_errors=True)
        copy_tree(as_it_was, warm)


def _times(folder: Path) -> dict[str, int]:
    """The files of a folder and when each was written."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            found[f"{place[len(str(folder)) :]}/{name}"] = os.lstat(f"{place}/{name}").st_mtime_ns
    return found


def _sources(world: World) -> None:
    """The shop as a SQLite file, CSV files and Parquet files, each in a folder of its own."""
    sqlite, csv, parquet = (world.folder / name for name in ("sqlite", "csv", "parquet"))
    for folder in (sqlite, csv, parquet):
        folder.mkdir(exist_ok=True)
    shutil.copy(world.folder / "shop.db", sqlite / "shop.db")
    db = whole(world)
    for name in ("customers", "orders", "products"):
        db.read(name).to_pandas().to_csv(csv / f"{name}.csv", index=False)
        pq.write_table(db.read(name), parquet / f"{name}.parquet")


@contextmanager
def _case_folder(world: World) -> Iterator[Path]:
    """An empty folder with something outside of the artifact that must stay as it is."""
    case = world.folder / "case"
    shutil.rmtree(case, ignore_errors=True)
    (case / "outside").mkdir(parents=True)
    (case / "outside" / "secret.json").write_text('{"format": 5, "files": {}}')
    shutil.copy(world.task / "train.parquet", case / "outside" / "secret.parquet")
    yield case
    shutil.rmtree(case, ignore_errors=True)


def case(prepared: Prepared, number: int, random: np.random.Generator) -> str:
    world = prepared.world
    artifact = ARTIFACTS[random.choice(len(ARTIFACTS), p=_WEIGHTS)]
    with _case_folder(world) as folder:
        copy = folder / artifact.place(world).name
        copy_tree(artifact.place(world), copy)
        done = damage(copy, random)
        if "resealed" in artifact.name:
            _reseal(copy)
        outside = _state(folder / "outside")
        outcome = "refused"
        with suppress(GelgtError), _as_nobody("forbidden" in done, folder), _at_most(SECONDS):
            with cached_in(_cache(artifact, world, folder)):
                answer = artifact.read(copy, world)
            is_same = answer == prepared.answers[artifact.name]
            assert is_same or not artifact.is_sealed, f"another answer after: {done}"
            outcome = "same answer" if is_same else "other answer"
        assert _state(folder / "outside") == outside, f"something outside was touched after: {done}"
        if artifact.is_warm:
            _keep_warm(world)
        known = {"outside", "cache", copy.name, "report.html"}
        assert {path.name for path in folder.iterdir()} <= known, "something was left outside"
    return f"{artifact.name}: {outcome}"


def _reseal(run: Path) -> None:
    """New checksums, as whoever changes a run could write them."""
    from gelgt.runs.folder import finish_run

    try:
        finish_run(run)
    except (OSError, GelgtError):
        return


def _state(folder: Path) -> dict[str, object]:
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in sorted(folder.iterdir())}


@contextmanager
def _as_nobody(needed: bool, folder: Path) -> Iterator[None]:
    """As a user without rights, where root would read everything."""
    is_reachable = all(parent.stat().st_mode & 0o001 for parent in folder.parents)
    if not needed or os.geteuid() != 0 or not is_reachable:
        yield
        return
    folder.chmod(0o777)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"no answer in {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


CAMPAIGN = Campaign("files", prepare, case, long=100_000, short=40)
