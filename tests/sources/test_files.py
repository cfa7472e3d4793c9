"""Folders of files: every common dialect of CSV, and Parquet in parts that differ."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gelgt
from gelgt.errors import SourceError
from gelgt.sources.csv_files import read_csv
from gelgt.sources.files import FilesSource, folder_tables


def rows(folder: Path, table: str = "people") -> list[dict[str, Any]]:
    """The rows as the source delivers them, before any type is found."""
    source = FilesSource(folder, str(folder))
    (raw,) = [t for t in source.tables() if t.name == table]
    return [row for batch in raw.batches() for row in batch.to_pylist()]


EXPECTED = [{"id": "1", "name": "Zoë", "note": "a,b;c"}, {"id": "2", "name": "Bo", "note": None}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("people.csv", 'id,name,note\n1,Zoë,"a,b;c"\n2,Bo,\n'),
        ("people.csv", 'id;name;note\n1;Zoë;"a,b;c"\n2;Bo;\n'),
        ("people.csv", "id\tname\tnote\n1\tZoë\ta,b;c\n2\tBo\t\n"),
        ("people.tsv", "id\tname\tnote\n1\tZoë\ta,b;c\n2\tBo\t\n"),
        ("people.csv", "id|name|note\n1|Zoë|a,b;c\n2|Bo|\n"),
        ("people.csv", '\ufeffid,name,note\n1,Zoë,"a,b;c"\n2,Bo,\n'),
        ("people.csv", '\ufeff"id","name","note"\n1,Zoë,"a,b;c"\n2,Bo,""\n'),
        ("people.csv", 'id,name,note\r\n1,Zoë,"a,b;c"\r\n2,Bo,\r\n'),
        ("people.csv", 'id,name,note\n1,Zoë,"a,b;c"\n2,Bo,'),
        ("PEOPLE.CSV", 'id,name,note\n1,Zoë,"a,b;c"\n2,Bo,\n'),
    ],
    ids=[
        "comma",
        "semicolon",
        "tab",
        "tsv",
        "pipe",
        "bom",
        "bom and quotes",
        "crlf",
        "no last newline",
        "upper case",
    ],
)
def test_dialects(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(text.encode())
    assert rows(tmp_path, name.split(".")[0]) == EXPECTED


def test_compressed(tmp_path: Path) -> None:
    for name, delimiter in (("people.csv.gz", ","), ("others.tsv.gz", "\t")):
        lines = [
            delimiter.join(cells)
            for cells in (("id", "name", "note"), ("1", "Zoë", "a;b"), ("2", "Bo", ""))
        ]
        (tmp_path / name).write_bytes(gzip.compress("\n".join(lines).encode()))
    assert (
        rows(tmp_path)
        == rows(tmp_path, "others")
        == [{"id": "1", "name": "Zoë", "note": "a;b"}, EXPECTED[1]]
    )


def test_line_breaks_quotes_and_delimiters_inside_fields(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        'id,name,note\n1,"Zoë ""Z"" Berg","first line\nsecond, line"\n2,Bo,\n'
    )
    delivered = rows(tmp_path)
    assert delivered[0] == {"id": "1", "name": 'Zoë "Z" Berg', "note": "first line\nsecond, line"}
    assert delivered[1] == EXPECTED[1]


def test_a_line_break_in_a_column_name(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text('id,"full\nname"\n1,Zoë\n')
    assert rows(tmp_path) == [{"id": "1", "full\nname": "Zoë"}]


def test_columns_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(",name\n0,Zoë\n")
    assert rows(tmp_path) == [{"unnamed_0": "0", "name": "Zoë"}]


def test_a_single_column(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("name\nZoë\nBo\n")
    assert [row["name"] for row in rows(tmp_path)] == ["Zoë", "Bo"]


def test_only_a_header(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n")
    assert rows(tmp_path) == []
    assert gelgt.open(tmp_path).num_rows("people") == 0


def test_types_come_from_whole_files(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        "id;born;zip;score;member\n1;2001-02-03;01234;1.5;true\n2;;10115;;false\n"
    )
    assert gelgt.open(tmp_path).table("people").columns == {
        "id": "int64",
        "born": "timestamp",
        "zip": "string",
        "score": "float64",
        "member": "bool",
    }


def test_parquet_parts_of_differing_columns(tmp_path: Path) -> None:
    folder = tmp_path / "events"
    (folder / "year=2024").mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1], pa.int32()), "word": ["a"]}), folder / "0.parquet")
    pq.write_table(
        pa.table({"size": [2.5], "id": pa.array([2], pa.int64())}),
        folder / "year=2024" / "1.parquet",
    )
    pq.write_table(pa.table({"id": [3], "word": pa.nulls(1)}), folder / "year=2024" / "2.parquet")
    (folder / "_SUCCESS.parquet").write_text("not data")
    assert rows(tmp_path, "events") == [
        {"id": 1, "word": "a", "size": None, "year": None},
        {"id": 2, "word": None, "size": 2.5, "year": 2024},
        {"id": 3, "word": None, "size": None, "year": 2024},
    ]


def test_parquet_parts_that_do_not_fit_together(tmp_path: Path) -> None:
    (tmp_path / "events").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "events" / "0.parquet")
    pq.write_table(pa.table({"id": [["list"]]}), tmp_path / "events" / "1.parquet")
    with pytest.raises(SourceError, match="'events'"):
        FilesSource(tmp_path, "x").tables()


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "events.parquet").write_text("hello")
    with pytest.raises(SourceError) as caught:
        FilesSource(tmp_path, "x").tables()
    assert caught.value.code == "unreadable_file"
    assert "events.parquet" in caught.value.message


def test_the_index_of_pandas_is_no_column(tmp_path: Path) -> None:
    import pandas as pd

    pd.DataFrame({"id": [1, 2, 3]}).iloc[1:].to_parquet(tmp_path / "people.parquet")
    assert rows(tmp_path) == [{"id": 2}, {"id": 3}]


def test_which_files_are_tables(tmp_path: Path) -> None:
    for name in ("a.csv", "b.tsv.gz", "notes.txt", ".hidden.csv", "_tmp.csv"):
        (tmp_path / name).write_text("id\n")
    (tmp_path / "empty folder").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "sales.2024.parquet")
    assert list(folder_tables(tmp_path)) == ["a", "b", "sales.2024"]


def test_two_files_for_one_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n")
    (tmp_path / "a.tsv").write_text("id\n")
    with pytest.raises(SourceError, match=r"Two files give the table 'a': a.csv and a.tsv"):
        folder_tables(tmp_path)


def test_the_content_key_sees_a_changed_byte_and_a_changed_name(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    key = FilesSource(tmp_path, "x").content_key()
    assert FilesSource(tmp_path, "y").content_key() == key
    (tmp_path / "a.csv").write_text("id\n2\n")
    assert FilesSource(tmp_path, "x").content_key() != key
    (tmp_path / "a.csv").write_text("id\n1\n")
    (tmp_path / "a.csv").rename(tmp_path / "b.csv")
    assert FilesSource(tmp_path, "x").content_key() != key


@pytest.mark.parametrize(
    "content",
    [b"id,n\n1,2\n", gzip.compress(b"id,n\n" + b"1,2\n" * 5000)[:-20]],
    ids=["not compressed", "cut off"],
)
def test_a_broken_compressed_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "orders.csv.gz").write_bytes(content)
    with pytest.raises(SourceError, match=r"orders\.csv\.gz") as caught:
        gelgt.open(tmp_path)
    assert caught.value.code == "unreadable_file"


def test_words_among_numbers_are_missing_where_they_are_known_or_the_user_says_so(
    tmp_path: Path,
) -> None:
    lines = [
        f"{i},{'N/A' if i == 7 else i * 1.5},{'free' if i == 8 else i},{1 + i % 28}/01/2024"
        for i in range(40)
    ]
    (tmp_path / "items.csv").write_text("id,price,fee,at\n" + "\n".join(lines))
    db = gelgt.open(tmp_path)
    assert {c: db.table("items").columns[c] for c in ("price", "fee", "at")} == {
        "price": "float64",
        "fee": "string",
        "at": "string",
    }
    reported = [(f.code, f.column, f.count) for f in db.import_findings]
    assert sorted(reported, key=str) == [
        ("missing_words", "price", 1),
        ("text_dates", "at", None),
        ("text_numbers", "fee", None),
    ]
    stated = gelgt.open(tmp_path, schema={"items": {"kinds": {"fee": "numerical"}}})
    assert stated.read("items", ["fee"]).column(0).to_pylist()[7:10] == [7.0, None, 9.0]
    assert ("missing_words", "fee", 1) in [
        (f.code, f.column, f.count) for f in stated.import_findings
    ]


def test_a_csv_file_in_memory_has_the_types_of_an_import(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("key;at;label\n007;31.12.2024;1\n012;01.01.2025;\n")
    table = read_csv(tmp_path / "labels.csv")
    assert table.column("key").to_pylist() == ["007", "012"]
    assert table.schema.field("at").type == pa.timestamp("us")
    assert table.column("label").to_pylist() == [1, None]
