"""Whether anything in a PostgreSQL database has changed, by its transaction numbers.

Whatever is committed ends a transaction that has a number, the number stays in each row that it
wrote, and a snapshot names the numbers that it sees. So nothing has changed

    if a snapshot is equal to the one of the import, which holds for the whole cluster, or
    if no row of the tables and of the catalogue is from a transaction that the import may not have
    seen, and there are as many rows as then: an update writes a row, a deletion removes one.

The second needs the server to count the rows, which is much less than to read them. Neither holds
for rows that live elsewhere (foreign partitions, Citus, other kinds of storage), that a crash
empties without a transaction (unlogged tables), or that depend on who asks and when (row security),
nor on a standby, whose snapshots leave out the transactions that are under way.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from gelgt.sources.cache import text_key

# The settings change how values become text.
_STATE = """
    SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
                     extract(epoch FROM pg_postmaster_start_time()), current_database(),
                     current_user, current_schemas(true), current_setting('DateStyle'),
                     current_setting('IntervalStyle')),
           pg_current_snapshot()::text
    WHERE NOT pg_is_in_recovery()
      AND version() ~ '^PostgreSQL [0-9]+[.][0-9]+ ' AND version() !~ 'Greenplum|Cloudberry'
      AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
      AND NOT EXISTS (
        SELECT FROM pg_class c LEFT JOIN pg_am a ON a.oid = c.relam
        WHERE c.oid >= 16384 AND c.relpersistence <> 't' AND (
            c.relkind IN ('r', 'm') AND (c.relpersistence = 'u' OR a.amname <> 'heap')
            OR c.relkind = 'f' AND EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid)
            OR c.relkind IN ('r', 'p') AND row_security_active(c.oid)))"""
# What says which columns a table has, how they are stored, and how their values become text.
_CATALOGUE = [
    "attrdef",
    "attribute",
    "cast",
    "class",
    "constraint",
    "enum",
    "inherits",
    "namespace",
    "policy",
    "proc",
    "rewrite",
    "type",
]
_SYSTEM = "pg_catalog.pg_"
_WRAP = 2**32  # rows hold the last 32 bits of a transaction number


class Snapshot(NamedTuple):
    """What a transaction sees.

    Attributes:
        server: Which server, database and user, and how it writes values.
        text: The numbers of the transactions that it sees.
    """

    server: str
    text: str

    @property
    def key(self) -> str:
        return text_key(f"{self.server} {self.text}")

    @property
    def first_unfinished(self) -> int:
        """All transactions before this number are finished."""
        return int(self.text.split(":")[0])

    @property
    def end(self) -> int:
        return int(self.text.split(":")[1])


def take_snapshot(connection: Connection) -> Snapshot | None:
    """What the current transaction sees; None where that does not show every change."""
    if (connection.dialect.server_version_info or (0,)) < (13,):
        return None
    row = connection.exec_driver_sql(_STATE).one_or_none()
    return None if row is None else Snapshot(*row)


def take_census(connection: Connection, tables: Iterable[str]) -> dict[str, Any] | None:
    """How many rows the tables and the catalogue have, for `matches_census` later on."""
    snapshot = take_snapshot(connection)
    if snapshot is None:
        return None
    relations = [*(f"{_SYSTEM}{name}" for name in _CATALOGUE), *tables]
    rows = {
        relation: connection.exec_driver_sql(f"SELECT count(*) FROM {relation}").scalar_one()
        for relation in relations
    }
    return {"server": snapshot.server, "since": snapshot.first_unfinished, "rows": rows}


def matches_census(connection: Connection, census: dict[str, Any]) -> bool:
    """Whether tables and catalogue hold the rows that they held when they were counted."""
    is_new = is_newer(connection, census)
    return is_new is not None and all(
        _counts(connection, relation, is_new) == (count, 0)
        for relation, count in census["rows"].items()
    )


def grown_tables(connection: Connection, census: dict[str, Any]) -> dict[str, str]:
    """The condition for a row that came after a census, for each table that has all the rows that
    it had then; none where the catalogue has changed."""
    is_new = is_newer(connection, census)
    if is_new is None:
        return {}
    counts = {name: _counts(connection, name, is_new) for name in census["rows"]}
    is_system = {name: name.startswith(_SYSTEM) for name in counts}
    if any(counts[name] != (census["rows"][name], 0) for name in counts if is_system[name]):
        return {}
    # An update replaces an older row by a new one, so that the older ones become fewer.
    return {
        name: is_new
        for name, (rows, new) in counts.items()
        if not is_system[name] and rows - new == census["rows"][name]
    }


def is_newer(connection: Connection, census: dict[str, Any]) -> str | None:
    """The condition for a row that a census may not have seen; None where numbers of transactions
    cannot be compared with it."""
    snapshot, since = take_snapshot(connection), int(census["since"])
    if snapshot is None or snapshot.server != census["server"]:
        return None
    # Numbers below 3 are no transactions, and numbers half a turn apart cannot be compared.
    if since % _WRAP < 3 or not 0 <= snapshot.end - since < _WRAP // 4:
        return None
    # `age` counts transactions back from now; that of rows older than half a turn is negative.
    return f"age(xmin) BETWEEN 0 AND age('{since % _WRAP}'::xid)"


def _counts(connection: Connection, relation: str, is_new: str) -> tuple[int, int]:
    """All rows of a relation, and the new ones."""
    query = f"SELECT count(*), count(*) FILTER (WHERE {is_new}) FROM {relation}"
    rows, new = connection.exec_driver_sql(query).one()
    return int(rows), int(new)
