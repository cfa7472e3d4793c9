"""Writes the counts of the last run of the campaigns into docs/reliability.md.

PYTHONPATH=src:tests python -m campaigns.counts OUT [PAGE]
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


def machine() -> str:
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    return f"Commit {commit}, {cores} cores, Python {platform.python_version()}, one process."


def main() -> None:
    out, page = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else PAGE
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    counts = f"{BEGIN}\n{machine()}\n\n{table(out)}\n{END}"
    page.write_text(before + counts + after, encoding="utf-8")


if __name__ == "__main__":
    main()
