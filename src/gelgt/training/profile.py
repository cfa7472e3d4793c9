"""`profile.json`: what a trained model attends to, for its report.

bias        kernels as durations, and each head's bias against the age in days
attention   the seeds' attention by table and by hop, beside the share of the rows themselves
fusion      the share of the attention branch
"""

from typing import Any

import numpy as np
import torch

from gelgt.nn import GelGTModel, RelationalModel
from gelgt.nn.ensemble import Ensemble, first_of
from gelgt.training.data import TrainingData

SEEDS = 512
POINTS = 240


def profile(
    trained: RelationalModel | Ensemble, data: TrainingData, device: torch.device | str
) -> dict[str, Any]:
    """The profile of a model, or of the first of several, from validation seeds (training seeds
    where there are none)."""
    model = first_of(trained)
    found: dict[str, Any] = {
        "bias": bias_curves(
            model, float(np.quantile(data.ages().numpy(), 0.99)) if len(data.ages()) else 1.0
        )
    }
    if not isinstance(model, GelGTModel):
        return found
    if model.blocks:
        found["attention"] = attention_shares(model, data, device)
    if model.balance is not None:
        found["fusion"] = float(torch.sigmoid(model.balance.detach()))
    return found


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


@torch.no_grad()
def attention_shares(
    model: GelGTModel, data: TrainingData, device: torch.device | str
) -> dict[str, Any]:
    """Where the seeds' attention goes, and where the rows are."""
    model.eval()
    seeds = data.seeds["val"] if len(data.seeds["val"]) else data.seeds["train"]
    seeds = seeds.take(np.flatnonzero(data.exists(seeds)))
    seeds = seeds.take(np.linspace(0, len(seeds) - 1, min(len(seeds), SEEDS)).astype(np.int64))
    tables = np.zeros((2, len(data.graph.tables)))
    hops = np.zeros((2, data.sampling.hops + 2))
    for inputs in data.loader(seeds, 128):
        tokens, share = model.seed_attention(inputs.to(device))
        weight, table, hop = (
            share.cpu().numpy(),
            tokens.table.cpu().numpy(),
            tokens.hop.cpu().numpy(),
        )
        for place, values in enumerate((weight, np.ones_like(weight))):
            tables[place] += np.bincount(table, values, minlength=tables.shape[1])
            hops[place] += np.bincount(hop, values, minlength=hops.shape[1])
    tables, hops = tables / tables.sum(1, keepdims=True), hops / hops.sum(1, keepdims=True)

    def by_table(shares: np.ndarray[Any, Any]) -> dict[str, float]:
        return {name: round(float(s), 5) for name, s in zip(data.graph.tables, shares)}

    def by_hop(shares: np.ndarray[Any, Any]) -> dict[str, float]:
        return {str(h): round(float(s), 5) for h, s in enumerate(shares) if hops[1, h] > 0}

    return {
        "seeds": len(seeds),
        "by_table": by_table(tables[0]),
        "by_hop": by_hop(hops[0]),
        "rows_by_table": by_table(tables[1]),
        "rows_by_hop": by_hop(hops[1]),
    }
