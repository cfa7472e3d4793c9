"""`Aside`: a stage of a run in a thread of its own, while other stages go on.

    with Aside(grow, is_beside=has_room()) as trees:
        …                       # what does not need them
        trees.result()

LightGBM works outside of Python's lock. Where a machine has too few cores, the stage waits until
its result is asked for, and takes its time then.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, TypeVar

import torch

from gelgt.sources.processes import core_count

LEAST_CORES = 8  # from which stages are worth running at once
TURN = 2e-4  # seconds after which a thread lets another one have Python's lock, instead of 5e-3

Result = TypeVar("Result")


def has_room() -> bool:
    """Whether this machine has cores for two stages at once."""
    return core_count() >= LEAST_CORES


def is_idle(device: torch.device) -> bool:
    """Whether the cores of this machine have little to do while a device trains."""
    return device.type != "cpu" and has_room()


@contextmanager
def short_turns() -> Iterator[None]:
    """Threads that come back from compiled code wait for Python's lock only shortly. Rounds of
    LightGBM, launches on a device and pieces of history come back for it every few milliseconds,
    and beside busy threads would wait for a usual turn each time (docs/research/beside.md)."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, TURN))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Aside(Generic[Result]):
    """A stage that began when this was entered, or begins when its result is asked for.

    Args:
        stage: Is given a question that it asks now and then: whether nobody waits for it any more.
        is_beside: Whether it runs in a thread of its own.
        after: Another stage whose result it waits for: after an error nobody waits for that either.
    """

    def __init__(
        self,
        stage: Callable[[Callable[[], bool]], Result],
        is_beside: bool,
        after: "Aside[Any] | None" = None,
    ) -> None:
        self.stage, self.is_beside, self._is_left = stage, is_beside, threading.Event()
        self.after = after
        self._pool = ThreadPoolExecutor(1)
        self._future: Future[Result] | None = None

    def __enter__(self) -> "Aside[Result]":
        if self.is_beside:
            self._future = self._pool.submit(self.stage, self._is_left.is_set)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()
        if kind is not None and self.after is not None:
            self.after.leave()
        self._pool.shutdown()

    def leave(self) -> None:
        """Tell the stage that nobody waits for more than it has."""
        self._is_left.set()

    @property
    def has_failed(self) -> bool:
        """Whether it has ended with an error, which `result` raises."""
        return (
            self._future is not None
            and self._future.done()
            and self._future.exception() is not None
        )

    def result(self) -> Result:
        """What the stage gives, once it has ended."""
        if self._future is None:
            found = self.stage(self._is_left.is_set)
            self._future = Future()
            self._future.set_result(found)
        return self._future.result()
