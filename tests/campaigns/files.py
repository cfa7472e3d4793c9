"""Files: every artifact damaged in many ways. Who reads it gets the same answer, or a GelgtError.

Where a reader cannot know better (a manifest is there to be edited, and whoever changes a run can
write new checksums), another answer is fine; a traceback, a crash, a wait without end or a change
outside the folder never is.
"""

import hashlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

import gelgt
from campaigns.damage import damage
from campaigns.frame import Campaign
from campaigns.world import World, cached_in, make_world
from gelgt.errors import GelgtError

NOBODY = 65_534  # a user without rights, for files that may not be read
SECONDS = 30  # a reader that takes longer waits for something


def digest(*parts: object) -> str:
    """A hash of tables, arrays and texts."""
    sum_ = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, pa.Table):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, part.schema) as writer:
                writer.write_table(part.combine_chunks())
            sum_.update(sink.getvalue())
        else:
            sum_.update(repr(part).encode())
    return sum_.hexdigest()


def read_run(folder: Path, world: World) -> str:
    from gelgt.runs.folder import load_run
    from gelgt.runs.record import Profile, read_record

    run = load_run(folder)
    profile = read_record(folder / "profile.json", Profile)
    tensors = {name: t.numpy().tobytes() for name, t in sorted(run.weights().items())}
    return digest(run.schema, run.task, run.intervals(), run.history_plan, profile, tensors)


def predict(folder: Path, world: World) -> str:
    from gelgt.inference import Predictor
    from gelgt.runs.folder import load_run

    db = gelgt.open(world.database)
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
    tensors = {name: t.numpy().tobytes() for name, t in sorted(snapshot.tensors().items())}
    return digest(state, tensors)


def read_task(folder: Path, world: World) -> str:
    task = gelgt.open(world.database).task(str(folder))
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
        return gelgt.open(world.database).graph().content_hash()


def read_features(folder: Path, world: World) -> str:
    with cached_in(folder):
        features = gelgt.open(world.database).features()
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
    db = gelgt.open(folder if (folder / "customers.csv").exists() else folder / "shop.db")
    return digest(*((name, db.num_rows(name)) for name in db.table_names))


@dataclass(frozen=True)
class Artifact:
    """A folder of a kind and those who read it.

    Attributes:
        place: Of the whole one in the world.
        is_sealed: Another answer than that of the whole one is wrong.
        weight: How often it comes.
    """

    name: str
    place: Callable[[World], Path]
    read: Callable[[Path, World], str]
    is_sealed: bool
    weight: float


ARTIFACTS = [
    Artifact("run", lambda w: w.run, read_run, True, 4),
    Artifact("resealed run", lambda w: w.run, read_run, False, 4),
    Artifact("prediction", lambda w: w.run, predict, True, 1),
    Artifact("prediction of a resealed run", lambda w: w.run, predict, False, 3),
    Artifact("report of a resealed run", lambda w: w.run, report, False, 1),
    Artifact("checkpoint", lambda w: w.folder / "checkpoint", read_checkpoint, True, 3),
    Artifact("task", lambda w: w.task, read_task, False, 4),
    Artifact("import", lambda w: w.database, read_import, False, 4),
    Artifact("graph", lambda w: w.cache, read_graph, True, 4),
    Artifact("features", lambda w: w.cache, read_features, True, 4),
    Artifact("parts", lambda w: w.folder / "parts", read_parts, False, 4),
    Artifact("SQLite file", lambda w: w.folder / "sqlite", read_source, False, 1),
    Artifact("CSV files", lambda w: w.folder / "csv", read_source, False, 1),
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
            shutil.copytree(artifact.place(world), copy)
            with cached_in(case / "cache"):
                answers[artifact.name] = artifact.read(copy, world)
    return Prepared(world, answers)


def _sources(world: World) -> None:
    """The shop as a SQLite file and as CSV files, each in a folder of its own."""
    sqlite, csv = world.folder / "sqlite", world.folder / "csv"
    if csv.exists():
        return
    sqlite.mkdir()
    shutil.copy(world.folder / "shop.db", sqlite / "shop.db")
    csv.mkdir()
    db = gelgt.open(world.database)
    for name in ("customers", "orders", "products"):
        db.read(name).to_pandas().to_csv(csv / f"{name}.csv", index=False)


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
        shutil.copytree(artifact.place(world), copy)
        done = damage(copy, random)
        if "resealed" in artifact.name:
            _reseal(copy)
        outside = _state(folder / "outside")
        outcome = "refused"
        with suppress(GelgtError), _as_nobody("forbidden" in done, folder), _at_most(SECONDS):
            with cached_in(folder / "cache"):
                answer = artifact.read(copy, world)
            is_same = answer == prepared.answers[artifact.name]
            assert is_same or not artifact.is_sealed, f"another answer after: {done}"
            outcome = "same answer" if is_same else "other answer"
        assert _state(folder / "outside") == outside, f"something outside was touched after: {done}"
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
