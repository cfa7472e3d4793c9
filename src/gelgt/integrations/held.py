"""`HeldPredictor`: a predictor that a long-lived process holds.

A `Predictor` sees the rows that its source had when it was opened. Whoever keeps one for hours has
to look at the source again, or predictions for today are made from the rows of last week.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gelgt.errors import GelgtError
from gelgt.inference import Predictor
from gelgt.runs.folder import Run

REFRESH = 300.0  # seconds


class HeldPredictor:
    """A predictor for one caller at a time, made when it is first asked for.

    Args:
        run: The run.
        source: As in `Predictor`.
        device: As in `Predictor`.
        refresh: Seconds after which the source is looked at again before the next prediction; 0
            for before each.
    """

    def __init__(
        self, run: Run, source: Any = None, *, device: str = "auto", refresh: float = REFRESH
    ) -> None:
        if not refresh >= 0:
            raise GelgtError(
                "bad_option", f"refresh is {refresh} seconds.", hint="Give 0 or more seconds."
            )
        self.run, self.source, self.device, self.refresh = run, source, device, refresh
        self._lock = threading.Lock()
        self._predictor: Predictor | None = None
        self._since = 0.0

    @contextmanager
    def use(self) -> Iterator[Predictor]:
        """The predictor; others wait meanwhile, since it keeps what it computed last.

        Raises:
            GelgtError: the source cannot be opened, or lacks what the model knows.
        """
        with self._lock:
            now = time.monotonic()
            if self._predictor is None or now - self._since >= self.refresh:
                self._predictor = Predictor(self.run, self.source, self.device)
                self._since = now
            yield self._predictor
