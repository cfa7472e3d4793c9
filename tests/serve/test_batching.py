"""Batches: who is answered together, in which order, and what happens when too many ask."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import pytest

from gelgt.errors import GelgtError
from gelgt.serve.batching import Batcher, BusyError, ClosingError


@dataclass(frozen=True)
class Number:
    value: int
    size: int = 1


class Doubling:
    """Answers numbers with their double; waits until it may, and keeps what it was asked."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.has_begun = threading.Event()

    def __call__(self, questions: Sequence[Number]) -> list[int | Exception]:
        self.batches.append([q.value for q in questions])
        self.has_begun.set()
        assert self.may_answer.wait(20)
        return [
            GelgtError("odd", f"{q.value} is odd") if q.value % 2 else 2 * q.value
            for q in questions
        ]


async def asked(batcher: Batcher[Number, int], *numbers: int) -> list[int | BaseException]:
    futures = [batcher.ask(Number(n)) for n in numbers]
    return list(await asyncio.gather(*futures, return_exceptions=True))


def test_answers_come_to_their_questions_and_errors_to_theirs_alone() -> None:
    doubling = Doubling()
    batcher: Batcher[Number, int] = Batcher(doubling, limit=50, seconds=0.05)
    answers = asyncio.run(asked(batcher, 2, 3, 4))
    batcher.close()
    assert doubling.batches == [[2, 3, 4]]
    assert (answers[0], answers[2]) == (4, 8)
    assert isinstance(answers[1], GelgtError)
    assert answers[1].code == "odd"


def test_a_batch_ends_with_the_seed_that_fills_it() -> None:
    doubling = Doubling()
    batcher: Batcher[Number, int] = Batcher(doubling, limit=50, seeds=4, seconds=5.0)

    async def go() -> list[int]:
        sizes = (2, 2, 3, 9, 4)
        return list(await asyncio.gather(*(batcher.ask(Number(2, size)) for size in sizes)))

    assert asyncio.run(asyncio.wait_for(go(), 20)) == [4] * 5
    batcher.close()
    assert [len(batch) for batch in doubling.batches] == [2, 1, 1, 1]  # 4; 3; 9 alone; 4


def test_what_comes_while_a_batch_is_answered_goes_into_the_next() -> None:
    doubling = Doubling()
    doubling.may_answer.clear()
    batcher: Batcher[Number, int] = Batcher(doubling, limit=50, seconds=0.0)

    async def go() -> None:
        first = batcher.ask(Number(2))
        assert await asyncio.to_thread(doubling.has_begun.wait, 20)
        others = [batcher.ask(Number(n)) for n in (4, 6, 8)]
        assert batcher.waiting == 3
        doubling.may_answer.set()
        assert await asyncio.gather(first, *others) == [4, 8, 12, 16]

    asyncio.run(go())
    batcher.close()
    assert doubling.batches[0] == [2]
    assert list(chain(*doubling.batches[1:])) == [4, 6, 8]


def test_too_many_questions_are_refused_and_later_ones_are_not() -> None:
    doubling = Doubling()
    doubling.may_answer.clear()
    batcher: Batcher[Number, int] = Batcher(doubling, limit=2, seconds=0.0)

    async def go() -> None:
        first = batcher.ask(Number(2))
        assert await asyncio.to_thread(doubling.has_begun.wait, 20)
        waiting = [batcher.ask(Number(4)), batcher.ask(Number(6))]
        with pytest.raises(BusyError) as refused:
            batcher.ask(Number(8))
        assert refused.value.code == "busy"
        assert refused.value.seconds >= 1
        doubling.may_answer.set()
        assert await asyncio.gather(first, *waiting) == [4, 8, 12]
        assert await batcher.ask(Number(10)) == 20

    asyncio.run(go())
    batcher.close()


def test_nobody_is_answered_whose_time_was_up() -> None:
    doubling = Doubling()
    doubling.may_answer.clear()
    batcher: Batcher[Number, int] = Batcher(doubling, limit=9, seconds=0.0)

    async def go() -> None:
        first = batcher.ask(Number(2))
        assert await asyncio.to_thread(doubling.has_begun.wait, 20)
        late, last = batcher.ask(Number(4)), batcher.ask(Number(6))
        late.cancel()
        doubling.may_answer.set()
        assert await asyncio.gather(first, last) == [4, 12]

    asyncio.run(go())
    batcher.close()
    assert 4 not in chain(*doubling.batches)


def test_closing_answers_what_was_accepted_and_accepts_no_more() -> None:
    doubling = Doubling()
    doubling.may_answer.clear()
    batcher: Batcher[Number, int] = Batcher(doubling, limit=9, seconds=0.0)

    async def go() -> None:
        accepted = [batcher.ask(Number(n)) for n in (2, 4)]
        closing = asyncio.create_task(asyncio.to_thread(batcher.close))
        while not batcher._is_closed:
            await asyncio.sleep(0.001)
        with pytest.raises(ClosingError):
            batcher.ask(Number(6))
        doubling.may_answer.set()
        assert await asyncio.gather(*accepted) == [4, 8]
        await closing

    asyncio.run(go())


def test_a_bug_fails_its_batch_and_not_the_next() -> None:
    def sometimes(questions: Sequence[Number]) -> list[int | Exception]:
        if any(q.value == 13 for q in questions):
            raise ZeroDivisionError
        return [q.value for q in questions]

    batcher: Batcher[Number, int] = Batcher(sometimes, limit=9)

    async def go() -> None:
        with pytest.raises(ZeroDivisionError):
            await batcher.ask(Number(13))
        assert await batcher.ask(Number(7)) == 7

    asyncio.run(go())
    batcher.close()
