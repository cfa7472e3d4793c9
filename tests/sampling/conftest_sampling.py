"""Random temporal graphs: hubs, timeless tables, null times, ties in time, cycles, self references
and rows without any key."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from gelgt.graph import Graph
from gelgt.testing.graphs import write_graph

Plain = tuple[dict[str, Any], list[tuple[str, str, str, list[int | None]]]]


@st.composite
def plain_graphs(draw: st.DrawFn) -> Plain:
    """Times and keys as plain lists. Few distinct times make ties, few parents make hubs; tables
    are sorted by time, null times last."""
    names = ["a", "b", "c", "d"][: draw(st.integers(1, 4))]
    times: dict[str, Any] = {}
    for name in names:
        rows = draw(st.integers(0, 12))
        if draw(st.integers(0, 3)) == 0:
            times[name] = rows
        else:
            dated = sorted(draw(st.lists(st.integers(-3, 9), min_size=rows, max_size=rows)))
            empty = draw(st.integers(0, 2)) if draw(st.booleans()) else 0
            times[name] = dated + [None] * empty
    keys = []
    for number in range(draw(st.integers(0, 5))):
        child, parent = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        rows, choices = size(times[child]), size(times[parent])
        hub = draw(st.booleans())
        pick = (
            st.none()
            if not choices
            else st.one_of(
                st.none(), st.integers(0, 0 if hub else choices - 1), st.integers(0, choices - 1)
            )
        )
        keys.append(
            (child, f"k{number}", parent, draw(st.lists(pick, min_size=rows, max_size=rows)))
        )
    return times, keys


def size(times: Any) -> int:
    return times if isinstance(times, int) else len(times)


@pytest.fixture
def make_graph() -> Iterator[Callable[[Plain], Graph]]:
    """Writes graphs to folders that live as long as the test."""
    with tempfile.TemporaryDirectory() as root:
        count = 0

        def make(plain: Plain) -> Graph:
            nonlocal count
            count += 1
            return write_graph(Path(root) / str(count), *plain)

        yield make
