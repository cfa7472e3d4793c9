"""Drawings: well-formed, self-contained, safe for any name, and every card and key is on them."""

import re
from xml.etree import ElementTree

import pytest

from gelgt.schema import ColumnKind, DatabaseSchema, ForeignKey, PrimaryKey, TableSchema, TimeColumn
from gelgt.schema.draw import SHOWN, WIDTH, _places, mermaid, svg

SVG = "{http://www.w3.org/2000/svg}"
ODD = """<script>alert("1")</script> & 'x'"""


def table(
    name: str,
    *parents: str,
    pkey: str | None = "id",
    features: tuple[str, ...] = ("size",),
    time: str | None = None,
) -> TableSchema:
    keys = tuple(ForeignKey((f"{parent}_{i}",), parent) for i, parent in enumerate(parents))
    types = {pkey: "int64"} if pkey else {}
    types |= (
        {fk.column: "int64" for fk in keys}
        | dict.fromkeys(features, "float64")
        | ({time: "timestamp"} if time else {})
    )
    kinds = {c: ColumnKind("numerical") for c in features} | (
        {time: ColumnKind("timestamp")} if time else {}
    )
    return TableSchema(
        name,
        types,
        PrimaryKey((pkey,)) if pkey else None,
        TimeColumn(time) if time else None,
        keys,
        kinds,
    )


def schema(*tables: TableSchema, name: str = "drawn") -> DatabaseSchema:
    return DatabaseSchema(name, {t.name: t for t in tables})


SHAPES = {
    "one table": schema(table("alone")),
    "no keys": schema(table("a", pkey=None), table("b", pkey=None)),
    "no columns at all": schema(table("bare", pkey=None, features=())),
    "self reference": schema(table("people", "people")),
    "cycle": schema(table("a", "c"), table("b", "a"), table("c", "b")),
    "two cycles that share a table": schema(
        table("a", "b", "c"), table("b", "a"), table("c", "a", "c")
    ),
    "two keys to one parent": schema(table("users"), table("mails", "users", "users", time="at")),
    "odd names": schema(
        table(ODD, features=(ODD, "]]>", "a--b", "100%", "ü")), table("child", ODD), name=ODD
    ),
    "control characters": schema(
        table("a\n\x01b", features=("\x00", "\ud800", "tab\t")),
        table("child", "a\n\x01b"),
        name="c",
    ),
}


def drawing(drawn: DatabaseSchema) -> ElementTree.Element:
    return ElementTree.fromstring(svg(drawn, dict.fromkeys(drawn.tables, 1234)))


def texts(root: ElementTree.Element) -> list[str]:
    return ["".join(e.itertext()) for e in root.iter(f"{SVG}text")]


def cards(root: ElementTree.Element) -> list[tuple[float, float, float]]:
    """(left, top, bottom) of each card."""
    boxes = []
    for group in root.iter(f"{SVG}g"):
        place = re.fullmatch(r"translate\(([\d.]+),([\d.]+)\)", group.attrib["transform"])
        assert place
        left, top = float(place[1]), float(place[2])
        boxes.append((left, top, top + float(group.find(f"{SVG}rect").attrib["height"])))  # type: ignore[union-attr]
    return boxes


@pytest.mark.parametrize("shape", SHAPES)
def test_svg_of_any_shape(shape: str) -> None:
    drawn = SHAPES[shape]
    root = drawing(drawn)
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == drawn.name
    placed = cards(root)
    assert len(placed) == len(drawn.tables)
    keys = [e for e in root.iter(f"{SVG}path") if e.find(f"{SVG}title") is not None]
    assert len(keys) == sum(len(t.foreign_keys) for t in drawn.tables.values())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert all(left + WIDTH <= width and bottom <= height for left, _, bottom in placed)
    for i, (left, top, bottom) in enumerate(placed):
        assert not any(
            left == x and top < below and above < bottom for x, above, below in placed[i + 1 :]
        ), "cards lie on each other"


@pytest.mark.parametrize("shape", SHAPES)
def test_svg_refers_to_nothing_outside(shape: str) -> None:
    for element in drawing(SHAPES[shape]).iter():
        assert element.tag.removeprefix(SVG) in ("svg", "title", "rect", "path", "g", "text")
        assert not [
            name
            for name in element.attrib
            if "href" in name or "src" in name or name.startswith("on")
        ]
        assert not [value for value in element.attrib.values() if "url(" in value or "://" in value]


def test_odd_names_are_shown_as_they_are() -> None:
    root = drawing(SHAPES["odd names"])
    assert "]]>" in texts(root)
    assert any(text.startswith("<script>alert(") for text in texts(root))
    assert f"child.{ODD}_0 → {ODD}" in [e.text for e in root.iter(f"{SVG}title")]


def test_a_card_tells_rows_key_time_and_kinds() -> None:
    shown = texts(drawing(schema(table("users"), table("orders", "users", time="placed_at"))))
    assert shown.count("1,234 rows") == 2
    assert shown[shown.index("placed_at") + 1] == "time"
    assert shown[shown.index("users_0") + 1] == "→ users"
    assert shown[shown.index("size") + 1] == "numerical"


def test_long_tables_are_cut() -> None:
    shown = texts(drawing(schema(table("wide", features=tuple(f"c{i}" for i in range(40))))))
    assert f"… {41 - SHOWN + 1} more" in shown
    assert "c39" not in shown


def test_parents_stand_left_of_their_children() -> None:
    root = drawing(schema(table("items", "orders"), table("users"), table("orders", "users")))
    items, users, orders = (left for left, _, _ in cards(root))
    assert users < orders < items


@pytest.mark.parametrize("shape", SHAPES)
def test_mermaid_names_are_safe(shape: str) -> None:
    lines = mermaid(SHAPES[shape]).splitlines()
    assert lines[0] == "erDiagram"
    grammar = (
        r"    [^\W\d]\w* \{",
        r"        \w+ [^\W\d]\w*( PK| FK| \"time\")?",
        r"    \}",
        r"    \w+ \|\|--o\{ \w+ : \"[^\"]*\"",
    )
    for line in lines[1:]:
        assert any(re.fullmatch(rule, line) for rule in grammar), line


def test_mermaid_tells_keys_and_times() -> None:
    text = mermaid(schema(table("users"), table("orders", "users", time="placed_at")))
    assert '        timestamp placed_at "time"\n' in text
    assert "        key id PK\n" in text
    assert "        key users_0 FK\n" in text
    assert '    users ||--o{ orders : "users_0"\n' in text


def test_mermaid_tells_apart_names_that_look_alike() -> None:
    text = mermaid(schema(table("my table"), table("my-table", "my table")))
    heads = re.findall(r"^    (\w+) \{$", text, re.MULTILINE)
    assert len(set(heads)) == 2
    assert f"{heads[0]} ||--o{{ {heads[1]} :" in text


def test_a_table_without_parents_stands_next_to_its_nearest_child() -> None:
    key = PrimaryKey(("id",))
    tables = {
        "a": TableSchema("a", {"id": "int64"}, key),
        "z": TableSchema("z", {"id": "int64"}, key),
    }
    for child, parents in (("b", "a"), ("c", "b"), ("d", "cz")):
        links = tuple(ForeignKey((f"{p}_id",), p) for p in parents)
        tables[child] = TableSchema(
            child, {"id": "int64", **{fk.column: "int64" for fk in links}}, key, foreign_keys=links
        )
    places = _places(DatabaseSchema("chain", tables), dict.fromkeys(tables, 40))
    assert places["a"][0] < places["b"][0] < places["c"][0] < places["d"][0]
    assert places["z"][0] == places["c"][0]
