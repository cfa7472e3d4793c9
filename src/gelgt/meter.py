"""How far a long piece of work has come, for whoever shows it.

    work = Work("sorting orders", rows)
    for batch in batches:
        …
        work(batch.num_rows)

Work reports here, and the command line listens (`listening`); a library call without a listener
costs nothing. A listener is called every fifth of a second at most, from the second second on, so
that short work is never shown. Work that nobody waits for any more ends here (`leaving`).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

AFTER = 1.0  # seconds of work before it is shown
EVERY = 0.2  # seconds between two calls of a listener


@dataclass
class Work:
    """One piece of work: what it is, how many rows or the like are done, and of how many.

    Example:
        >>> work = Work("sorting orders", 400)
        >>> work.done, work.began = 100, time.perf_counter() - 2.0
        >>> str(work)
        'sorting orders: 100 of 400 rows, 50 a second, 6 s left'
    """

    what: str
    total: int | None = None
    unit: str = "rows"
    done: int = 0
    began: float = field(default_factory=time.perf_counter)
    _shown: float = field(default=0.0, repr=False)

    def __call__(self, count: int) -> None:
        """So many more are done.

        Raises:
            LeftError: nobody waits for it (`leaving`).
        """
        self.done += count
        if getattr(_here, "is_left", _never)():
            raise LeftError(self.what)
        now = time.perf_counter()
        if _listeners and now - self.began >= AFTER and now - self._shown >= EVERY:
            self._shown = now
            for listener in _listeners:
                listener(self)

    def __str__(self) -> str:
        rate = self.done / max(time.perf_counter() - self.began, 1e-9)
        if self.total is None:
            return f"{self.what}: {self.done:,} {self.unit}, {rate:,.0f} a second"
        left = (self.total - self.done) / max(rate, 1e-9)
        return (
            f"{self.what}: {self.done:,} of {self.total:,} {self.unit}, {rate:,.0f} a second, "
            f"{left:,.0f} s left"
        )


class LeftError(Exception):
    """Nobody waits for some work any more."""


def _never() -> bool:
    return False


_here = threading.local()


@contextmanager
def leaving(is_left: Callable[[], bool]) -> Iterator[None]:
    """End the work that this thread does in the block as soon as the answer is yes."""
    before = getattr(_here, "is_left", _never)
    _here.is_left = is_left
    try:
        yield
    finally:
        _here.is_left = before


Listener = Callable[[Work], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report all work of the block to a listener, in whatever thread it is done."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def is_heard() -> bool:
    """Whether somebody listens."""
    return bool(_listeners)
