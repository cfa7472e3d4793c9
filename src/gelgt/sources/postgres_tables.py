"""Whether tables of PostgreSQL are still those that a snapshot sees.

A snapshot holds for rows alone. Names are looked up in the catalogue of this moment, and TRUNCATE,
a rewrite (ALTER … TYPE), REFRESH MATERIALIZED VIEW and ATTACH PARTITION replace what is stored
under a name for everybody at once: after any of them an older snapshot finds an empty table,
another table under the same name, or the rows of a later state, without an error. Each of them
leaves a new row in the catalogue, though, and the snapshot still sees the old one.
"""

import sqlalchemy as sa
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
