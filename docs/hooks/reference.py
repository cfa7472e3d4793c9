"""Fills the pages of reference from the program itself, so that they cannot differ from it.

MkDocs calls `on_page_markdown` for each page: `<!-- commands -->` becomes every command with its
options, as `gelgt … --help` has them, and `<!-- settings -->` every setting with its meaning and
its value in each preset.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

import typer

from gelgt.cli.app import app
from gelgt.cli.config import described, value_text
from gelgt.presets import RunConfig

PRESETS = ("cpu", "gpu", "paper")
SECTIONS = {"model": "Model", "sampling": "Sampling", "train": "Training"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page, with what it asks for."""
    for mark, content in (("commands", commands), ("settings", settings)):
        if f"<!-- {mark} -->" in markdown:
            markdown = markdown.replace(f"<!-- {mark} -->", "\n".join(content()))
    return markdown


def commands() -> Iterator[str]:
    """Every command as a section."""
    for path, command in _commands(typer.main.get_command(app), ("gelgt",)):
        yield from (f"## {' '.join(path)}", "", "```text", _usage(command, path), "```", "")
        yield from (_plain(command.help or ""), "")
        rows = [row for each in command.params if (row := _row(each))]
        yield from ("| | meaning |", "|---|---|", *rows, "")


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        else:
            yield (*path, name), command


def _usage(command: Any, path: tuple[str, ...]) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    names = (p.metavar or str(p.name).upper() for p in arguments)
    return " ".join([*path, *names, "[options]"])


def _row(parameter: Any) -> str:
    """A parameter and its meaning as a row of a table."""
    meaning = _cell(getattr(parameter, "help", None) or "")
    if parameter.param_type_name == "argument":
        return f"| {_code(parameter.metavar or str(parameter.name).upper())} | {meaning} |"
    if parameter.name == "help" or parameter.hidden:
        return ""
    value = "" if parameter.is_flag else f" {parameter.metavar or parameter.type.name.upper()}"
    names = (*parameter.opts, *parameter.secondary_opts)
    is_shown = parameter.default not in (None, "", False, True) and not callable(parameter.default)
    default = f" Default: `{parameter.default}`." if is_shown else ""
    return f"| {' / '.join(_code(name + value) for name in names)} | {meaning}{default} |"


def settings() -> Iterator[str]:
    """Every setting, by section."""
    of_presets = [described(RunConfig.of(preset)) for preset in PRESETS]
    for section, title in SECTIONS.items():
        yield from (f"## {title}", "", f"| setting | meaning | {' | '.join(PRESETS)} |")
        yield "|---|---|---|---|---|"
        for path, entry in of_presets[0].items():
            if path.startswith(f"{section}."):
                values = (value_text(preset[path]["value"]) for preset in of_presets)
                cells = " | ".join(map(_code, values))
                yield f"| `{path}` | {_cell(entry['meaning'])} | {cells} |"
        yield ""


def _plain(text: str) -> str:
    """The help of a command; lines that are commands themselves become code."""
    parts = [" ".join(part.split()) for part in text.replace("\b", "").split("\n\n")]
    return "\n\n".join(
        f"```text\n{part}\n```" if part.startswith("gelgt ") else _cell(part) for part in parts
    )


def _code(text: str) -> str:
    """Text as code that may hold a bar, which would end the cell of a table."""
    return f"<code>{escape(text).replace('|', '&#124;')}</code>"


def _cell(text: str) -> str:
    """Text that is neither markup nor the end of a table cell."""
    escaped = text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return " ".join(escaped.replace("*", "\\*").replace("_", "\\_").split())
