"""Servers: real PostgreSQL and MariaDB that restart, break off, change while they are read, and
refuse; types and values of every kind. One consistent snapshot with the server's own values, or an
error that names the repair, without a password; and an import afterwards works.

The first cases, which `make test` runs, need PostgreSQL alone.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from campaigns.frame import Campaign
from campaigns.server_world import (
    Servers,
    attempt,
    attempt_command,
    prepare,
    session_of,
    source_of,
)
from campaigns.server_writes import Writer, busy, content_of, create, held_up, state_of
from campaigns.world import cached_in
from database_servers import DatabaseServer
from gelgt.errors import GelgtError

Random = np.random.Generator
SHORT = 10


def _import(server: DatabaseServer, folder: Path, random: Random, **options: Any) -> Any:
    """By the library or by the command."""
    source = source_of(server, **options)
    if random.random() < 0.2:
        return attempt_command(server, source, folder / "out")
    return attempt(server, source)


def _afterwards(server: DatabaseServer) -> None:
    """When nobody disturbs it, an import is what the server holds."""
    with session_of(server) as session:
        state = state_of(session)
    again = attempt(server, source_of(server))
    if isinstance(again, GelgtError):
        assert (again.code, state) == ("no_tables", "{}"), f"afterwards: {again}"
        return
    assert content_of(again) == state, "an import afterwards is something else"


def changes(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Somebody changes rows and tables while they are read."""
    with session_of(server) as session:
        session.clear()
        create(session, random)
        writer, share = Writer(session, random), random.random() * 0.5
        if random.random() < 0.2:
            with busy(writer), held_up(lambda where: None):
                answer = _import(server, folder, random)
            outcome = "beside a writer"
        else:
            with held_up(lambda where: writer.act(where) if random.random() < share else None):
                answer = _import(server, folder, random)
            outcome = "held up"
    if isinstance(answer, GelgtError):
        outcome += ": an error"
    else:
        assert content_of(answer) in writer.states, f"a mixture of states: {writer.done}"
        outcome += ": one state"
    _afterwards(server)
    return outcome


Family = Callable[[DatabaseServer, Path, Random], str]
FAMILIES: tuple[tuple[Family, float], ...] = ((changes, 3),)
_WEIGHTS = np.array([weight for _, weight in FAMILIES]) / sum(weight for _, weight in FAMILIES)


def case(servers: Servers, number: int, random: Random) -> str:
    kind = "postgres" if number < SHORT or random.random() < 0.5 else "mariadb"
    family = FAMILIES[random.choice(len(FAMILIES), p=_WEIGHTS)][0]
    server = servers.get(kind)
    if server is None:
        return f"{kind}: not installed"
    folder = servers.folder / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with cached_in(folder / "cache"):
        outcome = family(server, folder, random)
    shutil.rmtree(folder, ignore_errors=True)
    return f"{kind}, {family.__name__}: {outcome}"


CAMPAIGN = Campaign("servers", prepare, case, long=10_000, short=SHORT)
