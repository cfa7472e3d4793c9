"""The page of recommendations that are explained."""

from html import escape

from gelgt.explain.items import Item, ItemsExplanation
from gelgt.explain.page import document
from gelgt.explain.sentences import key_text


def items_page(why: ItemsExplanation) -> str:
    """A whole page."""
    title = f"{why.table} {key_text(why.entity)}"
    header = (
        f'<header><p class="over">Why these rows of {escape(why.destination)}, at '
        f"{escape(why.at)}</p><h1>{escape(title)}</h1>"
        "<p>Each line is taken away alone: the number is what the score loses, and the place is "
        "the one that the row would then have. Lines do not add up.</p></header>"
    )
    return document(f"{title} · gelgt explanation", header + "".join(map(_item, why.items)))


def _item(item: Item) -> str:
    lines = []
    for reason in item.reasons:
        walks = "".join(f"<li>{escape(text)}</li>" for text in reason.shown_walks)
        lines.append(f"<li>{escape(reason.text)}{f'<ul>{walks}</ul>' if walks else ''}</li>")
    shown = "".join(lines) or "<li>No path leads to it: it is alike by its columns alone.</li>"
    heading = f"{item.rank}. {escape(key_text(item.key))}"
    return f'<section><h2>{heading}</h2><ul class="why">{shown}</ul></section>'
