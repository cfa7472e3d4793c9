"""Draws a schema: Mermaid text for documents, and a self-contained SVG of cards and foreign keys.

Parents stand to the left of their children; a table's card lists its key, its time, its foreign
keys, then its features.
"""

import re
from collections.abc import Iterable, Mapping
from html import escape as escape_html
from pathlib import Path

from gelgt.errors import GelgtError
from gelgt.files import write_text
from gelgt.schema.model import DatabaseSchema, TableSchema

WIDTH, ROW, GAP_X, GAP_Y, PAD, SHOWN = 250, 20, 110, 26, 24, 14
_FILL = {
    "key": "#fdf3d0",
    "time": "#dff2e3",
    "fkey": "#e1ebf9",
    "feature": "#ffffff",
    "more": "#f4f5f7",
}
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"


def write_drawing(schema: DatabaseSchema, rows: Mapping[str, int], path: Path) -> None:
    """Draw a schema to a file whose ending says how: .svg, or .mmd or .md for Mermaid.

    Raises:
        GelgtError: ``unknown_format``, or ``not_found`` where the folder does not exist.
    """
    if path.suffix not in (".svg", ".mmd", ".md"):
        raise GelgtError(
            "unknown_format",
            f"A schema is drawn to .svg, .mmd or .md, got '{path.name}'.",
            hint="Use the ending .svg, or .mmd or .md for Mermaid.",
        )
    if not path.parent.is_dir():
        raise GelgtError(
            "not_found",
            f"There is no folder {path.parent} to draw to.",
            hint="Create it first, or draw to another folder.",
        )
    if path.suffix == ".svg":
        text = svg(schema, rows)
    else:
        text = mermaid(schema)
        text = f"```mermaid\n{text}```\n" if path.suffix == ".md" else text
    write_text(path, text)


def mermaid(schema: DatabaseSchema) -> str:
    """An entity-relationship diagram in Mermaid's language."""
    lines = ["erDiagram"]
    tables = _words(schema.tables)
    for table in schema.tables.values():
        lines.append(f"    {tables[table.name]} {{")
        columns = _words(column for column, _, _ in _lines(table))
        for column, kind, role in _lines(table):
            mark = {"key": " PK", "fkey": " FK", "time": ' "time"'}.get(role, "")
            kind = "key" if role in ("key", "fkey") else kind
            lines.append(f"        {kind} {columns[column]}{mark}")
        lines.append("    }")
    for table in schema.tables.values():
        for fk in table.foreign_keys:
            label = " ".join(re.sub(r"[\x00-\x1f\x7f]", " ", fk.column).replace('"', "'").split())
            lines.append(f'    {tables[fk.table]} ||--o{{ {tables[table.name]} : "{label}"')
    return "\n".join(lines) + "\n"


def _words(names: Iterable[str]) -> dict[str, str]:
    """Names as Mermaid takes them: letters, digits and _, no digit in front, and no two alike."""
    words: dict[str, str] = {}
    for name in names:
        word = re.sub(r"\W", "_", name) or "_"
        word = f"_{word}" if word[0].isdigit() else word
        while word in words.values():
            word += "_"
        words[name] = word
    return words


def escape(text: str) -> str:
    """Text for XML, which has no place for control characters."""
    return escape_html(
        re.sub(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", text)
    )


def _lines(table: TableSchema) -> list[tuple[str, str, str]]:
    """(column, kind, role) in the order of the card."""
    keys = {fk.column: fk.table for fk in table.foreign_keys}
    out = [(table.pkey, table.columns.get(table.pkey, "int64"), "key")] if table.pkey else []
    if table.time_col:
        out.append((table.time_col, "timestamp", "time"))
    out += [(column, f"→ {parent}", "fkey") for column, parent in keys.items()]
    done = {line[0] for line in out}
    return out + [(c, k.kind, "feature") for c, k in table.kinds.items() if c not in done]


def svg(schema: DatabaseSchema, rows: Mapping[str, int]) -> str:
    """The schema as one SVG document without outside references."""
    cards = {name: _card_lines(table) for name, table in schema.tables.items()}
    places = _places(schema, {name: (len(lines) + 1) * ROW + 8 for name, lines in cards.items()})
    width = max(x for x, _ in places.values()) + WIDTH + PAD
    height = max(y + (len(cards[name]) + 1) * ROW + 8 for name, (_, y) in places.items()) + PAD
    edges = [_edge(table, places, cards) for table in schema.tables.values()]
    boxes = [
        _card(table, rows.get(name, 0), places[name], cards[name])
        for name, table in schema.tables.items()
    ]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
        f"height='{height}' {_FONT} font-size='12'>"
        f"<title>{escape(schema.name)}</title><rect width='100%' height='100%' "
        f"fill='#fafbfc'/>{''.join(edges)}{''.join(boxes)}</svg>\n"
    )


