"""A small world that campaigns share: a shop, its import, a task, a trained run, a checkpoint and
predictions in parts, with the cache that they left."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import gelgt
from gelgt.demo import shop
from gelgt.presets import RunConfig

SENTENCE = "PREDICT COUNT(orders.*, 0, 10, days) > 0 FOR EACH customers.id"
TINY = {
    "train.epochs": 1,
    "train.steps_per_epoch": 2,
    "train.ensemble": 1,
    "train.windows": 1,
    "train.best_epochs": 1,
    "train.batch_size": 16,
    "train.warmup": 1,
    "train.rate": 0.01,
    "model.width": 16,
    "model.heads": 2,
    "model.keep": 12,
    "model.row_width": 8,
    "model.history_columns": 4,
    "model.column_members": 1,
    "sampling.budget": 24,
}


@dataclass(frozen=True)
class World:
    """Folders of whole artifacts, never changed.

    Attributes:
        folder: Around them.
        at: A time before which the shop has rows.
    """

    folder: Path
    at: str

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def source(self) -> str:
        return f"sqlite:///{self.folder / 'shop.db'}"

    @property
    def database(self) -> Path:
        return self.folder / "import"

    @property
    def task(self) -> Path:
        return next((self.database / "tasks").iterdir())

    @property
    def run(self) -> Path:
        return self.folder / "run"


@contextmanager
def cached_in(folder: Path) -> Iterator[None]:
    """Use a folder as the cache."""
    with patch.dict(os.environ, {"GELGT_CACHE": str(folder)}):
        yield


@contextmanager
def quick_training() -> Iterator[None]:
    """Forests and columns networks of a few rounds."""
    names = ("training.trees.ROUNDS", "history.choose.ROUNDS", "training.columns_fit.EPOCH")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(patch(f"gelgt.{name}", 2))
        yield


def small_shop(path: Path, customers: int, days: int) -> str:
    """The address of a shop of five tables, which have columns of every kind, keys and times, their
    own and those of others: each further one would take its time in every case."""
    made = shop(path, customers=customers, days=days, seed=3)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for table in ("visits", "page_pings", "support_tickets"):
            connection.execute(f"DROP TABLE {table}")
        connection.execute("VACUUM")
    return made.url


def copy_tree(source: Path, target: Path) -> None:
    """A folder of small files with their times; `shutil` takes three times as long."""
    os.mkdir(target)
    for entry in os.scandir(source):
        if entry.is_dir():
            copy_tree(Path(entry.path), target / entry.name)
            continue
        copy, stat = f"{target}/{entry.name}", entry.stat()
        with open(entry.path, "rb", 0) as file, open(copy, "wb", 0) as other:
            other.write(file.read())
        os.utime(copy, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def make_world(folder: Path) -> World:
    """The world in a folder; one that was made there before is taken as it is."""
    world = World(folder, "2024-05-20")
    if (folder / "whole").exists():
        return world
    from gelgt.training import Options, train_run

    with cached_in(world.cache), quick_training():
        db = gelgt.open(small_shop(folder / "shop.db", 40, 160), out=world.database)
        task = db.task(SENTENCE, name="orders", eval_timestamps=1)
        task.save()
        config = RunConfig.of("cpu", task.task_type, TINY)
        run = train_run(db, task, world.run, config, Options(baseline_hops=(), device="cpu"))
        _checkpoint(folder / "checkpoint", run.weights())
        _parts(world)
        db.graph()
        db.features()
    (folder / "whole").touch()
    return world


def _checkpoint(folder: Path, weights: dict) -> None:
    from gelgt.training.checkpoint import Snapshot, State, save_checkpoint

    state = State(epoch=1, step=1, total=3, loss=0.5, best=0.6, best_epochs=[(1, 0.6)])
    few = dict(sorted(weights.items())[:6])
    tensors = {f"{part}/{name}": t for part in ("model", "best/0") for name, t in few.items()}
    folder.mkdir()
    save_checkpoint(folder, state, Snapshot.of(tensors, 1), "key")


def _parts(world: World) -> None:
    from gelgt.inference.part_scorer import PartScorer, Question
    from gelgt.inference.plan import agree
    from gelgt.inference.shards import finish, missing

    question = Question(str(world.run), str(world.database), at=world.at, device="cpu")
    scorer, folder = PartScorer(question), world.folder / "parts"
    plan = scorer.plan(3)
    agree(folder, plan)
    for number in missing(folder, plan):
        scorer.write(folder, plan, number)
    assert finish(folder, plan)
