"""`gelgt config show`: every value of a preset or of a run, with its origin and its meaning."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli import options as given
from gelgt.cli.output import print_json, print_table, say
from gelgt.errors import GelgtError

SECTIONS = ("model", "sampling", "train")


def show_command(
    run: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder: show what that run used.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="cpu (the default), gpu or paper.")
    ] = None,
    model: given.ModelOption = "gelgt",
    task_type: Annotated[
        str | None,
        typer.Option(
            "--task-type",
            help="Values that follow from it, such as regression, are shown as derived.",
        ),
    ] = None,
    settings: given.SetOption = None,
    as_json: given.JsonFlag = False,
) -> None:
    """Show every setting with its value, its origin and its meaning.

    The name in the first column is what --set takes: gelgt train … --set model.width=128
    """
    config = (
        _of_run(run, preset, task_type, settings)
        if run is not None
        else _of_preset(preset, model, task_type, settings)
    )
    values = described(config)
    if as_json:
        print_json(
            {
                "preset": config.preset,
                "model": config.kind,
                "run": None if run is None else str(run),
                "values": values,
            }
        )
        return
    facts = [f"preset {config.preset}"] + (
        [f"model {config.kind}"] if config.kind != "gelgt" else []
    )
    say(", ".join(facts + ([f"as {run} used it"] if run is not None else [])), style="bold")
    for section in SECTIONS:
        say("")
        mine = {path: entry for path, entry in values.items() if path.startswith(f"{section}.")}
        rows = [
            (path, value_text(entry["value"]), entry["origin"], entry["meaning"])
            for path, entry in mine.items()
        ]
        print_table([section, "value", "origin", "meaning"], rows)


def described(config: Any) -> dict[str, dict[str, Any]]:
    """Each value of a run's configuration with its origin and its meaning, as ``model.width`` →
    …"""
    found = {}
    for section in SECTIONS:
        part = getattr(config, section)
        meanings = meanings_of(type(part))
        for key, value in part.model_dump().items():
            path = f"{section}.{key}"
            found[path] = {
                "value": value,
                "origin": config.origins.get(path, "default"),
                "meaning": meanings.get(key, ""),
            }
    return found


def meanings_of(kind: type[Any]) -> dict[str, str]:
    """What each value of a section means, from its docstring and those of what it builds on."""
    from gelgt.config import Config

    ours = [each for each in reversed(kind.__mro__) if issubclass(each, Config)]
    return {name: text for each in ours for name, text in attributes(each.__doc__ or "").items()}


def attributes(doc: str) -> dict[str, str]:
    """The `Attributes:` of a Google-style docstring.

    >>> attributes('''What it is.
    ...
    ...     Attributes:
    ...         width: Of every
    ...             token.
    ...         heads: ``H``.
    ... ''')
    {'width': 'Of every token.', 'heads': 'H.'}
    """
    found: dict[str, str] = {}
    name, indent = "", None
    for line in doc.partition("Attributes:")[2].splitlines():
        if not line.strip():
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        if depth < indent:
            break
        entry = re.match(r"(\w+): (.*)", line.strip()) if depth == indent else None
        if entry:
            name = entry[1]
            found[name] = entry[2]
        elif name:
            found[name] += " " + line.strip()
    return {name: text.replace("`", "") for name, text in found.items()}


def value_text(value: Any) -> str:
    """A value as --set takes it.

    >>> value_text(None), value_text(("table", "hop")), value_text(True), value_text(0.0005)
    ('none', 'table,hop', 'true', '0.0005')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return ",".join(map(str, value))
    return str(value)


def _of_preset(
    preset: str | None, model: str, task_type: str | None, settings: list[str] | None
) -> Any:
    from gelgt.presets import RunConfig, parse_settings
    from gelgt.tasks.task import TASK_TYPES

    if task_type is not None:
        given.one_of("--task-type", task_type, TASK_TYPES)
    return RunConfig.of(preset or "cpu", task_type, parse_settings(settings or ()), model)


def _of_run(
    run: Path, preset: str | None, task_type: str | None, settings: list[str] | None
) -> Any:
    from gelgt.runs.folder import load_run

    if preset or task_type or settings:
        raise GelgtError(
            "bad_option",
            "A run has its own settings.",
            hint="Leave --preset, --task-type and --set out, or leave RUN out.",
        )
    return load_run(run).config
