"""Requests to object storage, tried a few times with growing pauses."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from gelgt.storage.failures import is_lasting, storage_error

ATTEMPTS = 3
FIRST_PAUSE = 0.5  # seconds, doubled after each attempt
Result = TypeVar("Result")


def tried(work: Callable[[], Result], place: str) -> Result:
    """The result of a request, made again with growing pauses where that may help.

    Raises:
        SourceError: it failed for good.
    """
    from pyarrow import ArrowException

    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except (OSError, ArrowException) as error:
            if attempt == ATTEMPTS or is_lasting(error):
                raise storage_error(error, place, attempt) from None
        # machines that failed together should not come back together
        time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))
    raise AssertionError  # the last attempt returns or raises
