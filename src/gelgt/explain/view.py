"""A SQL view that selects what a model uses: the entity's key, and for each table around it that
matters the columns that matter, joined along the foreign keys."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gelgt.sources.database import Database

if TYPE_CHECKING:
    from gelgt.explain.whole import Importance

LEAST = 0.05  # of the strongest path or column


def view_sql(
    db: Database, entity: str, paths: Sequence["Importance"], columns: Sequence["Importance"]
) -> str:
    """The text of a view with one line for each row around an entity on the paths that matter."""
    used = [p for p in paths if p.importance > LEAST * max(q.importance for q in paths)]
    strong = [c for c in columns if c.importance > LEAST * max(q.importance for q in columns)]
    keys = db.table(entity).primary_key
    key = keys.columns[0] if keys is not None else "rowid"
    parts = []
    for path in used:
        tables = path.name.split(" → ")
        joins = _joins(db, tables)
        if joins is None:
            continue
        last, alias = tables[-1], f"t{len(tables) - 1}"
        names = [c.name.removeprefix(f"{last}.") for c in strong if c.name.startswith(f"{last}.")]
        values = ", ".join(f"'{name}', {alias}.{_quoted(name)}" for name in names)
        time = db.table(last).time_col
        when = f"{alias}.{_quoted(time)}" if time else "NULL"
        label = path.name.replace("'", "''")
        parts.append(
            f"SELECT t0.{_quoted(key)} AS entity, '{label}' AS path, {when} AS happened_at, "
            f"json_object({values}) AS columns\nFROM {_quoted(entity)} AS t0\n" + "\n".join(joins)
        )
    return "CREATE VIEW used_by_model AS\n" + "\nUNION ALL\n".join(parts) + ";\n" if parts else ""


def _joins(db: Database, tables: Sequence[str]) -> list[str] | None:
    """The joins along a path; None where two tables are linked by no key."""
    joins = []
    for place in range(1, len(tables)):
        before, here = db.table(tables[place - 1]), db.table(tables[place])
        down = next((k for k in here.foreign_keys if k.table == tables[place - 1]), None)
        up = next((k for k in before.foreign_keys if k.table == tables[place]), None)
        key, child, parent = down or up, f"t{place}", f"t{place - 1}"
        if down is None:
            child, parent = parent, child
        owner = before if down is not None else here
        if key is None or owner.primary_key is None:
            return None
        pairs = zip(key.columns, key.referred or owner.primary_key.columns)
        on = " AND ".join(f"{child}.{_quoted(a)} = {parent}.{_quoted(b)}" for a, b in pairs)
        joins.append(f"JOIN {_quoted(tables[place])} AS t{place} ON {on}")
    return joins


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
