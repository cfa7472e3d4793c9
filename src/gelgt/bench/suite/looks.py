"""OUT/looks.md: a line for every time that the test labels of tasks were scored in a folder.

Choices that were made after a look rest on the test. Origins are replayed without these labels and
are not logged.
"""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

FILE = "looks.md"
_HEAD = """# Looks at the test

Each line is a time at which the suite scored test labels in this folder. Choose by validation and
by `--origins`, and look once, at the end.

"""


def log_look(out: Path, tasks: Sequence[str], trained: int, command: str) -> int:
    """Append a line; gives how many looks there are with it."""
    path = out / FILE
    before = path.read_text(encoding="utf-8") if path.is_file() else _HEAD
    number = before.count("\n- ") + 1
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    line = f"- {now}, look {number}: {', '.join(tasks)}; {trained} new runs; `{command}`\n"
    out.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:  # appended: two commands may end at once
        file.write(line if path.stat().st_size else _HEAD + line)
        file.flush()
        os.fsync(file.fileno())
    return number
