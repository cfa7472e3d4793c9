"""`gelgt task`: the labels of a task, shown and then written."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import JsonFlag, SourceOptions, TaskOptions
from gelgt.cli.output import note, print_json, print_table, say

if TYPE_CHECKING:
    from gelgt.tasks import Task

SAMPLE = 5  # training labels that are shown
SHOWN_KEYS = 6  # of the keys of a recommendation's label


@bundled
def task_command(
    source: SourceOptions,
    task: TaskOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Folder of the task; tasks/NAME of the data by default."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the labels and write nothing.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a task of the same name.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Turn a question into label tables: show them, then write them."""
    from gelgt.schema.finding_text import told
    from gelgt.tasks.task_findings import task_findings

    db = source.open()
    labels = task.make(db)
    findings = task_findings(db, labels)
    if not as_json:
        print_task(labels)
        for text in told(findings, db.source):
            note(f"note: {text}")
    folder = None if dry_run else labels.save(out, overwrite=overwrite)
    if as_json:
        listed = {"findings": [finding.to_dict() for finding in findings]}
        print_json(task_json(labels) | listed | {"out": None if folder is None else str(folder)})
    elif folder is not None:
        say("", f"written to {folder}")


def task_json(task: "Task") -> dict[str, Any]:
    """What `gelgt task --json` prints."""
    recommended = {"dst_entity_table": task.dst_entity_table, "eval_k": task.eval_k}
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
        **({} if task.dst_entity_table is None else recommended),
    }


def task_words(task: "Task") -> str:
    """What is predicted for whom."""
    if task.dst_entity_table is not None:
        return (
            f"{task.name}: recommends rows of {task.dst_entity_table} to each row of "
            f"{task.entity_table}"
        )
    return (
        f"{task.name}: {str(task.task_type).replace('_', ' ')} for each row of {task.entity_table}"
    )


def print_task(task: "Task") -> None:
    """The labels of a task: counts by split, a sample, and the SQL."""
    from gelgt.tasks.build import DEFAULT_K
    from gelgt.tasks.task import SPLITS
    from gelgt.tasks.times import duration_text, time_text

    preview = task.preview()
    say(task_words(task), style="bold")
    if task.timedelta is not None:
        splits = (
            f"validation from {time_text(task.val_timestamp)}, test from "
            f"{time_text(task.test_timestamp)}"
        )
        say(f"window {duration_text(task.timedelta)}, {splits}")
    if task.dst_entity_table is not None:
        say(f"the first {task.eval_k or DEFAULT_K} recommendations are evaluated")
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
    if "mean_length" in stats:
        return f"{stats['mean_length']:.1f} keys on average"
    return ", ".join(f"{k} {v:.3g}" for k, v in stats.items()) or "–"


def _print_sample(task: "Task") -> None:
    """The newest training labels, with the keys that the source has."""
    table = task.table("train")
    if table.num_rows == 0:
        return
    newest = table.slice(max(0, table.num_rows - SAMPLE))
    entities = newest.column(task.entity_col).to_pylist()
    entity_keys = _keys(task, task.entity_table, entities)
    times = newest.column(task.time_col).to_pylist() if task.time_col else ["–"] * len(entities)
    labels = newest.column(task.label_col).to_pylist()
    shown = [
        (str(time), key, _label(task, label))
        for time, key, label in zip(times, entity_keys, labels)
    ]
    print_table([task.time_col or "time", f"{task.entity_table} key", task.label_col], shown)


def _keys(task: "Task", table: str, rows: list[int]) -> list[str]:
    """The source's keys of some rows; row numbers where a table has none."""
    keys = task.database.keys(table)
    if keys is None:
        return [str(row) for row in rows]
    return [", ".join(str(keys.column(c)[row]) for c in keys.column_names) for row in rows]


def _label(task: "Task", label: Any) -> str:
    if task.dst_entity_table is not None:
        keys = _keys(task, task.dst_entity_table, label[:SHOWN_KEYS])
        return "; ".join(keys) + (
            f" and {len(label) - SHOWN_KEYS:,} more" if label[SHOWN_KEYS:] else ""
        )
    return str(task.classes[label] if task.classes and isinstance(label, int) else label)
