"""`gelgt.open`: one door for every kind of source."""

from pathlib import Path
from typing import Any

from gelgt.sources.database import Database
from gelgt.sources.relbench_folder import is_relbench_folder, read_folder


def open(source: Any) -> Database:
    path = Path(source).expanduser()
    if is_relbench_folder(path):
        return read_folder(path, str(source))
    raise ValueError(source)
