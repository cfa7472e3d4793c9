"""The commands that are killed: where each begins, what it leaves, and what has to be the same."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from campaigns.file_readers import digest
from campaigns.world import SENTENCE, TINY
from gelgt.runs.tensors import load_tensors

OLDER = "PREDICT COUNT(orders.*, 0, 20, days) > 0 FOR EACH customers.id"
LEFT = re.compile(r"\..*\.(tmp|old)")
AT = "2024-05-20"
SETTINGS = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
TASK = ("--name", "orders", "--eval-timestamps", "1")
TRAIN = ("train", "import", "orders", "--out", "run", "--device", "cpu", *SETTINGS)
PREDICT = ("predict", "run", "--all", "--at", AT, "--device", "cpu")
ASIDE = ("tmp", "cache")
TIMED = ("seconds", "training_seconds", "phases", "machine", "time", "key", "command")


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        name: In outcomes.
        state: What is there before, a folder of states.
        arguments: Of `gelgt`.
        leaves: Files and folders that it writes; nothing else may change.
        older: Puts an older result in its place, which stays whole until it is replaced.
        whole: Patterns of files and folders that are there whole or not at all, at any moment.
        more: Arguments without which a second start is refused, by the code of that error; ""
            where it is refused because all is done.
    """

    name: str
    state: str
    arguments: tuple[str, ...]
    leaves: tuple[str, ...]
    whole: tuple[str, ...] = ()
    older: Callable[[Path], None] | None = None
    more: dict[str, str] = field(default_factory=dict)


def _older_task(case: Path) -> None:
    folder = Path("import") / "tasks" / "orders"
    shutil.copytree(case.parent / "states" / "older" / folder, case / folder)


def _older_file(name: str) -> Callable[[Path], None]:
    return lambda case: (case / name).write_bytes(b"older " * 500) and None


RESUMED = {"run_exists": "--resume"}
RUN_FILES = ("run/*.json", "run/*.yaml", "run/model.safetensors", "run/*/*.parquet")
WHY = ("explain", "run", "--entity", "10105", "--at", AT, "--device", "cpu", "--out", "why.json")

COMMANDS = (
    Command(
        "import",
        "source",
        ("import", "shop.db", "import"),
        ("import",),
        ("import",),
        more={"exists": ""},
    ),
    Command("inspect", "source", ("inspect", "shop.db", "--json"), ()),
    Command("grow", "grown", ("inspect", "shop.db", "--json"), ()),
    Command(
        "task",
        "imported",
        ("task", "import", SENTENCE, *TASK),
        ("import",),
        ("import/db", "import/tasks/orders"),
    ),
    Command(
        "task anew",
        "imported",
        ("task", "import", SENTENCE, *TASK, "--overwrite"),
        ("import",),
        ("import/db", "import/tasks/orders"),
        _older_task,
    ),
    Command("train", "task", TRAIN, ("run",), RUN_FILES, more=RESUMED),
    Command("retrain", "task", (*TRAIN, "--retrain-all"), ("run",), RUN_FILES, more=RESUMED),
    Command(
        "predict",
        "run",
        (*PREDICT, "--out", "new.csv"),
        ("new.csv",),
        ("new.csv",),
        _older_file("new.csv"),
    ),
    Command(
        "parts",
        "run",
        (*PREDICT, "--out", "parts", "--shards", "3"),
        ("parts",),
        ("parts/*.parquet", "parts/_*.json"),
    ),
    Command(
        "report",
        "run",
        ("report", "run", "--out", "new.html"),
        ("new.html",),
        ("new.html",),
        _older_file("new.html"),
    ),
    Command("explain", "run", WHY, ("why.json",), ("why.json",), _older_file("why.json")),
)


def result(command: Command, case: Path, said: str) -> dict[str, str]:
    """Hashes of what a command left, without the times that it took."""
    found = {"standard output": digest(said)} if "--json" in command.arguments else {}
    paths = [path.relative_to(case) for name in command.leaves for path in files_of(case / name)]
    return found | {str(p): digest(_content(case / p)) for p in paths if not is_left(p)}


def is_left(path: Path) -> bool:
    """Whether gelgt calls something so that it has not finished."""
    return any(LEFT.fullmatch(name) for name in path.parts)


def half_written(command: Command, case: Path, before: Path) -> list[str]:
    """What is neither as it was before, nor as an unbroken command leaves it."""
    after = case.parent / "unbroken" / command.name
    wrong = []
    for pattern in command.whole:
        for path in sorted({p.relative_to(f) for f in (case, before) for p in f.glob(pattern)}):
            now = tree(case / path)
            if path.name != "progress.json" and now not in (
                tree(before / path),
                tree(after / path),
            ):
                wrong.append(str(path))
    return wrong


def tree(path: Path) -> str | None:
    """A hash of a file or of what a folder holds; None where it is not there."""
    if not path.exists():
        return None
    return digest(*((str(p.relative_to(path)), _content(p)) for p in files_of(path)))


def files_of(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def _content(path: Path) -> object:
    in_run = path.parent.name == "run"
    if in_run and path.name in ("progress.json", "report.html", "_SUCCESS"):
        # they tell how long it took, and `gelgt report` writes the same again
        return path.name == "report.html" or "…"
    if in_run and path.name == "metrics.json":
        record = json.loads(path.read_text())
        epochs = [{**epoch, "seconds": 0} for epoch in record.pop("epochs")]
        return [epochs, {k: v for k, v in sorted(record.items()) if k not in TIMED}]
    if path.name.endswith(".commit.json"):
        record = json.loads(path.read_text())
        return {k: v for k, v in sorted(record.items()) if k not in ("seconds", "finished")}
    if path.suffix == ".safetensors":  # its header has no order
        tensors, meta = load_tensors(path)
        return digest(sorted(meta.items()), [(k, v.numpy().tobytes()) for k, v in tensors.items()])
    if path.suffix == ".parquet" and in_run:
        return digest(pq.read_table(path))
    return path.read_bytes()


def untouched(command: Command, case: Path) -> str:
    """Everything that a command has no business to change."""
    parts = []
    for path in files_of(case):
        name = str(path.relative_to(case))
        is_written = any(name == own or name.startswith(f"{own}/") for own in command.leaves)
        if not is_written and not is_left(Path(name)) and name.split("/")[0] not in ASIDE:
            parts.append((name, path.read_bytes()))
    return digest(*parts)
