"""What the catalogue of PostgreSQL says that reflection does not: whether tables are still those
that a snapshot sees, which tables hold the rows of others, and what a domain is made of.

A snapshot holds for rows alone. Names are looked up in the catalogue of this moment, and TRUNCATE,
a rewrite (ALTER … TYPE), REFRESH MATERIALIZED VIEW and ATTACH PARTITION replace what is stored
under a name for everybody at once: after any of them an older snapshot finds an empty table,
another table under the same name, or the rows of a later state, without an error. Each of them
leaves a new row in the catalogue, though, and the snapshot still sees the old one.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Connection

# The table with its partitions, heirs and, for a view, what the view reads; each with the numbers
# of the transactions that wrote its entries of the catalogue.
_ENTRIES = """
    WITH RECURSIVE used (oid, kind, mark) AS (
        SELECT c.oid, c.relkind, '' FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname = :table AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
          AND CASE WHEN :namespace IS NULL THEN pg_table_is_visible(c.oid)
                   ELSE n.nspname = :namespace END
        UNION
        SELECT part.oid, c.relkind, part.mark
        FROM used CROSS JOIN LATERAL (
            SELECT i.inhrelid AS oid, i.xmin::text AS mark FROM pg_inherits i
            WHERE i.inhparent = used.oid AND used.kind IN ('r', 'p', 'f')
            UNION ALL
            SELECT d.refobjid, r.xmin::text FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid
            WHERE r.ev_class = used.oid AND used.kind = 'v' AND d.refobjid <> used.oid
              AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
        ) part JOIN pg_class c ON c.oid = part.oid
    )
    SELECT string_agg(DISTINCT concat_ws(' ', c.oid, c.relfilenode, c.xmin, used.mark, (
        SELECT string_agg(concat_ws(':', a.attnum, a.xmin), ' ' ORDER BY a.attnum)
        FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0)), E'\\n')
    FROM used JOIN pg_class c ON c.oid = used.oid"""


def catalogue_entries(connection: Connection, table: str, namespace: str | None) -> str:
    """What the catalogue holds about a table, as the transaction of the connection sees it; it
    differs after whatever an older snapshot would not notice."""
    names = {"table": table, "namespace": namespace}
    values = (sa.bindparam(name, value, sa.Text) for name, value in names.items())
    return str(connection.execute(sa.text(_ENTRIES).bindparams(*values)).scalar_one())


# The catalogue of this moment, which says whether a name needs its schema, does not know them.
_DROPPED = """
    SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ANY(current_schemas(false)) AND c.relkind IN ('r', 'p')
      AND pg_table_is_visible(c.oid) IS NULL"""


def dropped_tables(connection: Connection) -> list[str]:
    """Tables of the search path that the transaction sees and that were dropped since: reflection
    leaves them out."""
    return list(connection.execute(sa.text(_DROPPED)).scalars())


# Each table that has a parent, with whether each of both is among the tables that are read.
_FAMILY = """
    WITH kin AS (
        SELECT c.oid, c.relname, c.relkind, c.relispartition,
            has_table_privilege(c.oid, 'SELECT') AND
                CASE WHEN :namespace IS NULL THEN pg_table_is_visible(c.oid)
                     ELSE n.nspname = :namespace END AS is_read,
            (SELECT array_agg(a.attname ORDER BY a.attname) FROM pg_attribute a
             WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped) AS columns
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'f')
    )
    SELECT heir.oid, heir.relname, heir.is_read, parent.oid, parent.relname, parent.is_read,
        heir.relispartition, heir.columns = parent.columns AND 1 = (
            SELECT count(*) FROM pg_inherits other WHERE other.inhrelid = heir.oid)
    FROM pg_inherits i JOIN kin heir ON heir.oid = i.inhrelid
        JOIN kin parent ON parent.oid = i.inhparent
    ORDER BY i.inhrelid, i.inhseqno"""


@dataclass(frozen=True)
class Family:
    """Which tables hold the rows of others, so that each row is read once.

    `SELECT … FROM parent` gives the rows of partitions and heirs too. Those with the columns of
    their one parent are parts of it. An heir with columns of its own is a table of its own, whose
    rows its parents leave out.

    Attributes:
        partitions: The partitions of the tables.
        parts: The heirs that are parts of each table.
        heirs: The heirs of each table that are tables of their own.
        left_out: The numbers of all tables whose rows each table leaves out.
    """

    partitions: set[str] = field(default_factory=set)
    parts: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    heirs: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    left_out: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


def read_family(connection: Connection, namespace: str | None) -> Family:
    """The partitions and heirs of the tables that are read."""
    query = sa.text(_FAMILY).bindparams(sa.bindparam("namespace", namespace, sa.Text))
    names: dict[int, str] = {}  # of the tables that are read
    parents, heirs = defaultdict(list), defaultdict(list)
    partitions, are_parts = set(), set()
    for (
        heir,
        heir_name,
        is_read,
        parent,
        parent_name,
        parent_is_read,
        is_partition,
        is_alike,
    ) in connection.execute(query):
        names |= {heir: heir_name} if is_read else {}
        names |= {parent: parent_name} if parent_is_read else {}
        parents[heir].append(parent)
        heirs[parent].append(heir)
        partitions |= {heir} if is_partition else set()
        are_parts |= {heir} if is_partition or is_alike or not is_read else set()

    @cache
    def owner(table: int) -> int | None:
        """The table that is read with its rows."""
        above = [owner(parent) for parent in parents[table]] if table in are_parts else []
        found = next((o for o in above if o is not None), None)
        return found or (table if table in names else None)

    def below(table: int) -> set[int]:
        return set(heirs[table]).union(*(below(heir) for heir in heirs[table]))

    family = Family()
    for table, name in names.items():
        for heir in sorted(below(table)) if owner(table) == table else ():
            if owner(heir) != table:
                family.left_out[name].append(heir)
                family.heirs[name] += [names[heir]] if owner(heir) == heir else []
            elif heir in names and heir in partitions:
                family.partitions.add(names[heir])
            elif heir in names:
                family.parts[name].append(names[heir])
    return family


# A domain may be made of another one.
_BASE = """
    WITH RECURSIVE step (base, modifier) AS (
        SELECT t.typbasetype, t.typtypmod
        FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
        WHERE t.typname = :name AND t.typtype = 'd'
          AND CASE WHEN :namespace IS NULL THEN pg_type_is_visible(t.oid)
                   ELSE n.nspname = :namespace END
        UNION ALL
        SELECT t.typbasetype, t.typtypmod FROM step JOIN pg_type t ON t.oid = step.base
        WHERE t.typtype = 'd'
    )
    SELECT format_type(base, modifier) FROM step JOIN pg_type t ON t.oid = base
    WHERE t.typtype <> 'd'"""
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")


def base_type(connection: Connection, domain: postgresql.DOMAIN) -> Any:
    """The type that a domain is made of; SQLAlchemy leaves out that it is an array, and how many
    digits a number has."""
    names = {"name": domain.name, "namespace": domain.schema}
    values = (sa.bindparam(name, value, sa.Text) for name, value in names.items())
    text = connection.execute(sa.text(_BASE).bindparams(*values)).scalar() or ""
    if text.endswith("[]"):
        return sa.ARRAY(sa.Text())
    if digits := _NUMERIC.fullmatch(text):
        return sa.Numeric(int(digits[1]), int(digits[2]))
    kind: Any = domain
    while isinstance(kind, postgresql.DOMAIN):
        kind = kind.data_type
    return kind
