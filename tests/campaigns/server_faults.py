"""Servers that break off: ended sessions, restarts, time-outs, and a network that cuts, resets or
stalls. The import is whole or an error, and one afterwards works."""

from collections.abc import Callable

import numpy as np

from campaigns.server_world import Session
from database_servers import DatabaseServer

Random = np.random.Generator
WIDE = 400  # characters of a note


def create(session: Session, random: Random) -> None:
    """A table of up to a megabyte, more than fits into the buffers of a connection, and two small
    ones beside it."""
    session.run("CREATE TABLE aside (id INT PRIMARY KEY, v INT)")
    session.run("INSERT INTO aside VALUES (1, 7), (2, NULL)")
    session.run("CREATE TABLE notes (id INT PRIMARY KEY, aside INT, note VARCHAR(2000))")
    rows = int(random.choice([3, 300, 2000]))
    for start in range(0, rows, 500):
        values = ", ".join(
            f"({i}, {i % 2 + 1}, '{str(i) * (WIDE // len(str(i)))}')"
            for i in range(start, min(start + 500, rows))
        )
        session.run(f"INSERT INTO notes VALUES {values}")
    session.run("CREATE TABLE zuletzt (id INT PRIMARY KEY, v INT)")
    session.run("INSERT INTO zuletzt VALUES (5, 1)")


def end_sessions(session: Session) -> None:
    """End all sessions but this one."""
    if session.kind == "postgres":
        session.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return
    own = session.run("SELECT CONNECTION_ID()")[0][0]
    query = "SELECT id FROM information_schema.processlist WHERE user = 'tester' AND id <> "
    for (number,) in session.run(f"{query}{own}"):
        _quietly(session, f"KILL {number}")


def cancel_queries(session: Session) -> None:
    """Cancel what all sessions but this one are doing."""
    if session.kind == "postgres":
        session.run(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        )
        return
    own = session.run("SELECT CONNECTION_ID()")[0][0]
    query = "SELECT id FROM information_schema.processlist WHERE user = 'tester' AND id <> "
    for (number,) in session.run(f"{query}{own}"):
        _quietly(session, f"KILL QUERY {number}")


def _quietly(session: Session, statement: str) -> None:
    """A session that ended meanwhile needs no end."""
    import pymysql

    try:
        session.run(statement)
    except pymysql.Error:
        return


def restart(server: DatabaseServer, random: Random) -> None:
    server.restart("fast" if random.random() < 0.6 else "immediate")


# Settings of the reader's role that stop long statements and idle sessions.
LIMITS = {
    "postgres": (
        "statement_timeout = '2ms'",
        "idle_in_transaction_session_timeout = '5ms'",
        "idle_in_transaction_session_timeout = '40ms'",
        "statement_timeout = '20ms'",
        "lock_timeout = '10ms'",
        "default_transaction_isolation = 'serializable'",
        "TimeZone = 'America/St_Johns'",
        "DateStyle = 'German, DMY'",
        "IntervalStyle = 'iso_8601'",
        "extra_float_digits = -5",
        "bytea_output = 'escape'",
        "client_encoding = 'LATIN1'",
        "search_path = ''",
        "row_security = off",
    ),
    "mariadb": (
        "max_statement_time = 0.001",
        "time_zone = '-03:30'",
        "sql_mode = 'ANSI_QUOTES'",
        "sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'",
        "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
        "autocommit = 0",
        "tx_isolation = 'READ-UNCOMMITTED'",
        "character_set_results = 'latin1'",
        "net_write_timeout = 1",
        "sql_select_limit = 2",
    ),
}


def set_limit(session: Session, random: Random) -> Callable[[], None]:
    """Give all sessions from now on another setting; what takes it back."""
    limits = LIMITS[session.kind]
    limit = limits[random.integers(len(limits))]
    name = limit.split(" = ")[0]
    if session.kind == "postgres":
        session.run(f"ALTER ROLE tester SET {limit}")
        return lambda: (session.run(f"ALTER ROLE tester RESET {name}"), None)[1]
    before = session.run(f"SELECT @@GLOBAL.{name}")[0][0]
    value = f"'{before}'" if isinstance(before, str) else before
    session.run(f"SET GLOBAL {limit}")
    return lambda: (session.run(f"SET GLOBAL {name} = {value}"), None)[1]