def _card_lines(table: TableSchema) -> list[tuple[str, str, str]]:
    lines = _lines(table)
    if len(lines) <= SHOWN:
        return lines
    return [*lines[: SHOWN - 1], (f"… {len(lines) - SHOWN + 1} more", "", "more")]


def _places(schema: DatabaseSchema, heights: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Columns by depth below the furthest parent, rows by the mean height of the parents (fewer
    crossings)."""
    parents = {
        name: {fk.table for fk in table.foreign_keys if fk.table != name}
        for name, table in schema.tables.items()
    }
    depth = dict.fromkeys(parents, 0)
    # longest path; cycles stop growing after as many rounds as there are tables
    for _ in range(len(parents)):
        changed = False
        for name, above in parents.items():
            below = min(max((depth[p] + 1 for p in above), default=0), len(parents) - 1)
            if below > depth[name]:
                depth[name], changed = below, True
        if not changed:
            break
    # a table without parents stands next to its nearest child
    for name in [n for n, above in parents.items() if not above]:
        children = [depth[child] for child, above in parents.items() if name in above]
        depth[name] = max(min(children) - 1, 0) if children else 0
    levels = {level: i for i, level in enumerate(sorted(set(depth.values())))}
    places: dict[str, tuple[int, int]] = {}
    for level, position in levels.items():
        members = [name for name in parents if depth[name] == level]
        middle = {n: [places[p][1] for p in parents[n] if p in places] for n in members}
        members.sort(key=lambda n: (sum(middle[n]) / len(middle[n]) if middle[n] else 0, n))
        y = PAD
        for name in members:
            places[name] = (PAD + position * (WIDTH + GAP_X), y)
            y += heights[name] + GAP_Y
    return places


def _card(
    table: TableSchema, rows: int, place: tuple[int, int], lines: list[tuple[str, str, str]]
) -> str:
    x, y = place
    height = (len(lines) + 1) * ROW + 8
    parts = [
        f"<g transform='translate({x},{y})'><rect width='{WIDTH}' height='{height}' rx='6' "
        "fill='#ffffff' stroke='#c7ced8'/>",
        f"<path d='M0 {ROW + 4} V6 Q0 0 6 0 H{WIDTH - 6} Q{WIDTH} 0 {WIDTH} 6 V{ROW + 4} Z' "
        "fill='#3f5f8f'/>",
        "<text x='10' y='16' fill='#ffffff' "
        f"font-weight='600'>{escape(_cut(table.name, 21))}</text>",
        f"<text x='{WIDTH - 10}' y='16' fill='#dbe5f3' text-anchor='end' font-size='11'>{rows:,} "
        "rows</text>",
    ]
    for i, (column, kind, role) in enumerate(lines):
        top = (i + 1) * ROW + 4
        badge = {"key": "key", "time": "time"}.get(role, kind)
        parts.append(
            f"<rect x='1' y='{top}' width='{WIDTH - 2}' height='{ROW}' fill='{_FILL[role]}'/>"
            f"<text x='10' y='{top + 14}' fill='#1f2933'>{escape(_cut(column, 22))}</text>"
            f"<text x='{WIDTH - 10}' y='{top + 14}' fill='#6b7686' text-anchor='end' "
            f"font-size='11'>{escape(_cut(badge, 17))}</text>"
        )
    return "".join(parts) + "</g>"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _edge(
    table: TableSchema,
    places: Mapping[str, tuple[int, int]],
    cards: Mapping[str, list[tuple[str, str, str]]],
) -> str:
    parts = []
    for fk in table.foreign_keys:
        (cx, cy), (px, py) = places[table.name], places[fk.table]
        position = next(
            (i for i, line in enumerate(cards[table.name]) if line[0] == fk.column),
            len(cards[table.name]) - 1,
        )
        y1, y2 = cy + (position + 1) * ROW + 14, py + ROW + 14
        # a self reference, or tables in one column: around the right side
        if fk.table == table.name or px == cx:
            x = cx + WIDTH
            path = f"M{x} {y1} C{x + 60} {y1} {px + WIDTH + 60} {y2} {px + WIDTH} {y2}"
        else:
            x1, x2 = (cx, px + WIDTH) if px < cx else (cx + WIDTH, px)
            bend = (x1 + x2) // 2
            path = f"M{x1} {y1} C{bend} {y1} {bend} {y2} {x2} {y2}"
        title = escape(f"{table.name}.{fk.column} → {fk.table}")
        parts.append(
            f"<path d='{path}' fill='none' stroke='#8895a7' "
            f"stroke-width='1.4'><title>{title}</title></path>"
        )
    return "".join(parts)
