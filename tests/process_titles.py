"""Titles of processes that run below a test, as others on the machine see them (`ps`), and which of
them gelgt started.

What a test itself starts has the title that a user typed, or a shell. Everything that such a
process starts, or that code of gelgt starts within the tests, is gelgt's own.
"""

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

EVERY = 0.05  # seconds between two looks


class Titles(threading.Thread):
    """Looks at the titles of gelgt's own processes as long as they live."""

    def __init__(self, tell: Callable[[bytes], None]) -> None:
        super().__init__(name="process-titles", daemon=True)
        self._tell, self._ended, self._known = tell, threading.Event(), set[bytes]()
        self._typed: set[int] = set()  # processes that tests started
        self._starting = 0  # and those whose numbers are not known yet
        self.ask: Callable[[bytes], object] = lambda title: None  # is told each, too

    def watch(self, patch: pytest.MonkeyPatch, is_ours: Callable[[], bool]) -> None:
        """From now on; `is_ours` says whether code of gelgt is among the callers."""
        real = subprocess.Popen.__init__

        def counted(process: Any, *words: Any, **options: Any) -> None:
            if is_ours():
                real(process, *words, **options)
                return
            self._starting += 1
            try:
                real(process, *words, **options)
                self._typed.add(process.pid)
            finally:
                self._starting -= 1

        patch.setattr(subprocess.Popen, "__init__", counted)
        self.start()

    def run(self) -> None:
        while not self._ended.wait(EVERY):
            self.look()

    def end(self) -> None:
        self._ended.set()
        self.join()

    def look(self) -> None:
        """Tell each title of a process of gelgt once."""
        for pid, parent in list(_below(os.getpid())):
            is_ours = self._starting == 0 if parent == os.getpid() else _is_python(parent)
            title, above = title_of(pid), title_of(parent)
            # A fork that runs nothing else yet has the title of who forked it.
            if pid not in self._typed and is_ours and title != above and title not in self._known:
                self._known.add(title)
                self._tell(title)
                self.ask(title)


def title_of(pid: int) -> bytes:
    """The words of a process and its short name."""
    try:
        return b" ".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "comm"))
    except OSError:  # it has ended
        return b""


def _below(pid: int) -> Iterator[tuple[int, int]]:
    """The processes below one, each with its parent; none on systems other than Linux."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        try:
            children = Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        except OSError:
            continue
        for child in map(int, children):
            yield child, pid
            yield from _below(child)


def _is_python(pid: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python")
    except OSError:
        return False
