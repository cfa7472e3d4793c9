"""What the campaign of servers works with: a PostgreSQL and a MariaDB of its own, SQL sessions on
them, imports whose errors are looked at, and rows in the user's own keys."""

import atexit
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import gelgt
from database_servers import DatabaseServer, MariaServer, PostgresServer, ServerMissingError
from gelgt.errors import GelgtError

SPACE = "space"  # the schema or database of a case
# What cannot be meant by an error of a server: the disk is full, or gelgt is wrong.
WRONG = ("cannot_write", "cannot_use_file", "bug", "too_little_memory")
KINDS: dict[str, type[DatabaseServer]] = {"postgres": PostgresServer, "mariadb": MariaServer}


@dataclass
class Servers:
    """The servers that were started; each when it is needed first."""

    folder: Path
    started: dict[str, DatabaseServer | None] = field(default_factory=dict)
    sessions: dict[str, "Session"] = field(default_factory=dict)

    def get(self, kind: str) -> DatabaseServer | None:
        """A server; None where it is not installed."""
        if kind not in self.started:
            try:
                server = KINDS[kind]()
            except ServerMissingError:
                self.started[kind] = None
                return None
            self.started[kind] = server
            note = self.folder / f"{kind}.home"
            note.write_text(str(server.home))
            atexit.register(self._close, server, note)
        return self.started[kind]

    def session(self, kind: str) -> "Session":
        """A session that stays; only for cases that let the server live."""
        if kind not in self.sessions:
            server = self.get(kind)
            assert server is not None
            self.sessions[kind] = Session(server)
        return self.sessions[kind]

    def close(self) -> None:
        for kind, server in self.started.items():
            if server is not None:
                self._close(server, self.folder / f"{kind}.home")

    def _close(self, server: DatabaseServer, note: Path) -> None:
        server.close()
        note.unlink(missing_ok=True)


def prepare(folder: Path) -> Servers:
    """No servers yet; those that a killed process left here are ended."""
    for kind in KINDS:
        note = folder / f"{kind}.home"
        if note.is_file():
            _end_left(note.read_text())
            note.unlink()
    return Servers(folder)


