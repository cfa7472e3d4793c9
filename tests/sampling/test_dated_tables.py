"""Tables without a time of their own are not stored in the order of their times: the rows that they
refer to date them."""

import numpy as np
import pytest

from gelgt.graph import NEVER, TIMELESS
from gelgt.sampling import Sampler, SamplingConfig
from tiny_database import DAY, START, Tiny


@pytest.mark.parametrize("strategy", ["bfs", "random", "recent", "full"])
def test_no_later_row_of_a_dated_table(tiny: Tiny, strategy: str) -> None:
    graph = tiny.db.graph()
    items = graph.node_time[graph.nodes("items", range(400))]
    assert (np.diff(items) < 0).any()
    config = SamplingConfig(strategy=strategy, budget=60)  # type: ignore[arg-type]
    days = np.arange(1, 40)
    times = START.astype(np.int64) + days * DAY
    nodes = np.resize(graph.nodes("shops", range(6)), len(days))
    sample = Sampler(graph, config).sample(nodes, times)
    limit = np.repeat(times, np.diff(sample.offsets))
    seen = graph.node_time[sample.node]
    assert ((seen < limit) | (seen == TIMELESS)).all()
    assert (sample.table == graph.table_number("items")).any()


def test_recent_takes_the_newest_rows_of_all_tables(tiny: Tiny) -> None:
    graph, time = tiny.db.graph(), int(START.astype(np.int64)) + 20 * DAY
    config = SamplingConfig(strategy="recent", budget=40, hops=1, fanout=1)
    sample = Sampler(graph, config).sample(graph.nodes("products", [0]), [time])
    added = sample.node[sample.hop == 2]
    visible = graph.node_time[(graph.node_time < time) & (graph.node_time != TIMELESS)]
    left_out = np.setdiff1d(np.flatnonzero(graph.node_time < time), sample.node)
    left_out = left_out[graph.node_time[left_out] != TIMELESS]
    assert len(added) >= 20
    assert (visible != NEVER).all()
    assert graph.node_time[added].min() >= graph.node_time[left_out].max()
