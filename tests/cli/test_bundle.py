"""Dataclasses as bundles of options: flat for Typer, together for the command."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from gelgt.cli.bundle import bundled


@dataclass(frozen=True)
class Where:
    source: Annotated[str, typer.Argument(metavar="SOURCE")]
    namespace: Annotated[str | None, typer.Option("--namespace", help="A schema.")] = None


@dataclass(frozen=True)
class What(Where):
    rows: Annotated[int, typer.Option("--rows")] = 10


def make_app(calls: list[tuple[object, ...]]) -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @bundled
    def show(*, loud: Annotated[bool, typer.Option("--loud")] = False, what: What) -> None:
        """Shows it."""
        calls.append((what, loud))

    return app


def test_fields_are_options_and_come_as_one_object() -> None:
    calls: list[tuple[object, ...]] = []
    done = CliRunner().invoke(make_app(calls), ["shop.db", "--rows", "3", "--loud"])
    assert done.exit_code == 0, done.output
    assert calls == [(What("shop.db", None, 3), True)]


def test_help_and_defaults_are_those_of_the_fields() -> None:
    calls: list[tuple[object, ...]] = []
    app = make_app(calls)
    text = CliRunner().invoke(app, ["--help"]).output
    assert "Shows it." in text
    assert "A schema." in text
    assert text.index("--loud") < text.index("--rows")
    assert CliRunner().invoke(app, []).exit_code == 2
    CliRunner().invoke(app, ["shop.db"])
    assert calls == [(What("shop.db"), False)]
