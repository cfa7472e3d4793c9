"""The style of the page: that of the report, and what a page that answers needs besides."""

from functools import cache
from pathlib import Path

from gelgt.explain.page import STYLE
from gelgt.report.style import CSS


@cache
def style() -> bytes:
    return (CSS + STYLE + (Path(__file__).parent / "page" / "page.css").read_text()).encode()
