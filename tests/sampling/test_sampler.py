"""The sampler's own rules: horizon, regimes, reference times, seeds from the future, memory."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gelgt
from gelgt.bench.python_sampler import PythonSampler, is_same_subgraph, paper_sampling
from gelgt.config import SamplingConfig
from gelgt.demo import Shop
from gelgt.graph import Graph
from gelgt.sampling import Sampler, entity_keys, make_seeds, task_seeds
from gelgt.testing.graphs import YEAR, large_graph, write_graph

DAY = 86_400


@pytest.fixture
def history(tmp_path: Path) -> Graph:
    """One user with an event on each of the days 0…9."""
    return write_graph(
        tmp_path,
        {"users": 1, "events": [d * DAY for d in range(10)]},
        [("events", "user", "users", [0] * 10)],
    )


def test_truncated_neighbourhoods_are_the_recent_ones(history: Graph) -> None:
    sample = Sampler(history, SamplingConfig(budget=4)).sample([0], [8 * DAY])
    assert sample.node.tolist() == [0, 8, 7, 6]
    assert sample.age.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert sample.is_cut.tolist() == [True]


def test_rows_that_a_second_list_names_again_are_there_once(tmp_path: Path) -> None:
    """Orders are leaves: nobody refers to them, but a seed's own are met again in the list of their
    shop."""
    keys = [("orders", "user", "users", [0, 0, 1]), ("orders", "shop", "shops", [0, 1, 0])]
    graph = write_graph(tmp_path, {"users": 2, "shops": 2, "orders": [10, 20, 30]}, keys)
    sample = Sampler(graph, SamplingConfig(hops=3)).sample([0], [40])
    assert sample.node.tolist() == [0, 5, 4, 3, 2, 6]
    assert sample.hop.tolist() == [0, 1, 1, 2, 2, 3]
    assert len(sample.edge_source) == 5, "the last order's user is out of reach"


def test_ages_are_measured_from_the_horizon(history: Graph) -> None:
    frozen = Sampler(history, SamplingConfig(visibility="frozen", horizon=5 * DAY)).sample(
        [0], [100 * DAY]
    )
    assert frozen.node.tolist() == [0, 6, 5, 4, 3, 2, 1], "rows up to the horizon, itself included"
    assert frozen.age.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    before = Sampler(history, SamplingConfig(visibility="frozen", horizon=5 * DAY)).sample(
        [0], [3 * DAY]
    )
    assert before.age.tolist() == [0.0, 1.0, 2.0, 3.0]
    deployed = Sampler(history, SamplingConfig()).sample([0], [100 * DAY])
    assert deployed.age.tolist()[:2] == [0.0, 91.0]


def test_inclusive_does_not_trust_seconds_that_were_cut(tmp_path: Path) -> None:
    """A row half a second after the seed has the seed's own second."""
    import pandas as pd

    frames = {
        "users": pd.DataFrame({"id": [1]}),
        "events": pd.DataFrame(
            {
                "id": [1, 2],
                "user_id": [1, 1],
                "at": pd.to_datetime(["2024-01-01 00:00:00.0", "2024-01-01 00:00:00.5"]),
            }
        ),
    }
    graph = gelgt.open(frames).graph()
    at = int(pd.Timestamp("2024-01-01").timestamp())
    assert graph.first_fraction == at
    user = graph.nodes("users", [0])
    assert len(Sampler(graph, SamplingConfig(causality="inclusive")).sample(user, [at]).node) == 1
    frozen = SamplingConfig(visibility="frozen", horizon=at)
    assert len(Sampler(graph, frozen).sample(user, [at + DAY]).node) == 1, (
        "half a second after the horizon is after it"
    )


def test_a_later_fraction_changes_nothing_before_it() -> None:
    """Whether a row of the seed's own second is admitted cannot depend on a row that comes
    later."""
    import pandas as pd

    times = ["2024-01-01 00:00:00", "2024-01-02 00:00:00", "2024-01-09 00:00:00.25"]
    samples = []
    for count in (2, 3):
        events = pd.DataFrame(
            {
                "id": range(count),
                "user_id": 1,
                "at": pd.to_datetime(times[:count], format="ISO8601"),
            }
        )
        graph = gelgt.open({"users": pd.DataFrame({"id": [1]}), "events": events}).graph()
        at = int(pd.Timestamp("2024-01-02").timestamp())
        sample = Sampler(graph, SamplingConfig(causality="inclusive")).sample(
            graph.nodes("users", [0]), [at]
        )
        samples.append((sample.age.tolist(), sample.hop.tolist()))
    assert samples[0] == samples[1]
    assert len(samples[0][0]) == 3


def test_seeds_from_the_future_are_refused(history: Graph) -> None:
    with pytest.raises(
        gelgt.GelgtError, match=r"1 seeds of 'events' do not exist yet.*rows 4"
    ) as caught:
        Sampler(history, SamplingConfig()).sample([5, 1], [2 * DAY, 2 * DAY])
    assert caught.value.code == "seed_from_the_future"


