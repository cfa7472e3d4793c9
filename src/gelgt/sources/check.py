"""Checks names before anything is read, and keys against the rows before anything is written."""

from collections.abc import Iterable, Mapping

from gelgt.errors import SchemaError, in_schema, some
from gelgt.schema.model import ForeignKey, TableSchema
from gelgt.sources.probe import StagedProbe


def check_keys(tables: Mapping[str, TableSchema], probe: StagedProbe) -> None:
    """Refuse primary keys that do not identify rows, and foreign keys that refer to columns which
    do not."""
    for table in tables.values():
        if table.primary_key and table.primary_key.origin != "inferred":
            _check_unique(table.name, table.primary_key.columns, probe, "primary key")
        for fk in table.foreign_keys:
            parent = tables[fk.table]
            referred = referred_columns(fk, parent)
            _check_referred(table, fk, parent, referred)
            if parent.primary_key is None or referred != parent.primary_key.columns:
                _check_unique(
                    fk.table,
                    referred,
                    probe,
                    f"column referred to by '{table.name}.{fk.column}'",
                    may_be_null=True,
                )


def referred_columns(fk: ForeignKey, parent: TableSchema) -> tuple[str, ...]:
    """The parent's columns that a foreign key holds values of: those it names, else the primary
    key."""
    if fk.referred:
        return fk.referred
    if parent.primary_key is None:
        raise SchemaError(
            "no_primary_key",
            f"The foreign key '{fk.column}' refers to table '{parent.name}', which has no primary "
            "key.",
            hint=f"State one {in_schema(parent.name, 'pkey: …')}.",
        )
    return parent.primary_key.columns


def _check_referred(
    table: TableSchema, fk: ForeignKey, parent: TableSchema, referred: tuple[str, ...]
) -> None:
    for column in referred:
        if column not in parent.columns:
            raise SchemaError(
                "unknown_column",
                f"'{table.name}.{fk.column}' refers to '{fk.table}.{column}', which does not "
                "exist.",
                hint="Name another column.",
            )
    if len(referred) != len(fk.columns):
        raise SchemaError(
            "bad_foreign_key",
            f"'{table.name}.{fk.column}' has {len(fk.columns)} columns, the key of '{fk.table}' "
            f"{len(referred)} ({', '.join(referred)}).",
            hint="Name the referred column as 'table.column', or leave the key out.",
        )


def _check_unique(
    table: str, columns: tuple[str, ...], probe: StagedProbe, role: str, may_be_null: bool = False
) -> None:
    staged = probe.tables[table]
    for c in columns:
        if staged.columns[c].nulls and not may_be_null:
            raise SchemaError(
                "null_key",
                f"The {role} '{table}.{c}' is null in {staged.columns[c].nulls:,} of "
                f"{staged.rows:,} rows.",
                hint="Fill it in, or choose another key.",
            )
    if len(columns) == 1 and probe.is_free_of_repeats(table, columns[0]):
        return
    values = ", ".join(probe.value(table, c) for c in columns)
    filled = " AND ".join(f"{staged.columns[c].stored} IS NOT NULL" for c in columns)
    groups = (
        f"SELECT {values}, count(*) AS n FROM {probe.relation(table)} WHERE {filled} GROUP "
        "BY ALL HAVING count(*) > 1"
    )
    repeated = probe.all(f"{groups} ORDER BY ALL LIMIT 6")
    if repeated:
        surplus = probe.one(f"SELECT sum(n - 1) FROM ({groups})")[0]
        examples = [row[0] if len(columns) == 1 else row[:-1] for row in repeated]
        shown = " + ".join(f"'{table}.{c}'" for c in columns)
        raise SchemaError(
            "duplicate_key",
            f"The {role} {shown} is not unique: {int(surplus):,} rows repeat a value, for example "
            f"{some(examples)}.",
            hint="Remove the duplicates, or choose another key.",
        )


def check_names(tables: Mapping[str, Iterable[str]]) -> None:
    """Names that would collide in SQL, or that cannot name a file, are refused before anything is
    read."""
    checked = {"tables": list(tables)}
    checked |= {f"columns of '{name}'": list(columns) for name, columns in tables.items()}
    for what, names in checked.items():
        seen: dict[str, str] = {}
        for name in names:
            other = seen.setdefault(name.casefold(), name)
            if other != name:
                raise SchemaError(
                    "case_collision",
                    f"The {what} '{other}' and '{name}' differ only in letter case, which SQL "
                    "ignores.",
                    hint="Rename one.",
                )
            if not name.strip():
                raise SchemaError(
                    "empty_name", f"One of the {what} has an empty name.", hint="Rename it."
                )
    for name in tables:
        if "/" in name or "\\" in name or "\0" in name or name.startswith("."):
            raise SchemaError(
                "bad_name",
                f"The table name {name!r} cannot be a file name.",
                hint="Rename the table, or read it through a view.",
            )
