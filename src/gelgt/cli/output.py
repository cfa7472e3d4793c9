"""What the command line prints: rich on a terminal, plain lines in a pipe, one JSON object with
--json."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.schema.model import Finding


class _Console(Console):
    def on_broken_pipe(self) -> None:
        end_quietly()


def end_quietly() -> None:
    """Whoever read our output has seen enough (`gelgt inspect … | head`): that is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)


def console(stderr: bool = False) -> Console:
    """A console that never wraps, colours or draws in a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    return _Console(
        file=stream,
        highlight=False,
        emoji=False,
        soft_wrap=not stream.isatty(),
        width=None if stream.isatty() else 10_000,
    )


def say(*lines: str, style: str | None = None) -> None:
    """Plain lines for a person, without markup: names may hold brackets."""
    out = console()
    for line in lines:
        out.print(line, style=style if out.is_terminal else None, markup=False)


def note(line: str) -> None:
    """Something beside the result: to standard error, so that a pipe gets the result alone."""
    console(stderr=True).print(line, markup=False, style="dim" if sys.stderr.isatty() else None)


def graver_findings(findings: "Iterable[Finding]", source: str) -> list[str]:
    """Lines about the findings of a prediction, notices aside: `gelgt inspect` lists those."""
    from gelgt.schema.finding_text import told

    return told([finding for finding in findings if finding.severity != "notice"], source)


def print_json(content: dict[str, Any]) -> None:
    """The one JSON object of a --json call."""
    try:
        sys.stdout.write(json.dumps(content, ensure_ascii=False, default=str) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        end_quietly()


def print_table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()
) -> None:
    """Aligned columns; `right` names the columns of numbers."""
    out = console()
    if not out.is_terminal:
        lines = [list(headers), *([str(cell) for cell in row] for row in rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
        for line in lines:
            cells = [
                cell.rjust(w) if i in right else cell.ljust(w)
                for i, (cell, w) in enumerate(zip(line, widths))
            ]
            say("  ".join(cells).rstrip())
        return
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for i, header in enumerate(headers):
        table.add_column(header, justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    out.print(table)


def print_error(error: GelgtError, as_json: bool) -> None:
    """A user's error: what is wrong, then the repair."""
    if as_json:
        print_json({"error": error.to_dict()})
        return
    out = console(stderr=True)
    out.print(
        f"error ({error.code}): {error.message}",
        markup=False,
        style="red" if out.is_terminal else None,
    )
    if error.hint:
        out.print(f"  {error.hint}", markup=False)
