"""Pieces of work in threads give what they give one after the other."""

import threading
import time
from collections.abc import Iterator

import pytest

from gelgt.history.pieces import LARGE, SMALL, Piece, in_order


@pytest.mark.parametrize("lanes", [1, 2, 5])
def test_results_come_in_the_order_of_the_pieces(lanes: int) -> None:
    sizes = [SMALL, 1, SMALL, LARGE + 1, SMALL, SMALL, 1] * 6

    def piece(number: int) -> int:
        time.sleep(0.002 * (number % 3))
        return number

    work = [Piece(lambda n=n: piece(n), size) for n, size in enumerate(sizes)]
    assert list(in_order(work, lanes)) == list(range(len(sizes)))


def test_few_pieces_are_done_ahead() -> None:
    begun: list[int] = []

    def pieces_of() -> Iterator[Piece[int]]:
        for number in range(100):
            begun.append(number)
            yield Piece(lambda: 0, SMALL)

    results = in_order(pieces_of(), 2)
    next(results)
    assert len(begun) <= 4
    results.close()  # type: ignore[attr-defined]
    assert len(begun) <= 4


def test_an_error_ends_the_others() -> None:
    def fail() -> int:
        raise ValueError("no")

    threads = threading.active_count()
    with pytest.raises(ValueError, match="no"):
        list(in_order([Piece(lambda: 1, SMALL), Piece(fail, SMALL), Piece(lambda: 1, SMALL)], 2))
    assert threading.active_count() == threads
