"""Ctrl-C while training: the first one ends training with the best weights so far, a second one
ends the process at once."""

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """Catches SIGINT while it is entered, and is true once it came.

    Args:
        has_begun: Whether there are weights to keep; before that, the first Ctrl-C ends it all.
        tell: Called with a line for the user.
    """

    def __init__(self, has_begun: Callable[[], bool], tell: Callable[[str], None]) -> None:
        self.has_begun, self.tell = has_begun, tell
        self.came = False
        self.came_early = False  # before there were weights to keep
        self._before: Any = None

    def __call__(self) -> bool:
        # compiled code that calls Python can swallow an exception: it is raised again when somebody
        # asks
        if self.came_early:
            raise KeyboardInterrupt
        return self.came

    def __enter__(self) -> "Interrupt":
        self._before = signal.signal(signal.SIGINT, self._first)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _first(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if not self.has_begun():
            self.came_early = True
            raise KeyboardInterrupt
        self.came = True
        self.tell(
            "interrupted: the best weights so far are scored and saved; press Ctrl-C again to stop "
            "at once"
        )