def _end_left(home: str) -> None:
    """End the processes that have the folder of a server in their command."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if home in command and int(entry.name) != os.getpid():
            os.kill(int(entry.name), signal.SIGKILL)


class Session:
    """A connection of somebody else, each of whose statements is committed at once."""

    def __init__(self, server: DatabaseServer) -> None:
        self.kind = server.kind
        if self.kind == "postgres":
            import psycopg

            self._connection: Any = psycopg.connect(
                server.url, autocommit=True, prepare_threshold=None
            )
            self.run("SET lock_timeout = '40ms'")
            self.run(f"SET search_path = {SPACE}, public")
        else:
            import pymysql

            place = {"host": "127.0.0.1", "port": server.port, "user": "tester"}
            self._connection = pymysql.connect(**place, password=server.password, autocommit=True)
            # What a lax server takes: zero dates, texts that are cut.
            self.run("SET SESSION sql_mode = '', innodb_lock_wait_timeout = 0")
            self.run("SET SESSION lock_wait_timeout = 0, time_zone = '+00:00'")
            if self.run(f"SHOW DATABASES LIKE '{SPACE}'"):
                self.run(f"USE {SPACE}")

    def clear(self) -> None:
        """An empty schema, which every statement means."""
        if self.kind == "postgres":
            self.run("SET client_min_messages = error; SET lock_timeout = '20s'")
            self.run(f"DROP SCHEMA IF EXISTS {SPACE} CASCADE; CREATE SCHEMA {SPACE}")
            self.run("SET lock_timeout = '40ms'")
        else:
            self.run(f"DROP DATABASE IF EXISTS {SPACE}")
            self.run(f"CREATE DATABASE {SPACE} CHARACTER SET utf8mb4")
            self.run(f"USE {SPACE}")

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []

    def run_many(self, statement: str, rows: list[tuple[Any, ...]]) -> None:
        """A statement for each row, whose values it marks by %s."""
        with self._connection.cursor() as cursor:
            for row in rows:
                cursor.execute(statement, row)

    def together(self, statements: list[str]) -> None:
        """All of them or none; MariaDB commits each statement that changes a schema."""
        self.run("BEGIN")
        try:
            for statement in statements:
                self.run(statement)
            self.run("COMMIT")
        except Exception:
            self.run("ROLLBACK")
            raise

    def quoted(self, name: str) -> str:
        mark = '"' if self.kind == "postgres" else "`"
        return mark + name.replace(mark, mark * 2) + mark

    def close(self) -> None:
        self._connection.close()


@contextmanager
def session_of(server: DatabaseServer) -> Iterator[Session]:
    session = Session(server)
    try:
        yield session
    finally:
        session.close()


def source_of(
    server: DatabaseServer, port: int | None = None, user: str = "", is_named: bool = True
) -> dict[str, Any]:
    """What `gelgt.open` takes for the schema of a case; PostgreSQL may find it by its search path
    where it is not named."""
    login = (user, user) if user else ("tester", server.password)
    url = server.url_at(port or server.port, *login)
    if server.kind == "postgres" and not is_named:
        return {"source": f"{url}?options=-csearch_path%3D{SPACE}"}
    if server.kind == "postgres":
        return {"source": url, "namespace": SPACE}
    return {"source": url.removesuffix(server.database) + SPACE}


def attempt(server: DatabaseServer, source: dict[str, Any], **options: Any) -> Any:
    """A `Database`, or the error of an import that says what a user can do about it."""
    try:
        return gelgt.open(**source, **options)
    except GelgtError as error:
        check_error(server, error.code, str(error), error.hint)
        return error


def check_error(server: DatabaseServer, code: str, text: str, hint: str) -> None:
    assert code not in WRONG, f"the wrong repair: {code}: {text}"
    assert hint, f"no repair: {text}"
    for secret in (server.password, quote(server.password, safe="")):
        assert secret not in text, "the password is shown"


def attempt_command(server: DatabaseServer, source: dict[str, Any], out: Path) -> Any:
    """As `attempt`, by the command `gelgt import`, in this process."""
    from gelgt.cli import main

    arguments = ["gelgt", "import", source["source"], str(out), "--json"]
    if "namespace" in source:
        arguments += ["--namespace", source["namespace"]]
    shown, noted = io.StringIO(), io.StringIO()
    with patch.object(sys, "argv", arguments), redirect_stdout(shown), redirect_stderr(noted):
        try:
            main()
            code = 0
        except SystemExit as ending:
            code = int(ending.code or 0)
    assert code in (0, 2), f"exit code {code}: {noted.getvalue()}"
    assert "Traceback" not in noted.getvalue()
    assert server.password not in shown.getvalue() + noted.getvalue()
    answer = json.loads(shown.getvalue())
    if code == 0:
        return gelgt.open(out)
    assert not out.exists(), "a refused import left its folder"
    error = answer["error"]
    check_error(server, error["code"], error["message"], error["hint"])
    return GelgtError(error["code"], error["message"], error["hint"])


def rows_of(db: gelgt.Database, table: str) -> list[dict[str, Any]]:
    """The rows of a table with the user's own keys, in the order of the first of them."""
    schema, content = db.table(table), db.read(table)
    columns = {c: content.column(c).to_pylist() for c in content.column_names}
    keys = db.keys(table)
    if keys is not None:
        columns |= {c: keys.column(c).to_pylist() for c in keys.column_names}
    for key in schema.foreign_keys:
        parent = db.keys(key.table)
        if parent is not None and len(key.columns) == 1:
            values = parent.column(parent.column_names[0]).to_pylist()
            numbers = content.column(key.columns[0]).to_pylist()
            columns[key.columns[0]] = [None if n is None else values[n] for n in numbers]
    rows = [dict(zip(columns, row)) for row in zip(*columns.values())]
    return sorted(rows, key=lambda row: repr(row.get("id")))
