"""A few threads that run PyTorch side by side, one core each.

The tensors of a small model are too small to be shared between cores one operation at a time: half
of the time one core waits. Whole parts of a batch keep two cores busy. PyTorch lets go of the
interpreter inside its operations, so threads are enough.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


class Lanes:
    """Threads in which PyTorch uses one core each, for as long as the `with` block lasts.

    Args:
        count: Of threads; 1 runs everything in the caller's own, with as many cores as PyTorch has.

    Example:
        with Lanes(2) as lanes:
            for result in lanes.map(work, items):  # in the order of the items
                ...
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._before = torch.get_num_threads()

    def __enter__(self) -> "Lanes":
        if self.count > 1:
            self._before = torch.get_num_threads()
            self._pool = ThreadPoolExecutor(
                self.count, "gelgt-lane", initializer=torch.set_num_threads, initargs=(1,)
            )
            torch.set_num_threads(1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
            torch.set_num_threads(self._before)

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """The results of the items, in their order; never more items in hand than there are lanes,
        and one ahead."""
        if self._pool is None:
            yield from map(work, items)
            return
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(work, item))
                if len(waiting) > self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
