"""What surrounds the recording of a CUDA graph, and what it leaves to be done after it.

Values from the host that every replay reads cannot be written while its work is recorded: nothing
runs then, and a copy would be recorded and repeated. Nor may an earlier recording be freed
meanwhile, which ends the one that is made; recordings hold each other, so that Python's garbage
collector frees them at a moment of its own.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_LEFT: ContextVar[list[Callable[[], object]] | None] = ContextVar("left", default=None)


@contextmanager
def recording() -> Iterator[None]:
    """Work is recorded in here, for the first replay after it."""
    left: list[Callable[[], object]] = []
    token, is_collecting = _LEFT.set(left), gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
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
