"""A held predictor looks at its source again after a while, for one caller at a time."""

import threading
from collections.abc import Callable

import pytest

from gelgt import GelgtError
from gelgt.demo import Shop
from gelgt.inference import Predictor
from gelgt.integrations.held import HeldPredictor
from gelgt.training import Run


def test_it_is_made_again_after_a_while(run_of: Callable[[str], Run]) -> None:
    run = run_of("churn")
    for refresh, is_same in ((3600.0, True), (0.0, False)):
        held, seen = HeldPredictor(run, refresh=refresh), []
        for _ in range(2):
            with held.use() as predictor:
                seen.append(predictor)
        assert (seen[0] is seen[1]) == is_same
    with pytest.raises(GelgtError) as caught:
        HeldPredictor(run, refresh=-1)
    assert caught.value.code == "bad_option"


def test_callers_wait_for_each_other(
    run_of: Callable[[str], Run], ids: list[int], tiny_shop: Shop
) -> None:
    """Threads that ask at once all get what one would."""
    run, at = run_of("churn"), tiny_shop.test_timestamp
    expected = Predictor(run, None).predict(ids[:10], at).table
    held, found, inside = HeldPredictor(run, refresh=0.0), [], []

    def ask() -> None:
        with held.use() as predictor:
            inside.append(1)
            found.append((predictor.predict(ids[:10], at).table, len(inside)))
            inside.pop()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(table.equals(expected), count) for table, count in found] == [(True, 1)] * 6
