"""manifest.yaml: what is written is read again, what is edited shows, what is wrong is named."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import gelgt
from gelgt.errors import SchemaError
from gelgt.schema import ColumnKind, DatabaseSchema, ForeignKey, PrimaryKey, TableSchema, TimeColumn
from gelgt.schema.manifest import dump_yaml, load_yaml, parse_schema, schema_to_dict, yaml_text

COLUMNS = {
    "customers": {"id": "int64", "email": "string"},
    "orders": {
        "isbn+number": "int64",
        "customer_id": "int64",
        "at": "timestamp",
        "note": "string",
        "tags": "string",
    },
}
SCHEMA = DatabaseSchema(
    name="shop",
    tables={
        "customers": TableSchema(
            "customers",
            COLUMNS["customers"],
            PrimaryKey(("id",), "declared", "PRIMARY KEY"),
            None,
            (),
            {"email": ColumnKind("text")},
        ),
        "orders": TableSchema(
            "orders",
            COLUMNS["orders"],
            PrimaryKey(("isbn", "number"), "manifest", "stated by the user"),
            TimeColumn("at", "inferred", "named like a time"),
            (
                ForeignKey(
                    ("customer_id",), "customers", ("email",), "inferred", "the name points there"
                ),
            ),
            {
                "at": ColumnKind("timestamp"),
                "note": ColumnKind("text", "manifest", "by hand"),
                "tags": ColumnKind("multicategorical", separator="|"),
            },
        ),
    },
    val_timestamp="2025-09-01",
    test_timestamp="2025-11-01",
    split_origin="inferred",
    description="A shop.",
)


def edited(**changes: Any) -> DatabaseSchema:
    content = schema_to_dict(SCHEMA)
    content["tables"]["orders"] |= changes
    return parse_schema(content, COLUMNS, "shop/manifest.yaml")


def refuse(code: str, *words: str, **changes: Any) -> None:
    with pytest.raises(SchemaError) as caught:
        edited(**changes)
    assert caught.value.code == code
    for word in ("shop/manifest.yaml", *words):
        assert word in str(caught.value)


def test_a_schema_survives_the_file(tmp_path: Path) -> None:
    dump_yaml(schema_to_dict(SCHEMA), tmp_path / "manifest.yaml")
    assert parse_schema(load_yaml(tmp_path / "manifest.yaml"), COLUMNS, "here") == SCHEMA


def test_relbench_keys_stand_outside_ours() -> None:
    content = schema_to_dict(SCHEMA)
    assert content["tables"]["orders"] == {
        "pkey": "isbn+number",
        "time_col": "at",
        "fkeys": {"customer_id": "customers"},
    }
    assert content["val_timestamp"] == "2025-09-01"
    assert content["manifest_version"] == 1
    del content["gelgt"]  # as RelBench writes it
    bare = parse_schema(content, COLUMNS, "here")
    assert bare.tables["orders"].pkey == "isbn+number"
    assert {fk.origin for fk in bare.tables["orders"].foreign_keys} == {"declared"}


def test_edits_by_hand_have_their_own_origin() -> None:
    orders = edited(pkey="customer_id", time_col=None, fkeys={}).tables["orders"]
    assert orders.primary_key == PrimaryKey(("customer_id",), "manifest", "named in the manifest")
    assert orders.time_column is None
    assert orders.foreign_keys == ()
    assert edited(time_col="at").tables["orders"].time_column == SCHEMA.tables["orders"].time_column


def test_kinds_may_be_written_short() -> None:
    content = schema_to_dict(SCHEMA)
    content["gelgt"]["tables"]["orders"]["kinds"]["note"] = "categorical"
    assert (
        parse_schema(content, COLUMNS, "here").tables["orders"].kinds["note"].kind == "categorical"
    )
    assert (
        parse_schema(content, COLUMNS, "here").tables["orders"].kinds["note"].origin == "manifest"
    )


def test_wrong_names_are_errors_that_name_the_right_ones() -> None:
    refuse(
        "unknown_column",
        "'custmer_id'",
        "Did you mean 'customer_id'?",
        fkeys={"custmer_id": "customers"},
    )
    refuse("unknown_column", "'placed'", time_col="placed")
    refuse("unknown_column", "'nr'", pkey="nr")
    refuse(
        "unknown_table",
        "'customer'",
        "Did you mean 'customers'?",
        fkeys={"customer_id": "customer"},
    )


def test_an_unknown_kind() -> None:
    content = schema_to_dict(SCHEMA)
    content["gelgt"]["tables"]["orders"]["kinds"]["note"] = "texts"
    with pytest.raises(
        SchemaError, match=r"'orders.note' has the kind 'texts'.*Did you mean 'text'"
    ):
        parse_schema(content, COLUMNS, "here")


@pytest.mark.parametrize("text", ["tables: [unclosed", "- a\n- list\n", "", "\x80"])
def test_files_that_are_no_manifest(text: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_bytes(text.encode("latin1"))
    with pytest.raises(SchemaError) as caught:
        load_yaml(path)
    assert caught.value.code == "bad_manifest"
    assert str(path) in caught.value.message


def test_a_manifest_without_tables() -> None:
    with pytest.raises(SchemaError, match="lists no tables"):
        parse_schema({"name": "shop"}, {}, "here")


def test_sql_stays_readable() -> None:
    text = yaml_text({"sql": "SELECT 1\nFROM t", "name": "Zoë"})
    assert "sql: |-\n  SELECT 1\n  FROM t\n" in text
    assert "Zoë" in text
    assert yaml.safe_load(text) == {"sql": "SELECT 1\nFROM t", "name": "Zoë"}


def test_a_failed_write_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "manifest.yaml"
    dump_yaml({"name": "old"}, path)
    with pytest.raises(yaml.YAMLError):
        dump_yaml({"name": object()}, path)
    assert load_yaml(path) == {"name": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["manifest.yaml"]


def test_an_edited_file_is_seen_by_the_next_open(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"id": [1, 2, 3], "at": pd.date_range("2024-01-01", periods=3), "word": ["a", "b", "a"]}
    )
    gelgt.open({"events": frame}, out=tmp_path / "db")
    content = load_yaml(tmp_path / "db" / "manifest.yaml")
    content["gelgt"]["tables"]["events"]["kinds"]["word"] = "ignored"
    dump_yaml(content, tmp_path / "db" / "manifest.yaml")
    assert gelgt.open(tmp_path / "db").table("events").kinds["word"] == ColumnKind(
        "ignored", "manifest", "named in the manifest"
    )
