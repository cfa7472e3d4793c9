"""The document of the page, and what its script asks for every second."""

import json
import time
from importlib.resources import files
from typing import TypedDict

from gelgt.live.folder import Watched
from gelgt.live.sections import parts
from gelgt.live.words import activity, state
from gelgt.report.html import escape
from gelgt.report.style import CSS
from gelgt.runs.progress import ProgressRecord

# Of parts that come and go, an empty one is not drawn.
_TAGS = {"head": "div", "status": "div", "times": "div"}
_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
<noscript><meta http-equiv="refresh" content="5"></noscript>
"""


class Answer(TypedDict):
    """What the script asks for: the parts as HTML, and whether the training is over."""

    title: str
    state: str
    over: bool
    folder: str
    parts: dict[str, str]


def document(watched: Watched) -> str:
    """The whole page as it stands now; without JavaScript it loads itself again."""
    content = answer(watched)
    html = {name: _part(name, text) for name, text in content["parts"].items()}
    head = "".join(html.pop(name) for name in ("head", "status"))
    lost = '<p id="lost" class="lead" role="status" hidden></p>'
    return (
        f"{_HEAD}<title>{escape(content['title'])}</title></head>\n<body><main>\n"
        f"<header>{head}{lost}{html.pop('times')}</header>\n{''.join(html.values())}"
        "<footer>Served by gelgt on this machine; nothing else is loaded.</footer>"
        "</main></body></html>\n"
    )


def answer(watched: Watched) -> Answer:
    """How a training stands now."""
    record, now, folder = watched.record(), time.time(), watched.folder
    is_over = record is not None and record.is_over
    has_report = is_over and folder is not None and (folder / "metrics.json").is_file()
    return {
        "title": title(record, now),
        "state": state(record, now),
        "over": is_over,
        "folder": "" if folder is None else str(folder),
        "parts": parts(record, now, has_report),
    }


def answer_text(watched: Watched) -> str:
    """The same as JSON."""
    return json.dumps(answer(watched), ensure_ascii=False)


def title(record: ProgressRecord | None, now: float) -> str:
    """The title of the page: what goes on, then the run."""
    status = state(record, now)
    if record is None or status not in ("preparing", "running"):
        what = {"silent": "no sign of life", "gone": "no run"}.get(status, status)
        return f"{what} · {record.run if record else 'gelgt'}"
    epoch = f"epoch {record.step.epoch}, " if record.step else ""
    return f"{epoch}{activity(record)} · {record.run or 'gelgt'}"


def style_sheet() -> str:
    """The report's style sheet, and what this page adds."""
    return CSS + asset("page.css")


def asset(name: str) -> str:
    """A file of this package."""
    return files("gelgt.live").joinpath(name).read_text(encoding="utf-8")


def _part(name: str, html: str) -> str:
    """A part under its name; only the sentence about the status is read out when it changes."""
    tag = _TAGS.get(name, "section")
    spoken = ' role="status" aria-live="polite"' if name == "status" else ""
    return f'<{tag} id="{name}" data-part{spoken}>{html}</{tag}>\n'
