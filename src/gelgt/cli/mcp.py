"""`gelgt mcp`: runs as tools for programs that speak the Model Context Protocol."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gelgt.cli.options import DeviceOption
from gelgt.cli.parse import seconds
from gelgt.errors import GelgtError


def mcp_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…", help="Run folders; NAME=FOLDER gives one another name than its own."
        ),
    ],
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="S",
            help="Source of all runs, as for gelgt train; by default the ones that they were "
            "trained on.",
        ),
    ] = None,
    source_env: Annotated[
        str | None,
        typer.Option(
            "--source-env",
            metavar="NAME",
            help="Environment variable that holds the source, for an address with a password.",
        ),
    ] = None,
    refresh: Annotated[
        str,
        typer.Option(
            "--refresh",
            metavar="D",
            help="Look at the source again before an answer so long after the last look.",
        ),
    ] = "5m",
    device: DeviceOption = "auto",
) -> None:
    """Serve runs as MCP tools over standard input and output.

    The tools are inspect, task, predict and explain; they only read. A program such as a chat
    client starts this command and talks to it. Examples:

    gelgt mcp runs/churn

    gelgt mcp churn=runs/2026-11/churn next=runs/next --source postgresql://me@host/shop
    """
    from gelgt.integrations.mcp import make_server

    named = named_runs(runs)
    if source_env is not None:
        source = source_in(source_env, source)
    make_server(named, source=source, refresh=seconds(refresh), device=device).run()


def source_in(variable: str, source: str | None) -> str:
    """The source that an environment variable holds.

    Raises:
        GelgtError: ``bad_option``: it is not set, or a source is given too.
    """
    if source is not None:
        raise GelgtError(
            "bad_option", "--source and --source-env both name a source.", hint="Give one of them."
        )
    if not os.environ.get(variable):
        raise GelgtError(
            "bad_option",
            f"The environment variable {variable} is not set.",
            hint=f"Set {variable} to the address of the source.",
        )
    return os.environ[variable]


def named_runs(texts: list[str]) -> dict[str, Path]:
    """Run folders by name.

    Raises:
        GelgtError: ``bad_option``: two have the same name.

    Example:
        >>> named_runs(["runs/churn", "old=runs/2025/churn"])
        {'churn': PosixPath('runs/churn'), 'old': PosixPath('runs/2025/churn')}
    """
    named: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        path = Path(folder if equals else text).expanduser()
        name = name if equals else path.absolute().name
        if name in named:
            raise GelgtError(
                "bad_option",
                f"Two runs are called '{name}'.",
                hint=f"Name one of them: other={path}",
            )
        named[name] = path
    return named
