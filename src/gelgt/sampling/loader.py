"""`SubgraphLoader`: batches of subgraphs, sampled in background threads while a model trains.

The kernels release the GIL, so threads are enough: no worker processes, no copies of the graph,
nothing to pickle. The order of an epoch depends on the generator and the epoch alone, so that a run
can resume at any step.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gelgt.errors import GelgtError
from gelgt.sampling.batch import SubgraphBatch, from_sample
from gelgt.sampling.sampler import Sampler
from gelgt.sampling.seeds import Seeds


class SubgraphLoader:
    """Iterates over seeds in batches.

    Args:
        sampler: Graph and configuration.
        seeds: (S,) seeds; each (entity, time) is sampled by itself.
        batch_size: Seeds of a batch.
        generator: Shuffles the seeds anew in each epoch; None keeps their order.
        layout: ``padded`` or ``packed``; see `sampling/batch.py`.
        threads: Background threads.
        prefetch: Batches that may be sampled ahead; it bounds the memory that they take.
        then: What else the background threads do with a batch, such as slicing its features or
            `SubgraphBatch.pin_memory`; its result is yielded instead of the batch.

    Example:
        for epoch in range(10):
            for batch in loader.epoch(epoch):
                ...
        loader.epoch(3, start=120)      # resumes the fourth epoch at its step 120
    """

    def __init__(
        self,
        sampler: Sampler,
        seeds: Seeds,
        batch_size: int,
        *,
        generator: np.random.Generator | torch.Generator | None = None,
        layout: Literal["padded", "packed"] = "padded",
        threads: int = 2,
        prefetch: int = 4,
        then: Callable[[SubgraphBatch], Any] | None = None,
    ) -> None:
        for name, value in (
            ("batch_size", batch_size),
            ("threads", threads),
            ("prefetch", prefetch),
        ):
            if value < 1:
                message = f"{name} must be at least 1, got {value}."
                raise GelgtError("bad_option", message, hint="Give at least 1.")
        self.sampler, self.seeds, self.batch_size = sampler, seeds, batch_size
        self.layout, self.threads, self.prefetch = layout, threads, prefetch
        self.then = then
        self._shuffle_key = _shuffle_key(generator)

    def __len__(self) -> int:
        """Steps of an epoch."""
        return -(-len(self.seeds) // self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        return self.epoch(0)

    def order(self, epoch: int) -> NDArray[np.int64]:
        """The order of the seeds in an epoch."""
        if self._shuffle_key is None:
            return np.arange(len(self.seeds))
        return np.random.Generator(np.random.Philox(key=[self._shuffle_key, epoch])).permutation(
            len(self.seeds)
        )

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch from step `start` on, in order, whatever the number of threads.

        Threads end when the iterator does: at its end, at an error in a thread (raised here), at
        `close()`, or at Ctrl-C.
        """
        return self.batches(epoch, range(start, len(self)))

    def batches(self, epoch: int, numbers: Iterable[int]) -> Generator[Any, None, None]:
        """The batches of an epoch that have these numbers; nothing is sampled for the others."""
        order = self.order(epoch)
        pool = ThreadPoolExecutor(self.threads, thread_name_prefix="gelgt-sampler")
        waiting: deque[Future[Any]] = deque()
        ahead = iter(numbers)
        try:
            for number in islice(ahead, self.prefetch):
                waiting.append(pool.submit(self._batch, order, number))
            while waiting:
                batch = waiting.popleft().result()
                for number in islice(ahead, 1):
                    waiting.append(pool.submit(self._batch, order, number))
                yield batch
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _batch(self, order: NDArray[np.int64], step: int) -> Any:
        places = order[step * self.batch_size : (step + 1) * self.batch_size]
        seeds = self.seeds.take(places)
        sample = self.sampler.sample(seeds.node, seeds.time, seeds.key)
        batch = from_sample(sample, self.sampler.graph, seeds.time, seeds.key, places)
        if self.layout == "padded":
            batch = batch.to_padded()
        return batch if self.then is None else self.then(batch)


def _shuffle_key(generator: np.random.Generator | torch.Generator | None) -> int | None:
    """One number from the generator, from which the orders of all epochs follow."""
    if generator is None:
        return None
    if isinstance(generator, torch.Generator):
        return int(torch.randint(0, 2**62, (1,), generator=generator))
    return int(generator.integers(0, 2**62))