def test_bad_seeds_and_configs(history: Graph) -> None:
    with pytest.raises(gelgt.GelgtError, match="Seed nodes must lie in 0…10"):
        Sampler(history, SamplingConfig()).sample([11], [0])
    with pytest.raises(gelgt.GelgtError, match="one time for each seed"):
        Sampler(history, SamplingConfig()).sample([1, 2], [0])
    with pytest.raises(gelgt.GelgtError, match="needs a horizon"):
        Sampler(history, SamplingConfig(visibility="frozen"))
    with pytest.raises(gelgt.GelgtError, match=r"sampling\.hops must be .* at least 1 .*, got 0"):
        SamplingConfig(hops=0)
    with pytest.raises(gelgt.GelgtError, match=r"Did you mean .budget."):
        SamplingConfig(budgett=3)


def test_no_seeds_and_no_keys(history: Graph, tmp_path: Path) -> None:
    empty = Sampler(history, SamplingConfig()).sample([], [])
    assert empty.node.tolist() == []
    assert empty.offsets.tolist() == [0]
    lonely = write_graph(tmp_path / "lonely", {"things": 3})
    assert Sampler(lonely, SamplingConfig()).sample([1], [0]).node.tolist() == [1]


def test_the_python_peer_gives_the_same(relbench_data: Callable[[str], Path]) -> None:
    db = gelgt.open(relbench_data("rel-f1"))
    graph = db.graph()
    seeds = task_seeds(db.task("driver-dnf"), graph, "train")
    nodes, times = seeds.node[::97], seeds.time[::97]
    peer = PythonSampler(graph)
    sample = Sampler(graph, paper_sampling()).sample(nodes, times)
    for place, (node, time) in enumerate(zip(nodes, times)):
        assert is_same_subgraph(sample, place, peer.sample(int(node), int(time), 300, 2)), place


def test_keys_follow_the_user_not_the_row_number(small_shop: Shop) -> None:
    whole = gelgt.open(small_shop.url)
    keys = entity_keys(whole, "customers", np.arange(whole.num_rows("customers")))
    assert len(set(keys.tolist())) == whole.num_rows("customers")
    assert (
        keys.tolist()
        != entity_keys(whole, "orders", np.arange(whole.num_rows("customers"))).tolist()
    )
    seeds = make_seeds(
        whole,
        whole.graph(),
        "customers",
        [3, 3],
        np.array(["2024-06-01", "2024-07-01"], "datetime64[D]"),
    )
    assert seeds.key[0] == seeds.key[1] == keys[3]
    assert seeds.time.tolist() == [1717200000, 1719792000]


def test_random_orders_differ_by_seed_entity_and_time(history: Graph) -> None:
    def drawn(seed: int, key: int, time: int) -> list[int]:
        config = SamplingConfig(order="random", budget=4, seed=seed)
        return list(
            Sampler(history, config).sample([0], [time], np.array([key], np.uint64)).node.tolist()
        )

    at = 50 * DAY
    assert drawn(0, 0, at) == drawn(0, 0, at)
    assert len({tuple(drawn(s, 0, at)) for s in range(8)}) > 3
    assert len({tuple(drawn(0, k, at)) for k in range(8)}) > 3
    assert len({tuple(drawn(0, 0, at + t)) for t in range(8)}) > 3


def test_every_child_is_equally_likely(history: Graph) -> None:
    config = SamplingConfig(order="random", budget=4)
    keys = np.arange(4000, dtype=np.uint64)
    sample = Sampler(history, config).sample(
        np.zeros(4000, np.int64), np.full(4000, 50 * DAY), keys
    )
    counts = np.bincount(sample.node[sample.hop == 1], minlength=11)[1:]
    assert counts.sum() == 3 * 4000
    np.testing.assert_allclose(counts, 1200, rtol=0.12)


def test_working_memory_does_not_grow_with_the_graph(tmp_path: Path) -> None:
    """Peak of what a batch of 512 seeds allocates, its result included; the graph's mapped pages
    are not the sampler's."""
    large_graph(tmp_path / "graph", 300_000, hub=50_000, degree=50)
    script = f"""
import numpy as np, tracemalloc
from pathlib import Path
from gelgt.graph import Graph
from gelgt.sampling import Sampler, SamplingConfig
graph = Graph(Path({str(tmp_path / "graph")!r}))
sampler = Sampler(graph, SamplingConfig(budget=1000))
nodes = np.zeros(512, np.int64)
sampler.sample(nodes[:8], np.full(8, {51 * YEAR}))
tracemalloc.start()
for strategy in ('bfs', 'random', 'recent'):
    sampler = Sampler(graph, SamplingConfig(budget=1000, strategy=strategy))
    sample = sampler.sample(nodes, np.full(len(nodes), {51 * YEAR}))
    del sample
print(tracemalloc.get_traced_memory()[1])
"""
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert int(out) < 64 << 20
