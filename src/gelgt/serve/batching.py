"""`Batcher`: the questions of many requests, answered together by one thread.

A batch begins when it is full, when as many questions wait as have come lately, or some
milliseconds after its first question came and the answers before it were sent: those who got them
ask again then, and would otherwise always miss the batch that the others are in. Questions are
answered in the order in which they came.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gelgt.errors import GelgtError

log = logging.getLogger("gelgt.serve")
FORGET = 0.8  # of how many questions come, batch by batch
SENDING = 0.05  # seconds that answers may take to be sent before the next batch begins anyway


class Sized(Protocol):
    """A question about so many seeds."""

    @property
    def size(self) -> int: ...


Question = TypeVar("Question", bound=Sized)
Answer = TypeVar("Answer")
Answers = Callable[[Sequence[Question]], Sequence[Answer | Exception]]


class BusyError(GelgtError):
    """Too many questions wait."""

    def __init__(self, waiting: int, seconds: int) -> None:
        self.seconds = seconds
        super().__init__(
            "busy",
            f"{waiting} requests wait already.",
            hint=f"Ask again in {seconds} s, or ask for several entities in one request.",
        )


class ClosingError(GelgtError):
    """The server stops."""

    def __init__(self) -> None:
        super().__init__("closing", "The server stops.", hint="Ask another one, or later.")


@dataclass(frozen=True)
class _Asked(Generic[Question, Answer]):
    question: Question
    future: "asyncio.Future[Answer]"
    since: float


class Batcher(Generic[Question, Answer]):
    """Answers questions in batches, in a thread of its own.

    Args:
        answer: The answers to some questions, in their order; an exception is the answer to its
            question alone.
        limit: Questions that may wait.
        seeds: Of a batch at most, unless a single question has more.
        seconds: How long the first question of a batch waits for others.
        told: Is told of the seeds of each batch, and the seconds that they took.
    """

    def __init__(
        self,
        answer: Answers[Question, Answer],
        *,
        limit: int,
        seeds: int = 256,
        seconds: float = 0.005,
        told: Callable[[int, float], None] = lambda seeds, seconds: None,
        name: str = "gelgt-batches",
    ) -> None:
        self.answer, self.limit, self.seeds, self.seconds = answer, limit, seeds, seconds
        self.told = told
        self._waiting: deque[_Asked[Question, Answer]] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._sent = 0.0  # when the answers of the last batch were
        self._sending = 0  # event loops that send answers now
        self._usual = 0.0  # questions of a batch, lately
        self._rate = 0.0  # questions that were answered a second, lately
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Questions that no batch has taken yet."""
        return len(self._waiting)

    def ask(self, question: Question) -> "asyncio.Future[Answer]":
        """What will hold the answer, for the running event loop.

        Raises:
            BusyError: too many wait.
            ClosingError: nothing is accepted any more.
        """
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._is_closed:
                raise ClosingError
            if len(self._waiting) >= self.limit:
                raise BusyError(len(self._waiting), self._seconds_to_wait())
            self._waiting.append(_Asked(question, future, time.monotonic()))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Accept nothing more, answer what was accepted, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def _seconds_to_wait(self) -> int:
        return max(1, min(60, round(len(self._waiting) / self._rate))) if self._rate else 1

    def _work(self) -> None:
        while batch := self._take():
            start = time.monotonic()
            answers = self._answers(batch)
            taken = time.monotonic() - start
            # before anyone has an answer: whoever does finds it in the metrics
            self.told(sum(asked.question.size for asked in batch), taken)
            self._send(batch, answers)
            self._usual = max(len(batch), FORGET * self._usual)
            rate = len(batch) / max(taken, 1e-6)
            self._rate = rate if not self._rate else 0.9 * self._rate + 0.1 * rate

    def _take(self) -> list[_Asked[Question, Answer]]:
        """The next batch; an empty one at the end."""
        with self._changed:
            while True:
                while not self._waiting and not self._is_closed:
                    self._changed.wait()
                if not self._waiting:
                    return []
                self._gather()
                batch = self._next()
                if batch:  # otherwise nobody waits for the answers any more
                    return batch

    def _gather(self) -> None:
        """Wait for more questions while that is worth it."""
        longest = time.monotonic() + SENDING
        while not self._is_closed and not self._is_full():
            end = max(self._waiting[0].since, self._sent) + self.seconds
            left = (longest if self._sending else end) - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _is_full(self) -> bool:
        if self._usual and len(self._waiting) >= self._usual:
            return True
        return sum(asked.question.size for asked in self._waiting) >= self.seeds

    def _next(self) -> list[_Asked[Question, Answer]]:
        batch: list[_Asked[Question, Answer]] = []
        seeds = 0
        while self._waiting:
            seeds += self._waiting[0].question.size
            if batch and seeds > self.seeds:
                break
            asked = self._waiting.popleft()
            if asked.future.done():  # its time was up
                seeds -= asked.question.size
            else:
                batch.append(asked)
        return batch

    def _answers(self, batch: list[_Asked[Question, Answer]]) -> Sequence[Answer | Exception]:
        try:
            return self.answer([asked.question for asked in batch])
        except Exception as error:  # a bug; the server goes on
            log.exception("A batch of %d questions failed", len(batch))
            return [error] * len(batch)

    def _send(
        self, batch: list[_Asked[Question, Answer]], answers: Sequence[Answer | Exception]
    ) -> None:
        pairs = list(zip(batch, answers, strict=True))
        for loop in {asked.future.get_loop() for asked in batch}:
            own = [pair for pair in pairs if pair[0].future.get_loop() is loop]
            if not loop.is_closed():
                with self._changed:
                    self._sending += 1
                loop.call_soon_threadsafe(self._deliver, loop, own)

    def _deliver(
        self,
        loop: asyncio.AbstractEventLoop,
        pairs: "list[tuple[_Asked[Question, Answer], Answer | Exception]]",
    ) -> None:
        for asked, answer in pairs:
            if asked.future.done():
                continue
            if isinstance(answer, Exception):
                asked.future.set_exception(answer)
            else:
                asked.future.set_result(answer)
        # behind those who wait for the futures: by then they have written their responses
        loop.call_soon(loop.call_soon, self._delivered)

    def _delivered(self) -> None:
        with self._changed:
            self._sending -= 1
            self._sent = time.monotonic()
            self._changed.notify()
