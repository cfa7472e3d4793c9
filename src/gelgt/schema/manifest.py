"""Reads and writes `manifest.yaml`, the RelBench v3 description of a database folder.

    name: shop                          # RelBench's own keys …
    val_timestamp: '2025-09-01'
    test_timestamp: '2025-11-01'
    tables:
      orders: {pkey: id, time_col: placed_at, fkeys: {customer_id: customers}}
    gelgt:                              # … and ours, which RelBench ignores
      source: sqlite:///shop.db         # never with a password
      split_origin: inferred
      tables:
        orders:
          primary_key: {columns: [id], origin: declared, evidence: …}
          time_column: {column: placed_at, origin: inferred, evidence: …}
          foreign_keys: {customer_id: {columns: [customer_id], table: customers, origin: declared}}
          kinds: {status: {kind: categorical, origin: inferred, evidence: …}, note: text}
        order_items:                    # no time column: a line is as new as its order
          dated_by: {keys: [order_id], pointers: [], origin: inferred, evidence: …}

`tables` is the authority on keys and times, `gelgt.tables.*.kinds` on column kinds; a kind may be
written short (`note: text`), and so may the keys that date a table (`dated_by: order_id`, a list,
or null for rows that are always visible). What was edited by hand shows the origin `manifest`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gelgt.errors import SchemaError, did_you_mean
from gelgt.files import write_text
from gelgt.schema.model import (
    KINDS,
    ColumnKind,
    DatabaseSchema,
    Dating,
    ForeignKey,
    PrimaryKey,
    TableSchema,
    TimeColumn,
)

MANIFEST = "manifest.yaml"


def load_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping from a file, or a SchemaError that says where it breaks."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SchemaError(
            "bad_manifest",
            f"{path} is not readable YAML: {error}",
            hint="Repair the file and try again.",
        ) from None
    if not isinstance(content, dict):
        raise SchemaError(
            "bad_manifest",
            f"{path} holds no mapping.",
            hint="A manifest starts with 'name:' and 'tables:'.",
        )
    return content


def dump_yaml(content: Mapping[str, Any], path: Path) -> None:
    """Write YAML; a reader never sees half a file."""
    write_text(path, yaml_text(content))


def yaml_text(content: Mapping[str, Any]) -> str:
    """YAML with multi-line strings (SQL) as readable blocks."""
    return yaml.dump(
        content,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=4096,
        default_flow_style=False,
    )


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
    style = "|" if "\n" in data else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _represent_text)


def parse_schema(
    content: Mapping[str, Any], columns: Mapping[str, Mapping[str, str]], where: str
) -> DatabaseSchema:
    """The schema that a manifest describes, given the columns that the files really have."""
    ours = content.get("gelgt") or {}
    tables = content.get("tables") or {}
    if not tables:
        raise SchemaError(
            "bad_manifest", f"{where} lists no tables.", hint="Add them under 'tables:'."
        )
    parsed = {
        name: _parse_table(
            name,
            spec or {},
            (ours.get("tables") or {}).get(name) or {},
            columns[name],
            tables,
            where,
        )
        for name, spec in tables.items()
    }
    return DatabaseSchema(
        name=str(content.get("name") or "database"),
        tables=parsed,
        val_timestamp=_text(content.get("val_timestamp")),
        test_timestamp=_text(content.get("test_timestamp")),
        split_origin=ours.get("split_origin", "declared"),
        description=str(content.get("description") or ""),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _parse_table(
    name: str,
    spec: Mapping[str, Any],
    ours: Mapping[str, Any],
    columns: Mapping[str, str],
    tables: Mapping[str, Any],
    where: str,
) -> TableSchema:
    def known(column: str, role: str) -> str:
        if column not in columns:
            raise SchemaError(
                "unknown_column",
                f"{where}: table '{name}' has no column '{column}' ({role}).",
                hint=did_you_mean(column, columns),
            )
        return column

    primary_key = None
    if spec.get("pkey"):
        known(spec["pkey"], "primary key")
        mine = ours.get("primary_key") or {}
        same = "+".join(mine.get("columns", ())) == spec["pkey"]
        primary_key = (
            PrimaryKey(
                tuple(mine["columns"]), mine.get("origin", "declared"), mine.get("evidence", "")
            )
            if same
            else PrimaryKey(
                (spec["pkey"],), "manifest" if ours else "declared", "named in the manifest"
            )
        )
    time_column = None
    if spec.get("time_col"):
        known(spec["time_col"], "time column")
        mine = ours.get("time_column") or {}
        same = mine.get("column") == spec["time_col"]
        time_column = TimeColumn(
            spec["time_col"],
            mine.get("origin", "declared") if same else ("manifest" if ours else "declared"),
            mine.get("evidence", "") if same else "named in the manifest",
        )
    foreign_keys = []
    for column, table in (spec.get("fkeys") or {}).items():
        known(column, "foreign key")
        if table not in tables:
            raise SchemaError(
                "unknown_table",
                f"{where}: '{name}.{column}' refers to a table '{table}' that is not listed.",
                hint=did_you_mean(table, tables),
            )
        mine = (ours.get("foreign_keys") or {}).get(column) or {}
        same = mine.get("table") == table
        foreign_keys.append(
            ForeignKey(
                tuple(mine["columns"]) if same and "columns" in mine else (column,),
                table,
                tuple(mine.get("referred", ())) if same else (),
                mine.get("origin", "declared") if same else ("manifest" if ours else "declared"),
                mine.get("evidence", "") if same else "named in the manifest",
                column if same and mine.get("stored") else "",
            )
        )
    kinds = {
        known(c, "kind"): parse_kind(name, c, entry, where)
        for c, entry in (ours.get("kinds") or {}).items()
    }
    dating = (
        parse_dating(name, ours["dated_by"], [fk.column for fk in foreign_keys], where)
        if "dated_by" in ours
        else None
    )
    return TableSchema(
        name, dict(columns), primary_key, time_column, tuple(foreign_keys), kinds, dating
    )


def parse_dating(table: str, entry: Any, keys: Sequence[str], where: str) -> Dating:
    """What dates a table: written short as a foreign key, a list of them or null, or with its
    evidence."""
    is_short = not isinstance(entry, Mapping)
    named = entry if is_short else entry.get("keys")
    columns = (named,) if isinstance(named, str) else tuple(named or ())
    pointers = () if is_short else tuple(entry.get("pointers") or ())
    for column in (*columns, *pointers):
        if column not in keys:
            raise SchemaError(
                "unknown_column",
                f"{where}: '{table}' is to be dated by '{column}', which is no foreign key of it.",
                hint=did_you_mean(str(column), keys),
            )
    if is_short:
        return Dating(columns, (), "manifest", "named in the manifest")
    return Dating(columns, pointers, entry.get("origin", "manifest"), entry.get("evidence", ""))


def parse_kind(table: str, column: str, entry: Any, where: str) -> ColumnKind:
    """A kind written short (`note: text`) or with its evidence."""
    short = isinstance(entry, str)
    kind = entry if short else (entry or {}).get("kind")
    if kind not in KINDS:
        raise SchemaError(
            "unknown_kind",
            f"{where}: '{table}.{column}' has the kind {kind!r}.",
            hint=did_you_mean(str(kind), KINDS),
        )
    if short:
        return ColumnKind(kind, "manifest", "named in the manifest")
    return ColumnKind(
        kind, entry.get("origin", "manifest"), entry.get("evidence", ""), entry.get("separator")
    )


def schema_to_dict(schema: DatabaseSchema) -> dict[str, Any]:
    """The manifest of a schema: RelBench's keys first, ours under `gelgt`."""
    content: dict[str, Any] = {"name": schema.name, "manifest_version": 1}
    if schema.description:
        content["description"] = schema.description
    content["val_timestamp"] = schema.val_timestamp
    content["test_timestamp"] = schema.test_timestamp
    content["tables"] = {
        name: {
            "pkey": t.pkey,
            "time_col": t.time_col,
            "fkeys": {fk.column: fk.table for fk in t.foreign_keys},
        }
        for name, t in schema.tables.items()
    }
    content["gelgt"] = {
        "split_origin": schema.split_origin,
        "tables": {name: _provenance(t) for name, t in schema.tables.items()},
    }
    return content


def _provenance(table: TableSchema) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if table.primary_key:
        pk = table.primary_key
        entry["primary_key"] = {
            "columns": list(pk.columns),
            "origin": pk.origin,
            "evidence": pk.evidence,
        }
    if table.time_column:
        tc = table.time_column
        entry["time_column"] = {"column": tc.column, "origin": tc.origin, "evidence": tc.evidence}
    if table.foreign_keys:
        entry["foreign_keys"] = {
            fk.column: {
                "columns": list(fk.columns),
                "table": fk.table,
                "referred": list(fk.referred),
                "origin": fk.origin,
                "evidence": fk.evidence,
                "stored": bool(fk.stored),
            }
            for fk in table.foreign_keys
        }
    if table.dating is not None:
        dating = table.dating
        entry["dated_by"] = {
            "keys": list(dating.keys),
            "pointers": list(dating.pointers),
            "origin": dating.origin,
            "evidence": dating.evidence,
        }
    if table.kinds:
        entry["kinds"] = {
            c: {
                "kind": k.kind,
                "origin": k.origin,
                "evidence": k.evidence,
                **({"separator": k.separator} if k.separator else {}),
            }
            for c, k in table.kinds.items()
        }
    return entry
