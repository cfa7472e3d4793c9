"""Writes the counts of runs of the campaigns into docs/reliability.md.

PYTHONPATH=src:tests python -m campaigns.counts OUT [OUT …] [--ran TEXT]

TEXT says what was run, by default what is checked out and where this runs.
"""

import argparse
import json
import os
import platform
import subprocess
from pathlib import Path

from campaigns.__main__ import NAMES

BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"
PAGE = Path("docs") / "reliability.md"


def table(outs: list[Path]) -> str:
    """The counts of each campaign as a Markdown table, a row for each run of it."""
    lines = ["| campaign | seed | cases | seconds | broken | outcomes |", "|---|" + "---|" * 5]
    total = seconds = 0.0
    paths = [(name, out / f"{name}.json") for name in NAMES for out in outs]
    for name, path in paths:
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


def commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def checked_out_here() -> str:
    cores = len(os.sched_getaffinity(0))
    return f"Commit {commit()}, {cores} cores, Python {platform.python_version()}."


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m campaigns.counts")
    parser.add_argument("outs", nargs="+", type=Path)
    parser.add_argument("--ran", help="what was run")
    options = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    ran = options.ran or checked_out_here()
    counts = f"{BEGIN}\n{ran}\n\n{table(options.outs)}\n{END}"
    PAGE.write_text(before + counts + after, encoding="utf-8")


if __name__ == "__main__":
    main()
