"""`gelgt serve`: a run that answers over HTTP."""

import logging
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gelgt.cli.bundle import bundled
from gelgt.cli.options import RunOptions
from gelgt.cli.output import note, say
from gelgt.cli.parse import seconds
from gelgt.errors import GelgtError

if TYPE_CHECKING:
    from gelgt.serve import ServeSettings


@dataclass(frozen=True)
class ServerOptions:
    """Where a server listens, whom it answers, and its limits."""

    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="H", help="Address to listen on; 127.0.0.1 is this machine alone."
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 takes a free one.")
    ] = 8000
    token_env: Annotated[
        str | None,
        typer.Option(
            "--token-env",
            metavar="NAME",
            help="Environment variable that holds the token which requests have to bring.",
        ),
    ] = None
    refresh: Annotated[
        str | None,
        typer.Option(
            "--refresh",
            metavar="D",
            help="Look at the source for new rows this often, such as 5m; never by default.",
        ),
    ] = None
    queue: Annotated[
        int,
        typer.Option(
            "--queue",
            metavar="N",
            min=1,
            help="Requests that may wait; more are answered with 429.",
        ),
    ] = 64
    time_limit: Annotated[
        str, typer.Option("--time-limit", metavar="D", help="Time for the answer to a request.")
    ] = "30s"

    def settings(self) -> "ServeSettings":
        from gelgt.serve import ServeSettings

        refresh = None if self.refresh is None else seconds(self.refresh)
        if refresh is not None and refresh < 1:
            raise GelgtError(
                "bad_option", f"--refresh is {self.refresh}.", hint="Give at least 1s."
            )
        return ServeSettings(
            host=self.host,
            port=self.port,
            token=self._token(),
            refresh=refresh,
            queue=self.queue,
            time_limit=seconds(self.time_limit),
        )

    def _token(self) -> str | None:
        if self.token_env is None:
            return None
        token = os.environ.get(self.token_env, "")
        if not token and not re.fullmatch(r"[A-Z_][A-Z0-9_]*", self.token_env):
            raise GelgtError(  # it may be the token itself, which is not repeated
                "no_token",
                "What --token-env names is no environment variable that is set.",
                hint="Give the name of a variable, such as GELGT_TOKEN, not the token itself.",
            )
        if not token:
            raise GelgtError(
                "no_token",
                f"The environment variable {self.token_env} is not set.",
                hint=f"Set it to a secret: export {self.token_env}=$(openssl rand -hex 32)",
            )
        return token


@bundled
def serve_command(*, server: ServerOptions, run: RunOptions) -> None:
    """Serve predictions, recommendations and explanations of a run over HTTP, with a page at /.

    Examples:

    gelgt serve runs/churn

    gelgt serve runs/churn --source postgresql://me@db/shop --host 0.0.0.0 --token-env GELGT_TOKEN
    --refresh 5m
    """
    _check_installed()
    settings = server.settings()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("gelgt.serve").setLevel(logging.INFO)
    from gelgt.cli.waiting import working

    loaded = run.load()
    from gelgt.cli.lean import load_deferred
    from gelgt.serve import Service, serve
    from gelgt.serve.service import Origin

    load_deferred()
    with working("opening the source"):
        if run.fresh:
            run.open(loaded)
        service = Service(loaded, Origin(run.source, run.namespace), settings, run.device)
    for text in service.served.predictor.notices:
        note(f"note: {text}")

    def told(address: str) -> None:
        say(f"{run.run.name} answers at {address}", "Ctrl-C ends it")

    serve(service, told)


def _check_installed() -> None:
    try:
        import fastapi  # noqa: F401
        import httptools  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise GelgtError(
            "missing_extra",
            f"gelgt serve needs {error.name}, which is not installed.",
            hint="pip install 'gelgt[serve]'",
        ) from None
