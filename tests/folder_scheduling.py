"""How pytest-xdist's workers share the suite: each stays in a folder until it is done.

A folder's tests share trained runs, imported databases and compiled kernels, which a worker makes
when it first needs them. Where files go to whoever is free, every worker makes them all.
"""

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# Folders with files that take long come first, so that none of them is left for the end, where
# another worker would wait for it. Doctests, of which each takes little, come last.
LONG = ("tests/nn", "tests/testing", "tests/training", "tests/cli", "tests/zoo", "tests/inference")
SHORT = "src/gelgt"


def folder_of(file: str) -> str:
    """The folder whose tests share fixtures: that of a file, or the one above it in `tests`."""
    return str(PurePosixPath(*PurePosixPath(file).parent.parts[:2]))


def rank(folder: str) -> int:
    if folder == SHORT:
        return len(LONG) + 1
    return LONG.index(folder) if folder in LONG else len(LONG)


class FolderScheduling(LoadFileScheduling):
    """`--dist loadfile` that prefers the folder a worker is in, then one where nobody is."""

    def _assign_work_unit(self, node: "WorkerController") -> None:
        self.workqueue.move_to_end(self._next_file(node), last=False)
        super()._assign_work_unit(node)

    def _next_file(self, node: "WorkerController") -> str:
        waiting: dict[str, list[str]] = {}
        for file in self.workqueue:
            waiting.setdefault(folder_of(file), []).append(file)
        places = {other: self._place(other) for other in self.nodes}
        if (own := places.pop(node, None)) in waiting and own is not None:
            return waiting[own][0]
        free = [folder for folder in waiting if folder not in places.values()]
        if free:
            return waiting[min(free, key=rank)][0]
        most = max(waiting, key=lambda folder: sum(len(self.workqueue[f]) for f in waiting[folder]))
        return waiting[most][0]

    def _place(self, node: "WorkerController") -> str | None:
        """The folder of the last file that a worker was given."""
        files = self.assigned_work.get(node)
        return folder_of(next(reversed(files))) if files else None
