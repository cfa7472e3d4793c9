"""Refinement against a slow reference written from its definition (docs/model.md)."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gelgt.nn.refinement import refine, restrict, semantic_scores

Subgraph = tuple[list[int], list[float]]  # hops and scores, the seed first
many = settings(max_examples=200, deadline=None)


@st.composite
def subgraphs(draw: st.DrawFn) -> list[Subgraph]:
    """Lengths from the seed alone; few distinct scores make ties; first-hop rows come first, as the
    sampler gives them, or anywhere."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.integers(0, 12))
        hops = draw(st.lists(st.integers(1, 3), min_size=rows, max_size=rows))
        if draw(st.booleans()):
            hops.sort()
        scores = draw(
            st.lists(
                st.sampled_from([-2.0, -0.5, 0.0, 0.5, 3.0]) | st.floats(-5, 5, width=32),
                min_size=rows + 1,
                max_size=rows + 1,
            )
        )
        found.append(([0, *hops], scores))
    return found


def slow_refine(hops: list[int], scores: list[float], keep: int) -> list[bool]:
    """The seed; then first-hop rows in order; then the others by falling score, earlier rows first
    among equals."""
    kept = [0]
    kept += [i for i, hop in enumerate(hops) if hop == 1][: keep - 1]
    far = [i for i, hop in enumerate(hops) if hop >= 2]
    while len(kept) < keep and far:
        best = far[0]
        for i in far:
            if scores[i] > scores[best]:
                best = i
        far.remove(best)
        kept.append(best)
    return [i in kept for i in range(len(hops))]


def packed(found: list[Subgraph]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([len(hops) for hops, _ in found])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    hop = torch.tensor([h for hops, _ in found for h in hops])
    scores = torch.tensor([s for _, values in found for s in values], dtype=torch.float32)
    return scores, hop, offsets, torch.repeat_interleave(torch.arange(len(found)), lengths)


@many
@given(found=subgraphs(), keep=st.integers(1, 14))
def test_refinement_follows_its_definition(found: list[Subgraph], keep: int) -> None:
    scores, hop, offsets, batch = packed(found)
    expected = [kept for hops, values in found for kept in slow_refine(hops, values, keep)]
    assert refine(scores, hop, offsets, batch, keep).tolist() == expected


def test_more_first_hop_rows_than_places() -> None:
    """The first M - 1 in the sampler's order stay, whatever their scores, and nothing of the second
    hop."""
    hop = torch.tensor([0] + [1] * 6 + [2] * 3)
    scores = torch.tensor([1.0, -9, -8, 7, 6, 5, 4, 99, 98, 97])
    one = torch.zeros(10, dtype=torch.int64)
    assert refine(scores, hop, torch.tensor([0, 10]), one, 4).tolist() == [True] * 4 + [False] * 6
    assert refine(scores, hop, torch.tensor([0, 10]), one, 8).tolist() == [True] * 8 + [False] * 2
    assert refine(scores, hop, torch.tensor([0, 10]), one, 1).tolist() == [True] + [False] * 9, (
        "the seed alone"
    )
    assert refine(scores, hop, torch.tensor([0, 10]), one, 99).all()


@many
@given(found=subgraphs(), keep=st.integers(1, 14))
def test_refinement_of_a_subgraph_does_not_depend_on_its_partners(
    found: list[Subgraph], keep: int
) -> None:
    scores, hop, offsets, batch = packed(found)
    together = refine(scores, hop, offsets, batch, keep)
    for b, subgraph in enumerate(found):
        scores, hop, alone, batch = packed([subgraph])
        assert (
            refine(scores, hop, alone, batch, keep).tolist()
            == together[offsets[b] : offsets[b + 1]].tolist()
        )


@many
@given(found=subgraphs(), data=st.data())
def test_restrict_keeps_edges_with_both_ends(found: list[Subgraph], data: st.DataObject) -> None:
    _, _, offsets, _ = packed(found)
    size = int(offsets[-1])
    kept = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    for seed in offsets[:-1].tolist():
        kept[seed] = True
    edges = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist()):
        edges += data.draw(
            st.lists(
                st.tuples(st.integers(start, stop - 1), st.integers(start, stop - 1)), max_size=10
            )
        )
    new_offsets, new_edges, _ = restrict(
        torch.tensor(kept), offsets, torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    )
    names = {old: new for new, old in enumerate(i for i in range(size) if kept[i])}
    assert new_edges.T.tolist() == [[names[a], names[b]] for a, b in edges if kept[a] and kept[b]]
    assert new_offsets.tolist() == [sum(kept[:start]) for start in offsets.tolist()]


def test_semantic_scores_are_dot_products_with_the_own_seed() -> None:
    h = torch.tensor([[1.0, 2], [3, 4], [0, -1], [5, 1]])
    assert semantic_scores(h, torch.tensor([0, 2, 4]), torch.tensor([0, 0, 1, 1])).tolist() == [
        5.0,
        11.0,
        1.0,
        -1.0,
    ]
