"""Writes a study's files: JSON for programs, Markdown and charts for people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gelgt.bench.plots import study_plots
from gelgt.bench.tables import NOT_RUN, facts, markdown_table, study_markdown
from gelgt.files import write_text
from gelgt.runs.folder import write_json


def write_study(result: Mapping[str, Any], out: Path, *, with_regime: bool = False) -> str:
    """OUT/NAME.json, OUT/NAME.md, and OUT/NAME-TASK-METRIC.svg for each task.

    Args:
        result: As `run_study` gives it.
        out: The folder.
        with_regime: Whether the files are named by the regime too.

    Returns:
        NAME.
    """
    name = f"{result['study']}-{result['regime']}" if with_regime else str(result["study"])
    pictures = study_plots(result, out, name)
    write_json(out / f"{name}.json", result)
    links = "".join(f"\n![{path.stem}]({path.name})\n" for path in pictures)
    write_text(out / f"{name}.md", study_markdown(result) + links)
    return name


def write_analysis(result: Mapping[str, Any], out: Path) -> None:
    """OUT/NAME.json and OUT/NAME.md of an analysis that trains nothing."""
    write_json(out / f"{result['study']}.json", result)
    write_text(out / f"{result['study']}.md", analysis_markdown(result))


def analysis_markdown(result: Mapping[str, Any], level: int = 1) -> str:
    """An analysis with its table, a line for each entry."""
    headers = list(dict.fromkeys(key for entry in result["results"] for key in entry))
    lines = [[_cell(entry.get(key)) for key in headers] for entry in result["results"]]
    head = [
        f"{'#' * level} {result['title']}",
        "",
        result["about"],
        "",
        *(f"- {fact}" for fact in facts(result)),
        "",
    ]
    return "\n".join([*head, *markdown_table(headers, lines)]) + "\n"


def _cell(value: Any) -> str:
    return NOT_RUN if value is None else f"{value:,}" if isinstance(value, int) else str(value)
