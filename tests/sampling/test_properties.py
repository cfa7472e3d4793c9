"""The sampler against the slow reference, over random temporal graphs."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from conftest_sampling import Plain, plain_graphs, size
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from reference import Reference, Subgraph

from gelgt.config import SamplingConfig
from gelgt.graph import NEVER, TIMELESS, Graph
from gelgt.sampling import Sample, Sampler

Make = Callable[[Plain], Graph]
many = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def seeds_of(graph: Graph) -> tuple[list[int], list[int]]:
    """Every row at every interesting time at which it exists."""
    pairs = [
        (node, time)
        for node in range(graph.num_nodes)
        for time in range(-4, 12)
        if exists(graph, node, time)
    ]
    return [node for node, _ in pairs], [time for _, time in pairs]


def exists(graph: Graph, node: int, time: int) -> bool:
    row_time = int(graph.node_time[node])
    return row_time == TIMELESS or (row_time != NEVER and row_time <= time)


def subgraph_of(sample: Sample, b: int) -> Subgraph:
    t, e = slice(*sample.offsets[b : b + 2]), slice(*sample.edge_offsets[b : b + 2])
    edges = [
        (int(sample.node[s]), int(sample.node[d]), int(r))
        for s, d, r in zip(sample.edge_source[e], sample.edge_target[e], sample.edge_relation[e])
    ]
    assert len(edges) == len(set(edges)), "each foreign key is found once"
    return Subgraph(
        sample.node[t].tolist(), sample.hop[t].tolist(), set(edges), bool(sample.is_cut[b])
    )


def sampled(graph: Graph, **config: Any) -> tuple[list[int], list[int], Sample]:
    nodes, times = seeds_of(graph)
    return nodes, times, Sampler(graph, SamplingConfig(**config)).sample(nodes, times)


@many
@given(plain=plain_graphs(), budget=st.integers(1, 40), hops=st.integers(1, 4))
def test_bfs_equals_the_reference(plain: Plain, budget: int, hops: int, make_graph: Make) -> None:
    graph = make_graph(plain)
    reference = Reference(graph)
    nodes, times, sample = sampled(graph, budget=budget, hops=hops)
    for b, (node, time) in enumerate(zip(nodes, times)):
        assert subgraph_of(sample, b) == reference.bfs(node, time, budget, hops)


@many
@given(
    plain=plain_graphs(),
    budget=st.integers(1, 40),
    hops=st.integers(1, 4),
    fanout=st.integers(1, 6),
)
def test_fanout_looks_at_the_newest_children_alone(
    plain: Plain, budget: int, hops: int, fanout: int, make_graph: Make
) -> None:
    graph = make_graph(plain)
    reference = Reference(graph)
    nodes, times, sample = sampled(graph, budget=budget, hops=hops, fanout=fanout)
    for b, (node, time) in enumerate(zip(nodes, times)):
        assert subgraph_of(sample, b) == reference.bfs(node, time, budget, hops, fanout)


@many
@given(plain=plain_graphs(), hops=st.integers(1, 4))
def test_full_is_the_whole_neighbourhood(plain: Plain, hops: int, make_graph: Make) -> None:
    graph = make_graph(plain)
    reference = Reference(graph)
    nodes, times, sample = sampled(graph, strategy="full", hops=hops, budget=1)
    for b, (node, time) in enumerate(zip(nodes, times)):
        assert subgraph_of(sample, b) == reference.bfs(node, time, None, hops)


@many
@given(plain=plain_graphs(), budget=st.integers(1, 40), hops=st.integers(1, 3))
def test_recent_equals_the_reference(
    plain: Plain, budget: int, hops: int, make_graph: Make
) -> None:
    graph = make_graph(plain)
    reference = Reference(graph)
    nodes, times, sample = sampled(graph, strategy="recent", budget=budget, hops=hops)
    for b, (node, time) in enumerate(zip(nodes, times)):
        assert subgraph_of(sample, b) == reference.recent(node, time, budget, hops)


@many
@given(
    plain=plain_graphs(),
    budget=st.integers(1, 20),
    hops=st.integers(1, 3),
    strategy=st.sampled_from(["random", "bfs"]),
)
def test_random_orders_draw_from_the_neighbourhood(
    plain: Plain, budget: int, hops: int, strategy: str, make_graph: Make
) -> None:
    graph = make_graph(plain)
    reference = Reference(graph)
    nodes, times, sample = sampled(
        graph, strategy=strategy, order="random", budget=budget, hops=hops
    )
    for b, (node, time) in enumerate(zip(nodes, times)):
        whole, depths, _ = reference.search(node, time, None, hops)
        got = subgraph_of(sample, b)
        assert got.nodes[0] == node
        assert len(got.nodes) == len(set(got.nodes)) == min(budget, len(whole))
        assert all(h == depths[whole.index(n)] for n, h in zip(got.nodes, got.hops)), (
            "the distance is the true one"
        )
        assert got.edges == reference.induced(got.nodes)


@many
@given(
    plain=plain_graphs(),
    budget=st.integers(1, 30),
    strategy=st.sampled_from(["bfs", "random", "recent", "full"]),
)
def test_never_a_row_at_or_after_the_seed_time(
    plain: Plain, budget: int, strategy: str, make_graph: Make
) -> None:
    graph = make_graph(plain)
    _, times, sample = sampled(graph, budget=budget, strategy=strategy)
    for b, time in enumerate(times):
        others = graph.node_time[sample.node[sample.offsets[b] + 1 : sample.offsets[b + 1]]]
        assert np.all((others == TIMELESS) | (others < time))
        if strategy != "full":
            assert sample.offsets[b + 1] - sample.offsets[b] <= budget


@many
@given(plain=plain_graphs(), budget=st.integers(2, 40))
def test_first_hop_rows_are_complete_whenever_they_fit(
    plain: Plain, budget: int, make_graph: Make
) -> None:
    graph = make_graph(plain)
    reference = Reference(graph)
    nodes, times, sample = sampled(graph, budget=budget)
    for b, (node, time) in enumerate(zip(nodes, times)):
        first = set(reference.neighbours(node, time)) - {node}
        if len(first) < budget:
            assert first <= set(subgraph_of(sample, b).nodes)


@many
@given(
    plain=plain_graphs(),
    cut=st.integers(-4, 10),
    strategy=st.sampled_from(["bfs", "random", "recent", "full"]),
    order=st.sampled_from(["recent", "random"]),
    budget=st.integers(1, 20),
)
def test_rows_after_the_seed_time_change_nothing(
    plain: Plain, cut: int, strategy: str, order: str, budget: int, make_graph: Make
) -> None:
    """The graph cut at a time gives the same samples at that time, although all node numbers
    differ."""
    visible = {name: visible_rows(value, cut) for name, value in plain[0].items()}
    whole, small = make_graph(plain), make_graph(only_rows(plain, visible))
    config = SamplingConfig(strategy=strategy, order=order, budget=budget)  # type: ignore[arg-type]
    pairs = [(name, row) for name, rows in visible.items() for row in rows]
    assume(pairs)
    identity = np.array([hash_of(name, row) for name, row in pairs], np.uint64)
    at = [cut] * len(pairs)
    before = Sampler(small, config).sample(
        [int(small.nodes(n, [visible[n].index(r)])[0]) for n, r in pairs], at, identity
    )
    after = Sampler(whole, config).sample(
        [int(whole.nodes(n, [r])[0]) for n, r in pairs], at, identity
    )
    names = {
        int(small.nodes(n, [visible[n].index(r)])[0]): int(whole.nodes(n, [r])[0]) for n, r in pairs
    }
    assert [names[int(n)] for n in before.node] == after.node.tolist()
    assert before.hop.tolist() == after.hop.tolist()
    assert before.age.tolist() == after.age.tolist()
    assert before.edge_source.tolist() == after.edge_source.tolist()
    assert before.edge_target.tolist() == after.edge_target.tolist()
    assert before.edge_relation.tolist() == after.edge_relation.tolist()


def only_rows(plain: Plain, visible: dict[str, list[int]]) -> Plain:
    """A graph of some rows alone, numbered anew; keys to other rows are empty."""
    times = {
        name: len(visible[name]) if isinstance(value, int) else [value[i] for i in visible[name]]
        for name, value in plain[0].items()
    }
    keys = []
    for child, column, parent, rows in plain[1]:
        numbers = {row: number for number, row in enumerate(visible[parent])}
        keys.append((child, column, parent, [numbers.get(rows[i]) for i in visible[child]]))
    return times, keys


def visible_rows(times: Any, cut: int) -> list[int]:
    return (
        list(range(times))
        if isinstance(times, int)
        else [i for i in range(size(times)) if times[i] is not None and times[i] <= cut]
    )


def hash_of(name: str, row: int) -> int:
    return ord(name) * 1_000 + row


@many
@given(
    plain=plain_graphs(),
    budget=st.integers(1, 20),
    threads=st.integers(2, 5),
    strategy=st.sampled_from(["bfs", "random", "recent", "full"]),
)
def test_deterministic_and_independent_of_threads_and_partners(
    plain: Plain, budget: int, threads: int, strategy: str, make_graph: Make
) -> None:
    graph = make_graph(plain)
    nodes, times, once = sampled(graph, budget=budget, strategy=strategy, order="random", seed=7)
    assume(nodes)
    sampler = Sampler(
        graph, SamplingConfig(budget=budget, strategy=strategy, order="random", seed=7)
    )  # type: ignore[arg-type]
    # or so few seeds would neither be shared nor joined
    with patch("gelgt.sampling.sampler.CHUNK", 2):
        again = sampler.sample(nodes, times, threads=threads)
    for name in once._fields:
        np.testing.assert_array_equal(getattr(once, name), getattr(again, name))
    middle = len(nodes) // 2
    alone = sampler.sample(nodes[middle : middle + 1], times[middle : middle + 1])
    assert subgraph_of(alone, 0) == subgraph_of(once, middle)


@many
@given(plain=plain_graphs())
def test_inclusive_sees_the_seed_time_itself(plain: Plain, make_graph: Make) -> None:
    graph = make_graph(plain)
    nodes, times = seeds_of(graph)
    inclusive = Sampler(graph, SamplingConfig(causality="inclusive")).sample(nodes, times)
    strict = Sampler(graph, SamplingConfig()).sample(nodes, [t + 1 for t in times])
    np.testing.assert_array_equal(inclusive.node, strict.node)
