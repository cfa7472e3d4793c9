"""An explanation as one HTML page: what was predicted, why in sentences, the entity's rows on a
timeline, all effects in tables that sort, and whether it holds. Nothing is loaded; the one script
that sorts tables is named by its hash, so that nothing else may run."""

import base64
import hashlib

from gelgt.explain.explanation import Explanation
from gelgt.explain.sentences import describe, key_text, path_text
from gelgt.explain.timeline import timeline
from gelgt.report.html import Section, escape, facts, figure, legend, note, table
from gelgt.report.numbers import number
from gelgt.report.style import CSS

SCRIPT = """
for (const head of document.querySelectorAll("table.sorts thead th")) {
  head.tabIndex = 0;
  const sort = () => {
    const body = head.closest("table").tBodies[0], at = head.cellIndex;
    const up = head.getAttribute("aria-sort") === "descending";
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.cells[at], text = cell.dataset.v ?? cell.textContent;
      return text === "" || isNaN(text) ? text : Number(text);
    };
    const rows = [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      const order = typeof x === "number" && typeof y === "number"
        ? x - y : String(x).localeCompare(String(y));
      return up ? order : -order;
    });
    body.append(...rows);
  };
  head.addEventListener("click", sort);
  head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
}
"""
STYLE = """
table.sorts thead th{cursor:pointer}
table.sorts thead th:hover,table.sorts thead th:focus{color:var(--ink)}
th[aria-sort=descending]::after{content:" \\2193"}
th[aria-sort=ascending]::after{content:" \\2191"}
.why{padding-left:1.2em;margin:0 0 12px}.why li{margin:0 0 6px}
.up{color:var(--c0)}.down{color:var(--c1)}
figure.wide{overflow-x:auto}figure.wide>svg{max-width:none;min-width:640px}
td.n.up,td.n.down{font-weight:600}
"""
SHOWN = 25  # effects in the table


def page(why: Explanation) -> str:
    """The page of one explanation."""
    sections = [_rows(why), _effects(why), _paths(why), _check(why), _parts(why)]
    body = [_header(why), *(section.html() for section in sections if section is not None)]
    return document(f"{why.table} {key_text(why.entity)} · gelgt explanation", "\n".join(body))


def document(title: str, body: str) -> str:
    """A whole document around its body."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';style-src '
        f"'unsafe-inline';script-src 'sha256-{digest}'\">"
        f"<title>{escape(title)}</title>\n<style>{CSS}{STYLE}</style></head>\n<body><main>\n"
        f"{body}\n<footer>Measured by deletion: these are effects on the prediction, not causes in "
        f"the world.</footer>\n</main><script>{SCRIPT}</script></body></html>\n"
    )


def _header(why: Explanation) -> str:
    sentences = "".join(f"<li>{escape(text)}</li>" for text in why.sentences)
    turned = why.counterfactual
    more = "" if turned is None else note(escape(str(turned["text"])))
    notices = "".join(note(escape(text), "warn") for text in why.notices)
    cards = [
        (why.what.removeprefix("the "), why.prediction, "own c0"),
        ("base: nothing is known", why.base, "c2"),
        ("training labels, median or share", why.base_rate, "c2"),
    ]
    shown = "".join(
        f'<div class="card {css}"><span>{escape(name)}</span><b>{number(value)}</b></div>'
        for name, value, css in cards
    )
    return (
        f'<header><p class="over">Why, at {escape(why.at)}</p>'
        f"<h1>{escape(why.table)} {escape(key_text(why.entity))}</h1>"
        f'<div class="cards">{shown}</div><ul class="why lead">{sentences}</ul>{more}{notices}'
        "</header>"
    )


def _rows(why: Explanation) -> Section | None:
    if not why.timeline:
        return None
    key = legend([("raises", 0, "dot"), ("lowers", 1, "dot")])
    drawn = figure("", timeline(why.timeline), key=key).replace("<h3></h3>", "")
    drawn = drawn.replace("<figure>", '<figure class="wide">')
    aid = (
        "Each dot is a row that the model saw, newest at the right; larger and stronger dots move "
        "the prediction more. A row without a time stands where the row is that leads to it."
    )
    return Section("timeline", "The rows over time", aid, drawn)


def _effects(why: Explanation) -> Section:
    head = ["What", "Age in days", "Effect", "±"]
    rows = [
        [
            escape(describe(effect)),
            _number(effect.age_days),
            _effect(effect.effect),
            _number(effect.error),
        ]
        for effect in why.effects[:SHOWN]
    ]
    aid = (
        f"They add up to {escape(why.what)} minus the base: {number(why.base)} + "
        f"{number(why.prediction - why.base)} = {number(why.prediction)}. A click on a heading "
        "sorts."
    )
    left = len(why.effects) - len(rows)
    rest = sum(e.effect for e in why.effects[SHOWN:])
    more = f'<p class="small">{left} weaker effects sum to {number(rest)}.</p>' if left > 0 else ""
    return Section("effects", "Effects", aid, table(head, rows, 1, "sorts") + more)


def _paths(why: Explanation) -> Section:
    head = ["Path", "Rows", "Newest, days", "Moved", "Effect", "±"]
    rows = [
        [
            escape(path_text(effect.path)),
            f"{effect.rows:,}",
            _number(effect.age_days),
            _number(effect.strength),
            _effect(effect.effect),
            _number(effect.error),
        ]
        for effect in why.paths
    ]
    aid = (
        "The same effects by path of foreign keys. A path's effect is the sum of its rows and "
        "columns; what they moved in either direction stands beside it, since they may cancel."
    )
    return Section("paths", "Paths", aid, table(head, rows, 1, "sorts"))


def _check(why: Explanation) -> Section | None:
    if not why.check:
        return None
    shares = list(why.check["comprehensiveness"])
    head = ["Rows", *(f"{share}\u00a0%" for share in shares)]
    rows = [
        [name, *(number(why.check[key][share]) for share in shares)]
        for name, key in (
            ("comprehensiveness: lost without them", "comprehensiveness"),
            ("sufficiency: missing with them alone", "sufficiency"),
        )
    ]
    areas = facts(
        (name, "" if (value := why.check[key]) is None else number(value))
        for name, key in (
            ("area, this order", "area"),
            ("area, order by attention", "area_attention"),
            ("area, random orders", "area_random"),
        )
    )
    aid = (
        "The first rows in the order of their effects are removed, and kept alone, and the "
        "prediction is made again. The area lies between the two curves; larger is better."
    )
    return Section("check", "Does it hold?", aid, table(head, rows) + areas)


def _parts(why: Explanation) -> Section | None:
    if not why.parts:
        return None
    names = {"network": "network over rows", "columns": "columns network", "trees": "trees"}
    rows = [
        [
            names.get(name, name),
            number(values["base"]),
            number(values["prediction"]),
            _effect(values["prediction"] - values["base"]),
        ]
        for name, values in why.parts.items()
    ]
    aid = (
        "What each part of the model adds to its raw output, before that becomes a probability or "
        "a value."
    )
    head = ["Part", "Base", "Prediction", "Change"]
    return Section("parts", "Who contributed what", aid, table(head, rows))


def _effect(value: float) -> str:
    css = "up" if value > 0 else "down"
    sign = "+" if value > 0 else ""
    return f'<td class="n {css}" data-v="{value:.9g}">{sign}{number(value)}</td>'


def _number(value: float | None) -> str:
    shown = "" if value is None else f"{value:.9g}"
    return f'<td class="n" data-v="{shown}">{"" if value is None else number(value)}</td>'
