"""Real database servers for tests: PostgreSQL and MariaDB, each with its own folder and port.

    with PostgresServer() as server:
        gelgt.open(server.url)
        server.restart("immediate")

They are ended by the process that was started, whatever happens.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self
from urllib.parse import quote

PASSWORD = "s3cr3t/p@ss:w'rd"  # characters that break careless code
USER = "tester"


class ServerMissingError(Exception):
    """The binaries of a server are not installed."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _binary(name: str) -> str:
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which(name) or next(
        (str(place / name) for place in (*places, Path("/usr/sbin")) if (place / name).exists()),
        None,
    )
    if found is None:
        raise ServerMissingError(name)
    return found


def _ends_with_us() -> list[str]:
    """Before a command: its process ends with ours, even where that is killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL"] if setpriv else []


class DatabaseServer:
    """What both servers share. A subclass says how to set up, which command to start, and by which
    signal it stops in which manner."""

    kind = ""
    system_user = ""  # that runs it where we are root
    scheme, database = "", ""
    signals: ClassVar[dict[str, signal.Signals]]
    password = PASSWORD
    options: Sequence[str] = ()  # further ones, from its next start on

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix=f"gelgt-{self.kind}-"))
        self.log = self.home / "server.log"
        self.port = free_port()
        self.user = self.system_user if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._set_up()
            self.start()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return self.url_at(self.port)

    def url_at(self, port: int, user: str = USER, password: str = PASSWORD) -> str:
        """The address by another port, such as that of a proxy, or as another user."""
        place = f"127.0.0.1:{port}/{self.database}"
        return f"{self.scheme}://{user}:{quote(password, safe='')}@{place}"

    def _set_up(self) -> None:
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self.log.open("a") as out:
            self._process = subprocess.Popen(
                [*_ends_with_us(), *self._command(), *self.options],
                stdout=out,
                stderr=out,
                user=self.user,
                cwd=self.home,
            )
        for _ in range(1000):
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended at once:\n{self.log.read_text()}")
            if self._answers():
                return
            time.sleep(0.03)
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()}")

    def _answers(self) -> bool:
        raise NotImplementedError

    def stop(self, how: str = "fast") -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.signals[how])
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def restart(self, how: str = "fast") -> None:
        self.stop(how)
        self.start()

    def close(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class PostgresServer(DatabaseServer):
    """A PostgreSQL server; it refuses to run as root, so another user starts it there."""

    kind, system_user = "postgres", "postgres"
    scheme, database = "postgresql", "postgres"
    signals: ClassVar = {
        "fast": signal.SIGINT,
        "immediate": signal.SIGQUIT,
        "smart": signal.SIGTERM,
    }

    def _set_up(self) -> None:
        (self.home / "password").write_text(PASSWORD)
        if self.user:
            shutil.chown(self.home, self.user)
            shutil.chown(self.home / "password", self.user)
        options = ["--auth=scram-sha-256", "-E", "UTF8", "--no-sync"]
        command = [_binary("initdb"), "-D", str(self.home / "data"), "-U", USER, *options]
        command.append(f"--pwfile={self.home / 'password'}")
        _binary("postgres")
        subprocess.run(command, check=True, capture_output=True, user=self.user, cwd=self.home)

    def _command(self) -> list[str]:
        settings = ["listen_addresses=127.0.0.1", "fsync=off", "log_statement=none"]
        return [
            *(_binary("postgres"), "-D", str(self.home / "data")),
            *("-p", str(self.port), "-k", str(self.home)),
            *(word for setting in settings for word in ("-c", setting)),
        ]

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True


class MariaServer(DatabaseServer):
    """A MariaDB server."""

    kind, system_user = "mariadb", "mysql"
    scheme, database = "mysql", "shop"
    signals: ClassVar = {"fast": signal.SIGTERM, "immediate": signal.SIGKILL}

    def _set_up(self) -> None:
        if self.user:
            shutil.chown(self.home, self.user)
        _binary("mariadbd")
        command = [_binary("mariadb-install-db"), "--no-defaults", "--skip-test-db"]
        command += [f"--datadir={self.home / 'data'}", "--auth-root-authentication-method=normal"]
        if self.user:
            command.append(f"--user={self.user}")
        subprocess.run(command, check=True, capture_output=True)
        escaped = PASSWORD.replace("'", "''")
        (self.home / "init.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {self.database} CHARACTER SET utf8mb4;\n"
            f"CREATE USER IF NOT EXISTS {USER}@'127.0.0.1' IDENTIFIED BY '{escaped}';\n"
            f"GRANT ALL ON *.* TO {USER}@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        (self.home / "init.sql").chmod(0o644)

    def _command(self) -> list[str]:
        places = {"datadir": "data", "socket": "socket", "pid-file": "pid", "init-file": "init.sql"}
        return [
            *(_binary("mariadbd"), "--no-defaults"),
            *(f"--{option}={self.home / name}" for option, name in places.items()),
            *(f"--port={self.port}", "--bind-address=127.0.0.1", "--skip-name-resolve"),
            *("--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M"),
        ]

    def _answers(self) -> bool:
        import pymysql

        options = {"user": USER, "password": PASSWORD, "database": self.database}
        try:
            pymysql.connect(host="127.0.0.1", port=self.port, **options).close()
        except pymysql.Error:
            return False
        return True
