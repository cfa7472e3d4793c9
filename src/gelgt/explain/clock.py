"""`Clock`: where the time of explanations goes."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Adds up the seconds of named phases; what happens in an inner phase does not count for the
    outer one.

    Example:
        >>> clock = Clock()
        >>> with clock("model"):
        ...     pass
        >>> list(clock.seconds)
        ['model']
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside = 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        before, self._inside = self._inside, 0.0
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            self.seconds[name] += took - self._inside
            self._inside = before + took
