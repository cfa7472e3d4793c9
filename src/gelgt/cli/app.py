"""All commands of `gelgt`, under their names."""

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gelgt.cli.analyses import add_to as add_analyses
from gelgt.cli.bench import add_to as add_benchmarks
from gelgt.cli.config import show_command
from gelgt.cli.demo import demo_command
from gelgt.cli.evaluate import evaluate_command
from gelgt.cli.explain import explain_command
from gelgt.cli.inspect import import_command, inspect_command
from gelgt.cli.mcp import mcp_command
from gelgt.cli.output import say
from gelgt.cli.predict import predict_command
from gelgt.cli.report import report_command
from gelgt.cli.serve import serve_command
from gelgt.cli.status import status_command
from gelgt.cli.studies import add_to as add_studies
from gelgt.cli.suite import suite
from gelgt.cli.task import task_command
from gelgt.cli.train import train_command
from gelgt.errors import masked


class Commands(TyperGroup):
    """Commands whose complaints about a command line repeat no password."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self._masked(super().make_context, *arguments, **options)

    def invoke(self, ctx: Any) -> Any:
        return self._masked(super().invoke, ctx)

    def _masked(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except Exception as error:
            if isinstance(message := getattr(error, "message", None), str):
                error.message = masked(message)  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    cls=Commands,
    help="Predictions on relational databases with the Gaussian Relational Graph Transformer.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain lines, in a pipe too
    pretty_exceptions_show_locals=False,  # locals may hold a password
    context_settings={"help_option_names": ["-h", "--help"]},
)
config = typer.Typer(
    help="Show presets and settings: values, origins and meanings.", no_args_is_help=True
)
bench = typer.Typer(
    help="Reproduce the paper's tables, and measure speed beside another implementation.",
    no_args_is_help=True,
)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from gelgt import __version__

        say(__version__)
        raise typer.Exit


app.command("inspect")(inspect_command)
app.command("import")(import_command)
app.command("task")(task_command)
app.command("train")(train_command)
app.command("evaluate")(evaluate_command)
app.command("predict")(predict_command)
app.command("status")(status_command)
app.command("explain")(explain_command)
app.command("report")(report_command)
app.command("serve")(serve_command)
app.command("demo")(demo_command)
app.command("mcp")(mcp_command)
config.command("show")(show_command)
app.add_typer(config, name="config")
add_benchmarks(bench)
add_studies(bench)
bench.command("suite")(suite)
add_analyses(bench)
app.add_typer(bench, name="bench")
