"""RelBench data sets by name ("rel-f1") or Hub address ("hf://org/repo/folder"), downloaded by the
package relbench.

Only these two forms reach the network, so a mistyped path never does.
"""

import re
from pathlib import Path

from gelgt.errors import SourceError

_NAME = re.compile(r"^(rel|dbinfer|ctu|tgb[a-z]*)-[a-z0-9-]+$")


def is_hub_address(source: str) -> bool:
    return source.startswith(("hf://", "stanford-star/")) or bool(_NAME.match(source))


def hub_folder(source: str) -> Path:
    """The local copy of a data set, downloaded if it is not in the Hub's cache."""
    from relbench import hf

    source = source.removeprefix("hf://")
    try:
        folder = Path(hf.download_dataset_dir(source))
    except Exception as error:
        # the Hub client raises errors of its own, of its transport and of the system
        raise _unreachable(source, error) from None
    if not (folder / "manifest.yaml").is_file():
        raise SourceError(
            "not_found",
            f"The Hub has no RelBench data set '{source}'.",
            hint="Check the name, or give a local folder.",
        )
    return folder


def _unreachable(source: str, error: Exception) -> SourceError:
    first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return SourceError(
        "not_cached",
        f"'{source}' is no local path, is not in the local Hub cache, and could not be downloaded "
        f"({first[:200]}).",
        hint="Connect to the network once, or give the path of a RelBench folder.",
    )
