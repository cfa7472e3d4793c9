"""Puts the sections together into one HTML file."""

from pathlib import Path

from gelgt.errors import GelgtError
from gelgt.files import write_text
from gelgt.report.html import Section, escape
from gelgt.report.run import Run
from gelgt.report.sections import (
    attention,
    calibration,
    coverage,
    data_findings,
    explanation,
    learning,
    outcome,
    profile,
    recommendation,
    scores,
    setup,
    slices,
)
from gelgt.report.sections.headline import header
from gelgt.report.style import CSS


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the report of a run as one self-contained HTML file.

    Args:
        run: A run folder, as `gelgt train --out` writes it.
        out: The file to write; ``report.html`` in the run folder by default.

    Returns:
        The file that was written.

    Raises:
        GelgtError: ``no_run`` (no such folder, or no run folder), ``broken_run``, ``newer_run``,
            ``cannot_write``.
    """
    run = Path(run)
    html = page(Run(run))
    path = Path(out) if out is not None else run / "report.html"
    try:
        write_text(path, html)
    except OSError as error:
        hint = "Give another file with --out."
        raise GelgtError(
            "cannot_write", f"The report cannot be written to {path}: {error.strerror}.", hint=hint
        ) from None
    return path


def page(run: Run) -> str:
    """The whole document."""
    modules = (
        scores,
        recommendation,
        learning,
        outcome,
        calibration,
        coverage,
        slices,
        explanation,
        profile,
        attention,
        data_findings,
        setup,
    )
    sections: list[Section] = [
        section for module in modules if (section := module.section(run)) is not None
    ]
    title = f"{run.record.task.name} · gelgt report"
    links = "".join(f'<li><a href="#{s.name}">{escape(s.title)}</a></li>' for s in sections)
    version = str(run.record.versions.get("gelgt", ""))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        # Nothing may be loaded and nothing may run, whatever a table name holds.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';style-src '
        "'unsafe-inline'\">"
        f"<title>{escape(title)}</title>\n<style>{CSS}</style></head>\n<body><main>\n"
        f'{header(run)}\n<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
        + "\n".join(section.html() for section in sections)
        + f"\n<footer>Made by gelgt {escape(version)} from the files of the run "
        "folder.</footer>\n</main></body></html>\n"
    )
