"""③ Semantic refinement: which M of the K sampled rows stay (paper, section 3.1 stage 2;
docs/model.md).

Score of a row: h_seed · h_row. The seed stays; first-hop rows come before all others, in the
sampler's order, and if they alone are more than M - 1 the first M - 1 of them stay; the remaining
places go to the best rows of hop ≥ 2, ties in the sampler's order. Kept rows keep their order. Rows
are packed, so there is no padding that could survive.
"""

import torch
from torch import Tensor


def semantic_scores(h: Tensor, offsets: Tensor, batch: Tensor) -> Tensor:
    """h_seed · h_row for every row: (T, d) → (T,)."""
    return (h * h[offsets[:-1]][batch]).sum(1)


def refine(scores: Tensor, hop: Tensor, offsets: Tensor, batch: Tensor, keep: int) -> Tensor:
    """Which rows stay: (T,) → (T,) of booleans.

    Args:
        scores: (T,) semantic scores.
        hop: (T,) distance from the seed.
        offsets: (B + 1,) first row of each subgraph; that row is the seed.
        batch: (T,) subgraph of each row.
        keep: M, the seed included.
    """
    group = hop.clamp(max=2)  # 0 the seed, 1 the first hop, 2 the rest
    by_score = _ordered(torch.where(group == 2, -scores.float(), 0.0))
    # by subgraph, group, score, place
    order = torch.argsort(((3 * batch.long() + group) << 32) + by_score, stable=True)
    rank = torch.empty_like(order)
    rank[order] = torch.arange(len(order), device=order.device) - offsets[batch[order]]
    return rank < keep


def _ordered(values: Tensor) -> Tensor:
    """Whole numbers below 2^32 in the order of floats: (T,) float32 → (T,) int64."""
    bits = (values + 0.0).view(torch.int32).long()  # + 0.0 makes 0 of -0
    return torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits) + 0x80000000


def restrict(is_kept: Tensor, offsets: Tensor, edge_index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Offsets and edges of the subgraphs that keep only some rows.

    Args:
        is_kept: (T,) which rows stay.
        edge_index: (2, E) among all rows.

    Returns:
        (B + 1,) offsets, (2, E') edges with both ends kept in the new numbering, and (E,) which
        edges those are.
    """
    # rows kept before each row
    before = torch.cat(
        [
            torch.zeros(1, dtype=torch.int64, device=is_kept.device),
            is_kept.to(torch.int64).cumsum(0),
        ]
    )
    inside = is_kept[edge_index[0]] & is_kept[edge_index[1]]
    return before[offsets], before[edge_index[:, inside]], inside
