"""Reads and writes `manifest.yaml`, the RelBench v3 description of a database folder.

    name: shop                          # RelBench's keys …
    val_timestamp: '2025-09-01'
    test_timestamp: '2025-11-01'
    tables:
      orders: {pkey: id, time_col: placed_at, fkeys: {customer_id: customers}}
    gelgt:                              # … and gelgt's, which RelBench ignores
      source: sqlite:///shop.db         # never with a password
      split_origin: inferred
      tables:
        orders:
          primary_key: {columns: [id], origin: declared, evidence: …}
          time_column: {column: placed_at, origin: inferred, evidence: …}
          foreign_keys: {customer_id: {columns: [customer_id], table: customers, origin: declared}}
          kinds: {status: {kind: categorical, origin: inferred, evidence: …}, note: text}
        order_items:                    # no time column: a line is as new as its order
          dated_by: {keys: [order_id], required: [[order_id]], pointers: [], rule: keys, …}
          event_dates:                  # unknown before they happen
            returned_at: {filled: {reason: null}, origin: inferred, evidence: …}

`tables` states keys and times, `gelgt.tables.*.kinds` column kinds. A kind may be written short
(`note: text`), and so may the keys that date a table (`dated_by: order_id`, a list, or null for
rows that are always visible). What was edited by hand has the origin `manifest`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
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
    EventDate,
    ForeignKey,
    Origin,
    PrimaryKey,
    TableSchema,
    TimeColumn,
)

MANIFEST = "manifest.yaml"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same, ten times as fast


def load_yaml(path: Path) -> dict[str, Any]:
    """A YAML mapping from a file, or a SchemaError that says where it breaks."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (yaml.YAMLError, ValueError, RecursionError, OSError) as error:
        raise SchemaError(
            "bad_manifest",
            f"{path} is not readable YAML: {error}",
            hint="Repair the file and try again.",
        ) from None
    if not isinstance(content, dict):
        raise SchemaError(
            "bad_manifest",
            f"{path} must hold a mapping, got {type(content).__name__}.",
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
    """The schema that a manifest describes, given the columns of the files."""
    extra = content.get("gelgt") or {}
    tables = content.get("tables") or {}
    if not tables:
        raise SchemaError(
            "bad_manifest", f"{where} lists no tables.", hint="Add them under 'tables:'."
        )
    details = extra.get("tables") or {}
    parsed = {
        name: _TableEntry(
            name, spec or {}, details.get(name) or {}, columns[name], tables, where
        ).schema()
        for name, spec in tables.items()
    }
    return DatabaseSchema(
        name=str(content.get("name") or "database"),
        tables=parsed,
        val_timestamp=_text(content.get("val_timestamp")),
        test_timestamp=_text(content.get("test_timestamp")),
        split_origin=extra.get("split_origin", "declared"),
        description=str(content.get("description") or ""),
        inferred_until=_text(extra.get("inferred_until")),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@dataclass(frozen=True)
class _TableEntry:
    """What a manifest says about one table.

    Attributes:
        spec: RelBench's entry, which states keys and times.
        extra: gelgt's entry: origins, evidence and kinds. A part of it counts only where it agrees
            with `spec`; what differs was edited by hand.
        columns: The columns of the file.
        tables: All tables of the manifest.
        where: The manifest, for errors.
    """

    name: str
    spec: Mapping[str, Any]
    extra: Mapping[str, Any]
    columns: Mapping[str, str]
    tables: Mapping[str, Any]
    where: str

    def schema(self) -> TableSchema:
        primary_key, time_column = self._primary_key(), self._time_column()
        keys = tuple(
            self._foreign_key(column, table)
            for column, table in (self.spec.get("fkeys") or {}).items()
        )
        kinds = {
            self._checked(column, "kind"): parse_kind(self.name, column, entry, self.where)
            for column, entry in (self.extra.get("kinds") or {}).items()
        }
        dating = None
        if "dated_by" in self.extra:
            columns = [fk.column for fk in keys]
            dating = parse_dating(self.name, self.extra["dated_by"], columns, self.where)
        dates = None
        if "event_dates" in self.extra:
            dates = parse_event_dates(
                self.name, self.extra["event_dates"], self.columns, self.where
            )
        return TableSchema(
            self.name, dict(self.columns), primary_key, time_column, keys, kinds, dating, dates
        )

    def _primary_key(self) -> PrimaryKey | None:
        if not self.spec.get("pkey"):
            return None
        name = self._checked(self.spec["pkey"], "primary key")
        entry = self.extra.get("primary_key") or {}
        columns = tuple(entry.get("columns", ()))
        is_same = "+".join(columns) == name
        return PrimaryKey(columns if is_same else (name,), *self._origin(entry, is_same))

    def _time_column(self) -> TimeColumn | None:
        if not self.spec.get("time_col"):
            return None
        name = self._checked(self.spec["time_col"], "time column")
        entry = self.extra.get("time_column") or {}
        return TimeColumn(name, *self._origin(entry, entry.get("column") == name))

    def _foreign_key(self, column: str, table: str) -> ForeignKey:
        self._checked(column, "foreign key")
        if table not in self.tables:
            raise SchemaError(
                "unknown_table",
                f"{self.where}: '{self.name}.{column}' refers to a table '{table}' that is not "
                "listed.",
                hint=did_you_mean(table, self.tables),
            )
        entry = (self.extra.get("foreign_keys") or {}).get(column) or {}
        is_same = entry.get("table") == table
        columns = tuple(entry["columns"]) if is_same and "columns" in entry else (column,)
        stored = column if is_same and entry.get("stored") else ""
        if not stored and "+".join(columns) != column:
            columns = (column,)  # an entry that is about another key
        referred = tuple(entry.get("referred", ())) if is_same else ()
        return ForeignKey(columns, table, referred, *self._origin(entry, is_same), stored)

    def _origin(self, entry: Mapping[str, Any], is_same: bool) -> tuple[Origin, str]:
        """Origin and evidence of a key or time."""
        if is_same:
            return entry.get("origin", "declared"), entry.get("evidence", "")
        return "manifest" if self.extra else "declared", "named in the manifest"

    def _checked(self, column: str, role: str) -> str:
        if column not in self.columns:
            raise SchemaError(
                "unknown_column",
                f"{self.where}: table '{self.name}' has no column '{column}' ({role}).",
                hint=did_you_mean(column, self.columns),
            )
        return column


def parse_dating(table: str, entry: Any, keys: Sequence[str], where: str) -> Dating:
    """What dates a table: written short as a foreign key, a list of them or null, or with its
    evidence."""
    is_short = not isinstance(entry, Mapping)
    full = {"keys": entry} if is_short else entry
    columns, pointers = _names(full.get("keys")), _names(full.get("pointers"))
    required = tuple(_names(group) for group in full.get("required") or ())
    for column in (*columns, *pointers, *(c for group in required for c in group)):
        if column not in keys:
            raise SchemaError(
                "unknown_column",
                f"{where}: '{table}' must be dated by one of its foreign keys, got '{column}'.",
                hint=did_you_mean(str(column), keys),
            )
    if is_short:
        return Dating(columns, (), "manifest", "stated by the user")
    origin, evidence = full.get("origin", "manifest"), full.get("evidence", "")
    rule, doubt = full.get("rule", "keys"), full.get("doubt", "")
    return Dating(columns, pointers, origin, evidence, required, rule, doubt)


def dating_entry(dating: Dating) -> dict[str, Any]:
    """What dates a table, as `parse_dating` reads it."""
    return _entry(dating)


def _names(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value or ())


def parse_event_dates(
    table: str, entry: Any, columns: Mapping[str, str], where: str
) -> tuple[EventDate, ...]:
    """The dates that a model does not know before they happen, each with the columns that are
    filled along with it."""
    dates = []
    for column, given in (entry or {}).items():
        about = given or {}
        filled = dict(about.get("filled") or {})
        for name in (column, *filled):
            if name not in columns:
                raise SchemaError(
                    "unknown_column",
                    f"{where}: table '{table}' has no column '{name}' (event_dates).",
                    hint=did_you_mean(name, columns),
                )
        origin, evidence = about.get("origin", "manifest"), about.get("evidence", "")
        dates.append(EventDate(column, filled, origin, evidence))
    return tuple(dates)


def parse_kind(table: str, column: str, entry: Any, where: str) -> ColumnKind:
    """A kind written short (`note: text`) or with its evidence."""
    is_short = isinstance(entry, str)
    kind = entry if is_short else (entry or {}).get("kind")
    if kind not in KINDS:
        raise SchemaError(
            "unknown_kind",
            f"{where}: '{table}.{column}' has the kind {kind!r}.",
            hint=did_you_mean(str(kind), KINDS),
        )
    if is_short:
        return ColumnKind(kind, "manifest", "named in the manifest")
    origin, evidence = entry.get("origin", "manifest"), entry.get("evidence", "")
    return ColumnKind(kind, origin, evidence, entry.get("separator"))


def schema_to_dict(schema: DatabaseSchema) -> dict[str, Any]:
    """The manifest of a schema: RelBench's keys first, gelgt's under `gelgt`."""
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
        "inferred_until": schema.inferred_until,
        "tables": {name: _provenance(t) for name, t in schema.tables.items()},
    }
    return content


def _provenance(table: TableSchema) -> dict[str, Any]:
    """gelgt's entry of a table: origins, evidence and kinds."""
    entry: dict[str, Any] = {}
    if table.primary_key:
        entry["primary_key"] = _entry(table.primary_key)
    if table.time_column:
        entry["time_column"] = _entry(table.time_column)
    if table.foreign_keys:
        entry["foreign_keys"] = {
            fk.column: _entry(fk) | {"stored": bool(fk.stored)} for fk in table.foreign_keys
        }
    if table.dating is not None:
        entry["dated_by"] = _entry(table.dating)
    if table.event_dates is not None:
        entry["event_dates"] = {date.column: _entry(date) for date in table.event_dates}
        for date in entry["event_dates"].values():
            del date["column"]
    if table.kinds:
        entry["kinds"] = {c: _entry(kind) for c, kind in table.kinds.items()}
        for kind in entry["kinds"].values():
            if not kind["separator"]:
                del kind["separator"]
    return entry


def _entry(
    record: PrimaryKey | TimeColumn | ForeignKey | Dating | EventDate | ColumnKind,
) -> dict[str, Any]:
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
