"""Prints what `gelgt task` would make: label rows, seed times, the target, and the SQL."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gelgt.cli.output import print_table, say
from gelgt.errors import GelgtError
from gelgt.tasks.task import SPLITS
from gelgt.tasks.times import duration_text, time_text

if TYPE_CHECKING:
    from gelgt.tasks import Task

SAMPLE = 5


def read_definition(text: str) -> Any:
    """The definition itself, or the content of the file that it names."""
    path = Path(text)
    if path.suffix.lower() not in (".sql", ".csv", ".parquet"):
        return text
    if not path.is_file():
        raise GelgtError(
            "not_found",
            f"There is no file {text}.",
            hint="Give a PREDICT sentence, a task name, SQL, or an existing file.",
        )
    import pandas as pd

    from gelgt.sources.files import read_csv

    # Not pandas' own reader: it would make 7 of the key "007".
    readers: dict[str, Callable[[Path], Any]] = {
        ".sql": _read_text,
        ".csv": lambda p: read_csv(p).to_pandas(),
        ".parquet": pd.read_parquet,
    }
    try:
        return readers[path.suffix.lower()](path)
    except (OSError, ValueError) as error:
        # the errors of text encoding, pandas and Arrow are ValueErrors
        first = str(error).strip().splitlines()[0]
        raise GelgtError(
            "unreadable_file",
            f"{text} cannot be read: {first}",
            hint="Write the file again, text as UTF-8.",
        ) from None


def _read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def task_json(task: "Task") -> dict[str, Any]:
    """What `gelgt task --json` prints."""
    return {
        "name": task.name,
        "kind": task.kind,
        "task_type": task.task_type,
        "entity_table": task.entity_table,
        "entity_col": task.entity_col,
        "target_col": task.label_col,
        "timedelta": str(task.timedelta),
        "val_timestamp": str(task.val_timestamp),
        "test_timestamp": str(task.test_timestamp),
        **task.preview().to_dict(),
        "sql": task.sql,
        "notices": list(task.notices),
    }


def print_task(task: "Task") -> None:
    """The labels of a task, for a person."""
    preview = task.preview()
    say(
        f"{task.name}: {str(task.task_type).replace('_', ' ')} for each row of {task.entity_table}",
        style="bold",
    )
    if task.timedelta is not None:
        splits = (
            f"validation from {time_text(task.val_timestamp)}, test from "
            f"{time_text(task.test_timestamp)}"
        )
        say(f"window {duration_text(task.timedelta)}, {splits}")
    say("")
    rows = []
    for split in SPLITS:
        times = preview.seed_times[split]
        span = f"{str(times[0])[:10]} … {str(times[-1])[:10]}" if len(times) else "–"
        rows.append(
            (
                split,
                f"{preview.rows[split]:,}",
                f"{len(times):,}",
                span,
                _target(preview.target[split]),
            )
        )
    print_table(["split", "rows", "seed times", "from … to", task.label_col], rows, right=[1, 2])
    say("")
    _print_sample(task)
    if task.sql:
        say("", *task.sql.strip().splitlines())
    for notice in task.notices:
        say("", f"note: {notice}")


def _target(stats: Any) -> str:
    if "positives" in stats:
        return f"{stats['positives']:.1%} positive"
    if "median" in stats:
        return f"{stats['min']:g} … {stats['median']:g} … {stats['max']:g}"
    if "classes" in stats:
        largest = sorted(stats["classes"].items(), key=lambda entry: -entry[1])[:4]
        return ", ".join(f"{value} {count:,}" for value, count in largest)
    return ", ".join(f"{k} {v:.3g}" for k, v in stats.items()) or "–"


def _print_sample(task: "Task") -> None:
    """The newest training rows, with the user's own keys."""
    table = task.table("train")
    if table.num_rows == 0:
        return
    newest = table.slice(max(0, table.num_rows - SAMPLE))
    entities = newest.column(task.entity_col).to_pylist()
    keys = task.database.keys(task.entity_table)
    own = (
        [tuple(keys.column(c)[row].as_py() for c in keys.column_names) for row in entities]
        if keys is not None
        else [(row,) for row in entities]
    )
    times = newest.column(task.time_col).to_pylist() if task.time_col else ["–"] * len(entities)
    labels = newest.column(task.label_col).to_pylist()
    shown = [
        (str(time), ", ".join(map(str, key)), str(_label(task, label)))
        for time, key, label in zip(times, own, labels)
    ]
    print_table([task.time_col or "time", f"{task.entity_table} key", task.label_col], shown)


def _label(task: "Task", label: Any) -> Any:
    return task.classes[label] if task.classes and isinstance(label, int) else label
