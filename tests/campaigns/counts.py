"""Writes the counts of the last run of the campaigns into docs/reliability.md.

PYTHONPATH=src:tests python -m campaigns.counts OUT [COMMIT]

COMMIT is what was run, by default what is checked out.
"""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

from campaigns.__main__ import NAMES

BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"
PAGE = Path("docs") / "reliability.md"


def table(out: Path) -> str:
    """The counts of each campaign as a Markdown table."""
    lines = ["| campaign | seed | cases | seconds | broken | outcomes |", "|---|" + "---|" * 5]
    total = seconds = 0.0
    for name in NAMES:
        path = out / f"{name}.json"
        if not path.is_file():
            continue
        record = json.loads(path.read_text())
        total, seconds = total + record["cases"], seconds + record["seconds"]
        counts = ", ".join(f"{word} {n:,}" for word, n in record["outcomes"].items())
        broken = f"{len(record['failed']):,}"
        row = [name, record["seed"], f"{record['cases']:,}", f"{record['seconds']:,.0f}"]
        lines.append("| " + " | ".join(map(str, [*row, broken, counts])) + " |")
    lines.append(f"| all | | {total:,.0f} | {seconds:,.0f} | | |")
    return "\n".join(lines)


def checked_out() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine(commit: str) -> str:
    cores = len(os.sched_getaffinity(0))
    return f"Commit {commit}, {cores} cores, Python {platform.python_version()}."


def main() -> None:
    out, commit = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else checked_out()
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    counts = f"{BEGIN}\n{machine(commit)}\n\n{table(out)}\n{END}"
    PAGE.write_text(before + counts + after, encoding="utf-8")


if __name__ == "__main__":
    main()
