"""`gelgt config show`: every value of a preset or of a run, with its origin and its meaning."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from gelgt.cli.options import JsonFlag, ModelOption, SetOption
from gelgt.cli.output import print_json, print_table, say
from gelgt.cli.parse import one_of
from gelgt.errors import GelgtError

SECTIONS = ("model", "sampling", "train")


def show_command(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="[RUN]", help="Run folder, to show the settings of that run."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="NAME", help="cpu (the default), gpu or paper."),
    ] = None,
    model: ModelOption = "gelgt",
    task_type: Annotated[
        str | None,
        typer.Option(
            "--task-type",
            metavar="TYPE",
            help="Such as regression; settings that follow from the type are shown as derived.",
        ),
    ] = None,
    settings: SetOption = None,
    as_json: JsonFlag = False,
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
        folder = None if run is None else str(run)
        print_json({"preset": config.preset, "model": config.kind, "run": folder, "values": values})
        return
    facts = [f"preset {config.preset}"]
    facts += [f"model {config.kind}"] if config.kind != "gelgt" else []
    facts += [f"of the run {run}"] if run is not None else []
    say(", ".join(facts), style="bold")
    for section in SECTIONS:
        say("")
        rows = [
            (path, value_text(entry["value"]), entry["origin"], entry["meaning"])
            for path, entry in values.items()
            if path.startswith(f"{section}.")
        ]
        print_table([section, "value", "origin", "meaning"], rows)


def described(config: Any) -> dict[str, dict[str, Any]]:
    """Each setting of a run by its path, such as ``model.width``: value, origin and meaning."""
    settings = {}
    for section in SECTIONS:
        part = getattr(config, section)
        meanings = meanings_of(type(part))
        for key, value in part.model_dump().items():
            path = f"{section}.{key}"
            origin = config.origins.get(path, "default")
            settings[path] = {"value": value, "origin": origin, "meaning": meanings.get(key, "")}
    return settings


def meanings_of(kind: type[Any]) -> dict[str, str]:
    """What each setting of a section means, from its docstring and those of its base classes."""
    from gelgt.settings import Config

    bases = [base for base in reversed(kind.__mro__) if issubclass(base, Config)]
    return {name: text for base in bases for name, text in attributes(base.__doc__ or "").items()}


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
    texts: dict[str, str] = {}
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
            texts[name] = entry[2]
        elif name:
            texts[name] += " " + line.strip()
    return {name: text.replace("`", "") for name, text in texts.items()}


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
        one_of("--task-type", task_type, TASK_TYPES)
    return RunConfig.of(preset or "cpu", task_type, parse_settings(settings or ()), model)


def _of_run(
    run: Path, preset: str | None, task_type: str | None, settings: list[str] | None
) -> Any:
    from gelgt.runs.folder import load_run

    if preset or task_type or settings:
        raise GelgtError(
            "bad_option",
            "--preset, --task-type and --set cannot be combined with RUN, which has its settings.",
            hint="Leave them out, or leave RUN out.",
        )
    return load_run(run).config
