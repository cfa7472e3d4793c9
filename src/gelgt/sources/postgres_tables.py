"""What the catalogue of PostgreSQL says that reflection does not: whether tables are still those
that a snapshot sees, and what a domain is made of.

A snapshot holds for rows alone. Names are looked up in the catalogue of this moment, and TRUNCATE,
a rewrite (ALTER … TYPE), REFRESH MATERIALIZED VIEW and ATTACH PARTITION replace what is stored
under a name for everybody at once: after any of them an older snapshot finds an empty table,
another table under the same name, or the rows of a later state, without an error. Each of them
leaves a new row in the catalogue, though, and the snapshot still sees the old one.
"""

import re
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
