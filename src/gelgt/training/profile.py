"""`profile.json`: what a trained model attends to, for its report.

bias        kernels as durations, and each head's bias against the age in days
attention   the seeds' attention by table and by hop, beside the share of the rows themselves
fusion      the share of the attention branch
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gelgt.nn import RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.scoring import Scorer
from gelgt.training.data import TrainingData

SEEDS = 512
POINTS = 240


def profile(trained: Ensemble, data: TrainingData, device: torch.device | str) -> dict[str, Any]:
    """The profile of the first network, from validation seeds (training seeds where there are
    none)."""
    model, ages = trained.first, data.ages().numpy()
    longest = float(np.quantile(ages, 0.99)) if len(ages) else 1.0
    shown: dict[str, Any] = {"bias": bias_curves(model, longest)}
    if model.shows_attention:
        shown["attention"] = attention_shares(Scorer(model, data, device))
    if model.fusion_share is not None:
        shown["fusion"] = model.fusion_share
    return shown


@torch.no_grad()
def bias_curves(model: RelationalModel, longest: float) -> list[dict[str, Any]]:
    """Each set of kernels, and the bias of each head at ages up to `longest` days, closer together
    near the seed."""
    first = next(model.parameters())
    days = torch.linspace(0, 1, POINTS, dtype=torch.float64).square() * max(longest, 1.0)
    kernels = iter(model.temporal_profile())
    curves = []
    for number, bias in enumerate(model.time_biases()):
        scores = bias.scores(days.to(first)[None, None])[0, :, 0]  # (H, points)
        curves.append(
            {
                "layer": "all" if len(model.biases) == 1 else number,
                "kernels": next(kernels, []),
                "days": [round(float(d), 4) for d in days],
                "heads": [[round(float(v), 5) for v in head] for head in scores],
            }
        )
    return curves


def attention_shares(scorer: Scorer) -> dict[str, Any]:
    """Where the seeds' attention goes, and where the rows are."""
    data = scorer.data
    assert isinstance(data, TrainingData)
    seeds = data.seeds["val"] if len(data.seeds["val"]) else data.seeds["train"]
    seeds = seeds.take(np.flatnonzero(data.exists(seeds)))
    seeds = seeds.take(np.linspace(0, len(seeds) - 1, min(len(seeds), SEEDS)).astype(np.int64))
    tables = np.zeros((2, len(data.graph.tables)))
    hops = np.zeros((2, data.sampling.hops + 2))
    for tokens, share in scorer.attention(seeds):
        weight, table = share.cpu().numpy(), tokens.table.cpu().numpy()
        hop = tokens.hop.cpu().numpy()
        for place, values in enumerate((weight, np.ones_like(weight))):
            tables[place] += np.bincount(table, values, minlength=tables.shape[1])
            hops[place] += np.bincount(hop, values, minlength=hops.shape[1])
    tables, hops = tables / tables.sum(1, keepdims=True), hops / hops.sum(1, keepdims=True)

    def by_table(shares: NDArray[np.float64]) -> dict[str, float]:
        return {name: round(float(s), 5) for name, s in zip(data.graph.tables, shares)}

    def by_hop(shares: NDArray[np.float64]) -> dict[str, float]:
        return {str(h): round(float(s), 5) for h, s in enumerate(shares) if hops[1, h] > 0}

    return {
        "seeds": len(seeds),
        "by_table": by_table(tables[0]),
        "by_hop": by_hop(hops[0]),
        "rows_by_table": by_table(tables[1]),
        "rows_by_hop": by_hop(hops[1]),
    }
