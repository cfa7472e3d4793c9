"""The pieces of HTML that sections consist of. Whatever comes from data passes through `escape`,
here or where it is used."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gelgt.schema.draw import escape

__all__ = [
    "Section",
    "code",
    "escape",
    "facts",
    "figure",
    "figures",
    "legend",
    "note",
    "paragraph",
    "table",
    "tint",
]

TINTS = 12  # shades of a cell; see `tint`


@dataclass(frozen=True)
class Section:
    """One part of the report.

    Attributes:
        name: Its anchor.
        title: Its heading.
        aid: One sentence that says how to read it, as HTML.
        body: HTML.
    """

    name: str
    title: str
    aid: str
    body: str

    def html(self) -> str:
        heading = f'<section id="{self.name}"><h2>{escape(self.title)}</h2>'
        return f'{heading}<p class="aid">{self.aid}</p>{self.body}</section>'


def paragraph(html: str) -> str:
    return f"<p>{html}</p>"


def note(html: str, kind: str = "note") -> str:
    """A remark set apart; `kind` is note or warn."""
    return f'<p class="{kind}">{html}</p>'


def code(text: str) -> str:
    return f"<pre><code>{escape_lines(text)}</code></pre>"


def escape_lines(text: str) -> str:
    return "\n".join(escape(line) for line in text.splitlines())


def figure(title: str, picture: str, caption: str = "", key: str = "") -> str:
    """A chart under its title and legend; the caption is HTML."""
    below = f"<figcaption>{caption}</figcaption>" if caption else ""
    return f"<figure><h3>{escape(title)}</h3>{key}{picture}{below}</figure>"


def figures(each: Iterable[str]) -> str:
    """Side by side where there is room, below each other on a phone."""
    return f'<div class="figures">{"".join(each)}</div>'


def legend(entries: Iterable[tuple[str, int, str]]) -> str:
    """(name, colour, kind) with kind line, dash, dot or box."""
    shapes = {
        "line": '<path d="M1 6H21"/>',
        "dash": '<path d="M1 6H21" stroke-dasharray="5 3"/>',
        "dot": '<circle cx="11" cy="6" r="4" class="solid"/>',
        "box": '<rect x="4" y="1" width="14" height="10" rx="2" class="solid"/>',
    }
    box = 'width="22" height="12" viewBox="0 0 22 12" aria-hidden="true"'
    items = [
        f'<li><svg class="key c{colour}" {box}>{shapes[kind]}</svg>{escape(name)}</li>'
        for name, colour, kind in entries
    ]
    return f'<ul class="legend">{"".join(items)}</ul>'


def table(
    head: Sequence[str], rows: Iterable[Sequence[str] | str], words: int = 1, css: str = ""
) -> str:
    """Cells are HTML; the first `words` columns hold words, the others numbers. A row that is one
    string is a heading inside the table."""
    inner = [
        f'<tr class="group"><th scope="row" colspan="{len(head)}">{row}</th></tr>'
        if isinstance(row, str)
        else _row(row, "td", words)
        for row in rows
    ]
    top = f"<thead>{_row(head, 'th', words)}</thead>" if any(head) else ""
    return (
        '<div class="scroll"><table '
        f'class="{css}">{top}<tbody>{"".join(inner)}</tbody></table></div>'
    )


def _row(cells: Sequence[str], tag: str, words: int) -> str:
    """A cell that already is HTML (`<td …>`) keeps its class."""
    html = []
    for i, cell in enumerate(cells):
        if cell.startswith(("<td", "<th")):
            html.append(cell)
        elif i == 0 and tag == "td":
            html.append(f'<th scope="row">{cell}</th>')
        else:
            css = "" if i < words else ' class="n"'
            html.append(f"<{tag}{css}>{cell}</{tag}>")
    return f"<tr>{''.join(html)}</tr>"


def tint(colour: int, share: float) -> str:
    """The classes of a cell that is tinted with a colour by a share. Classes and no style of its
    own, so that the cell looks the same on a page that forbids these."""
    return f"tint c{colour} t{round(min(max(share, 0.0), 1.0) * (TINTS - 1))}"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Name and value, both HTML; pairs without a value are left out."""
    entries = (f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in pairs if value)
    return f'<dl class="facts">{"".join(entries)}</dl>'
