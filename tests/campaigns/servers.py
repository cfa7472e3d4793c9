"""Servers: real PostgreSQL and MariaDB that restart, break off, change while they are read, and
refuse; types and values of every kind. One consistent snapshot with the server's own values, or an
error that names the repair, without a password; and an import afterwards works.

The first cases, which `make test` runs, are one of each family, and need PostgreSQL alone.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from campaigns import server_faults as faults
from campaigns import server_rights as rights
from campaigns import server_schemas as schemas
from campaigns import server_values as values
from campaigns.frame import Campaign
from campaigns.proxy import FAULTS, Proxy
from campaigns.server_world import (
    Servers,
    attempt,
    attempt_command,
    prepare,
    rows_of,
    session_of,
    source_of,
)
from campaigns.server_writes import Writer, busy, content_of, create, held_up, state_of
from campaigns.world import cached_in
from database_servers import DatabaseServer
from gelgt.errors import GelgtError

Random = np.random.Generator
SHORT = 12


def _import(server: DatabaseServer, folder: Path, random: Random, **options: Any) -> Any:
    """By the library or by the command."""
    source = source_of(server, **options, is_named=random.random() < 0.6)
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


def sessions(server: DatabaseServer, folder: Path, random: Random) -> str:
    """The reader's sessions are ended, its queries cancelled, or the server restarts."""
    with session_of(server) as session:
        session.clear()
        faults.create(session, random)
        state = state_of(session)
    share, seen = random.random() * 0.3, [0]
    what = ("ended", "cancelled", "restarted")[random.choice(3, p=[0.6, 0.2, 0.2])]

    def hook(where: str) -> None:
        if random.random() > share or (what == "restarted" and seen[0]):
            return
        seen[0] += 1
        if what == "restarted":
            faults.restart(server, random)
            return
        with session_of(server) as other:
            (faults.end_sessions if what == "ended" else faults.cancel_queries)(other)

    with held_up(hook):
        answer = _import(server, folder, random)
    return f"{what if seen[0] else 'left alone'}: {_whole_or_error(server, answer, state)}"


def _whole_or_error(server: DatabaseServer, answer: Any, state: str) -> str:
    _afterwards(server)
    if isinstance(answer, GelgtError):
        return "an error"
    assert content_of(answer) == state, "rows are lost or changed"
    return "whole"


def network(server: DatabaseServer, folder: Path, random: Random) -> str:
    """The connection breaks after some bytes."""
    with session_of(server) as session:
        session.clear()
        faults.create(session, random)
        state = state_of(session)
    fault = FAULTS[random.integers(len(FAULTS))]
    after = int(10 ** random.uniform(0.5, 6.1))
    with Proxy(server.port, fault, after, bool(random.integers(2))) as proxy:
        answer = _import(server, folder, random, port=proxy.port)
        struck = proxy.struck
    outcome = _whole_or_error(server, answer, state)
    if not struck or fault == "stall":
        assert outcome == "whole", f"an error without a cause: {answer}"
    return f"{fault if struck else 'no fault'}: {outcome}"


def settings(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Settings of the server that stop or bend what is read."""
    with session_of(server) as session:
        session.clear()
        faults.create(session, random)
        state = state_of(session)
        undo = faults.set_limit(session, random)
        try:
            answer = _import(server, folder, random)
        finally:
            undo()
    return _whole_or_error(server, answer, state)


def types(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Values of every type, as the server itself writes them."""
    with session_of(server) as session:
        session.clear()
        planned = values.create(session, random)
        due = None if planned.has_refused else values.rows_said(session, planned)
    schema = {"t": {"pkey": "id", "fkeys": {}, "time_col": None}}
    answer = attempt(server, source_of(server), tables=["t"], schema=schema)
    if due is None:
        assert isinstance(answer, GelgtError), f"a value without a place: {planned}"
        assert answer.code == "bad_value", f"{planned}: {answer.code}: {answer}"
        assert "'t." in str(answer), f"the column is not named: {answer}"
        return "refused"
    assert not isinstance(answer, GelgtError), f"{planned}: {answer}"
    held = rows_of(answer, "t")
    held.sort(key=lambda row: row["id"])
    assert len(held) == len(due), f"{planned}: {len(held)} rows of {len(due)}"
    for row, right in zip(held, due):
        assert row.keys() == right.keys(), f"{planned}: {row.keys()}, {right.keys()}"
        for name, value in right.items():
            assert values.is_same(row[name], value), f"{name}: {row[name]!r}, {value!r}: {planned}"
    return f"the same values ({planned.shape})"


def reader(server: DatabaseServer, folder: Path, random: Random) -> str:
    """A user who may not see everything."""
    with session_of(server) as session:
        session.clear()
        rights.make_reader(session)
        granted = rights.grant(session, random)
    answer = _import(server, folder, random, user=rights.READER)
    readable = {name: right for name, right in granted.items() if right in ("all", "some rows")}
    if isinstance(answer, GelgtError):
        assert not readable or "columns" in granted.values(), f"{granted}: {answer}"
        return "an error"
    for name in answer.table_names:
        assert name in readable, f"{name} was read: {granted}"
    for name, right in readable.items():
        assert rows_of(answer, name) == rights.visible(name, right), f"{name}: {granted}"
    noted = {finding.table for finding in answer.import_findings}
    if server.kind == "postgres":  # MariaDB does not tell that there are others
        assert noted >= {*granted} - {*readable}, f"left out without a word: {granted}"
    return "what may be seen"


def again(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Changes between imports, which add what is new where they can."""
    with session_of(server) as session:
        session.clear()
        create(session, random)
        writer = Writer(session, random)
        for _ in range(int(random.integers(2, 5))):
            answer = attempt(server, source_of(server))
            if isinstance(answer, GelgtError):
                assert (answer.code, writer.states[-1]) == ("no_tables", "{}"), str(answer)
            else:
                assert content_of(answer) == writer.states[-1], f"not of now: {writer.done}"
            for _ in range(int(random.integers(0, 3))):
                writer.act("between")
    return "each of its time"


def keys(server: DatabaseServer, folder: Path, random: Random) -> str:
    """Foreign keys of every kind: each row refers to the row that the server means."""
    with session_of(server) as session:
        session.clear()
        if server.kind != "postgres":  # a reader of the case before may hold the tables yet
            session.run("SET SESSION lock_wait_timeout = 20")
        due = rights.create_keys(session, random)
    answer = attempt(server, source_of(server))
    assert not isinstance(answer, GelgtError), str(answer)
    assert rights.resolved(answer) == due
    return "the same rows"


Family = Callable[[DatabaseServer, Path, Random], str]
FAMILIES: tuple[tuple[Family, float], ...] = (
    (changes, 4),
    (sessions, 2),
    (network, 3),
    (settings, 1),
    (types, 5),
    (reader, 1),
    (again, 2),
    (keys, 1),
    (schemas.locks, 0.5),
    (schemas.generated, 1),
    (schemas.across, 0.7),
    (schemas.spellings, 1),
)
_WEIGHTS = np.array([weight for _, weight in FAMILIES]) / sum(weight for _, weight in FAMILIES)


def case(servers: Servers, number: int, random: Random) -> str:
    kind = "postgres" if number < SHORT or random.random() < 0.5 else "mariadb"
    place = number if number < SHORT else random.choice(len(FAMILIES), p=_WEIGHTS)
    family = FAMILIES[place][0]
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
