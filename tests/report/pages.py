"""Reads a run's metrics and a page's words, for the tests of sections."""

import json
import re
from pathlib import Path
from typing import Any


def metrics_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return content


def update(folder: Path, **values: Any) -> None:
    (folder / "metrics.json").write_text(json.dumps(metrics_of(folder) | values))


def words(html: str) -> str:
    """What a reader sees."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).replace("\u00a0", " ")
