"""What a recording of a CUDA graph leaves to be done after it.

Values from the host that every replay reads cannot be written while its work is recorded: nothing
runs then, and a copy would be recorded and repeated.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LEFT: ContextVar[list[Callable[[], object]] | None] = ContextVar("left", default=None)


@contextmanager
def recording() -> Iterator[None]:
    """Work is recorded in here, for the first replay after it."""
    left: list[Callable[[], object]] = []
    token = _LEFT.set(left)
    try:
        yield
    finally:
        _LEFT.reset(token)
    for each in left:
        each()


def is_recording() -> bool:
    """Whether work is recorded, and not done."""
    return _LEFT.get() is not None


def after_recording(work: Callable[[], object]) -> None:
    """Do something between a recording and its first replay."""
    left = _LEFT.get()
    assert left is not None, "nothing is recorded"
    left.append(work)
