"""Pieces of work side by side in threads, whose results come in the order of the pieces.

Compiled loops and NumPy let go of Python's lock, so that threads of one process use several cores.
A piece computes the same whenever it runs: results do not depend on the number of lanes.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from gelgt.sources.processes import core_count

SMALL = 1 << 15  # values below which handing a piece to a thread takes longer than the piece
LARGE = 1 << 24  # values beyond which copies of them in all lanes would fill memory
MOST = 4  # lanes: further ones would mostly wait for memory
AHEAD = 2  # pieces for each lane that are done before they are asked for

Result = TypeVar("Result")


class Piece(NamedTuple, Generic[Result]):
    """A part of some work: how it is done, and how many values it looks at."""

    do: Callable[[], Result]
    size: int


def lane_count() -> int:
    """How many pieces are done side by side."""
    return min(MOST, core_count())


def in_order(pieces: Iterable[Piece[Result]], lanes: int) -> Iterator[Result]:
    """The results of pieces. The caller's thread does the small ones, and the large ones while no
    other thread does any."""
    if lanes < 2:
        yield from (piece.do() for piece in pieces)
        return
    ahead: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(lanes) as pool:  # starts no thread before the first piece
        try:
            for piece in pieces:
                if piece.size > LARGE:
                    while ahead:
                        yield ahead.popleft().result()
                if SMALL <= piece.size <= LARGE:
                    ahead.append(pool.submit(piece.do))
                else:
                    done: Future[Result] = Future()
                    done.set_result(piece.do())
                    ahead.append(done)
                while ahead and (ahead[0].done() or len(ahead) >= AHEAD * lanes):
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
