"""`Growth`: how an import came out of an older one by adding rows.

Whatever is derived from the older import (graph, features) can then be extended instead of built
anew: old rows keep their values, their times and their order among themselves, and foreign keys
name the same rows; only numbers move where a new row comes before old ones.

    gelgt/growth.json          {"base": name of the older import's folder beside this one,
                                "sizes": bytes of each file}
    gelgt/new_rows/TABLE.npy   the numbers of the new rows, rising; no file for a table without any
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_GROWTH = Path("gelgt") / "growth.json"
_NEW_ROWS = Path("gelgt") / "new_rows"


@dataclass(frozen=True)
class Growth:
    """The older import and the rows that it does not have.

    Attributes:
        base: The folder of the older import.
        new_rows: Table → numbers of its new rows in the newer import, rising; tables without new
            rows are left out.
    """

    base: Path
    new_rows: Mapping[str, NDArray[np.int64]]

    def save(self, folder: Path) -> None:
        """Write to the folder of the newer import."""
        (folder / _NEW_ROWS).mkdir(parents=True)
        for table, rows in self.new_rows.items():
            np.save(folder / _NEW_ROWS / f"{table}.npy", rows)
        content = {"base": self.base.name, "sizes": _sizes(folder)}
        (folder / _GROWTH).write_text(json.dumps(content), encoding="utf-8")


def read_growth(folder: Path) -> Growth | None:
    """What an import grew out of; None where it was read whole, or the older one is gone."""
    try:
        base = folder.parent / json.loads((folder / _GROWTH).read_text(encoding="utf-8"))["base"]
    except FileNotFoundError:
        return None
    if not base.is_dir():
        return None
    files = sorted((folder / _NEW_ROWS).glob("*.npy"))
    return Growth(base, {path.stem: np.load(path, allow_pickle=False) for path in files})


def is_whole_growth(folder: Path) -> bool:
    """Whether an import that grew has the files that were written, as far as their sizes tell."""
    try:
        content = json.loads((folder / _GROWTH).read_text(encoding="utf-8"))
        return bool(content["sizes"] == _sizes(folder))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _sizes(folder: Path) -> dict[str, int]:
    files = sorted(path for path in folder.rglob("*.parquet"))
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in files}


def moved(old_rows: int, new_rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """(old_rows,) the number that each old row has beside the new ones."""
    is_old = np.ones(old_rows + len(new_rows), np.bool_)
    is_old[new_rows] = False
    return np.flatnonzero(is_old)
