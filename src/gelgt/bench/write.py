"""Writes a study's files: JSON for programs, Markdown and charts for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gelgt.bench.tables import study_markdown
from gelgt.training.run_folder import write_file, write_json


def write_study(result: Mapping[str, Any], out: Path) -> None:
    """OUT/STUDY.json and OUT/STUDY.md."""
    name = result["study"]
    write_json(out / f"{name}.json", result)
    text = study_markdown(result)
    write_file(out / f"{name}.md", lambda path: path.write_text(text, encoding="utf-8"))
