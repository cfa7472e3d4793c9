"""Reads what a user names as a task: text as it is, or the content of a file.

PREDICT …, a task name, a folder    the text itself
FILE.sql                            its text
FILE.csv, FILE.parquet              its rows, as a frame
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gelgt.errors import GelgtError


def read_definition(text: str) -> Any:
    """What `Database.task` takes for a text or a file name.

    Raises:
        GelgtError: ``not_found``, or ``unreadable_file``.
    """
    path = Path(text)
    if path.suffix.lower() not in (".sql", ".csv", ".parquet"):
        return text
    if not path.is_file():
        raise GelgtError(
            "not_found",
            f"There is no file {text}.",
            hint="Give a PREDICT sentence, a task name, SQL, or an existing file.",
        )
    import pandas as pd

    from gelgt.sources.csv_files import read_csv

    # Not pandas' own CSV reader: it would read the key "007" as the number 7.
    readers: dict[str, Callable[[Path], Any]] = {
        ".sql": lambda p: p.read_text(encoding="utf-8"),
        ".csv": lambda p: read_csv(p).to_pandas(),
        ".parquet": pd.read_parquet,
    }
    try:
        return readers[path.suffix.lower()](path)
    except (OSError, ValueError) as error:
        # errors of text encoding, pandas and Arrow are ValueErrors
        first = str(error).strip().splitlines()[0]
        raise GelgtError(
            "unreadable_file",
            f"{text} cannot be read: {first}",
            hint="Write the file again, text in UTF-8.",
        ) from None
