"""`gelgt bench budget`: how many neighbours count, by soft gating. An analysis only: no model is
trained with gates or predicts with them.

The paper counts "effective neighbours under adaptive soft-gating" and gives no formula. Here a
trained model scores every sampled row as its refinement does, h_seed · h_row / √d, and the sigmoid
of that score is the row's gate. First-hop rows, which refinement never drops, have gate 1. The sum
of the gates is the effective number of neighbours:

    effective(v) = #first hop + Σ_{hop ≥ 2} sigmoid(h_v · h_u / √d)        ≤ rows sampled

for growing budgets. If it stops growing before the rows do, the budget is enough; if it stops only
where the rows run out, the neighbourhoods are small and the budget has no effect. At the run's own
budget there is also the effective number of rows that attention spreads over, exp(entropy) of the
seed's attention.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from gelgt.errors import GelgtError
from gelgt.nn import GelGTModel, ModelInput
from gelgt.nn.layout import PackedTokens
from gelgt.nn.refinement import semantic_scores
from gelgt.runs.folder import Run
from gelgt.scoring.load import load_model
from gelgt.scoring.scorer import choose_device
from gelgt.sources import Database
from gelgt.tasks import Task
from gelgt.training.data import TrainingData

SIZES = (100, 200, 300, 500, 1000)
SEEDS = 512


def gates(scores: Tensor, hop: Tensor) -> Tensor:
    """(T,) the gate of each row: 1 in the first hop, the sigmoid of its score beyond it, 0 for the
    seed, which is not a neighbour.

    Example:
        >>> gates(torch.tensor([9.0, -9.0, 0.0]), torch.tensor([0, 1, 2])).tolist()
        [0.0, 1.0, 0.5]
    """
    soft = torch.where(hop == 1, 1.0, torch.sigmoid(scores.float()))
    return torch.where(hop == 0, 0.0, soft)


@torch.no_grad()
def effective_neighbours(
    run: Run, db: Database, task: Task, sizes: Sequence[int] = SIZES, device: str = "auto"
) -> list[dict[str, Any]]:
    """For each budget: rows sampled and effective neighbours, means over validation seeds.

    Raises:
        GelgtError: the run is of another model, which has no refinement.
    """
    if run.config.kind != "gelgt":
        raise GelgtError(
            "other_model",
            f"Soft gating needs a run of gelgt; {run.folder} holds one of {run.config.kind}.",
            hint="Train with --model gelgt.",
        )
    where = choose_device(device)
    trained = TrainingData.of(db, task, run.config, run.statistics)
    model = cast(GelGTModel, load_model(run, trained).first).to(where)
    budget = run.config.sampling.budget
    attended = {budget: {"attended": _attended(model, trained, where)}}
    entries = []
    for size in sorted({*sizes, budget}):
        # no fanout: only the budget cuts a neighbourhood
        wider = run.config.with_values("set", sampling__budget=size, sampling__fanout=None)
        data = TrainingData.of(db, task, wider, run.statistics)
        entries.append(_at_budget(model, data, size, where) | attended.get(size, {}))
    return entries


def _at_budget(
    model: GelGTModel, data: TrainingData, size: int, device: torch.device
) -> dict[str, Any]:
    sampled, first, effective, is_full = [], [], [], []
    for inputs in data.loader(_seeds(data), 64):
        tokens, scores = _scored(model, inputs.to(device))
        rows = (tokens.offsets[1:] - tokens.offsets[:-1]).cpu().numpy() - 1
        sums = torch.zeros(len(rows), device=device)
        sampled.append(rows)
        is_full.append(rows + 1 >= size)
        gate, is_first = gates(scores, tokens.hop), (tokens.hop == 1).float()
        effective.append(sums.index_add(0, tokens.subgraph, gate).cpu().numpy())
        first.append(sums.index_add(0, tokens.subgraph, is_first).cpu().numpy())
    return {
        "budget": size,
        "rows": _mean(sampled),
        "first hop": _mean(first),
        "effective": _mean(effective),
        "full": _mean(is_full, 3),
    }


def _scored(model: GelGTModel, inputs: ModelInput) -> tuple[PackedTokens, Tensor]:
    """The sampled rows of a batch, and the scores that refinement would sort them by, over √d."""
    tokens = model.sampled_tokens(inputs)
    assert isinstance(tokens, PackedTokens)
    scores = semantic_scores(tokens.h, tokens.offsets, tokens.subgraph)
    return tokens, scores / math.sqrt(tokens.h.shape[1])


def _attended(model: GelGTModel, data: TrainingData, device: torch.device) -> float | None:
    """exp(entropy) of the seeds' attention, at the run's own settings."""
    if not model.shows_attention:
        return None
    effective = []
    for inputs in data.loader(_seeds(data), 64):
        tokens, share = model.seed_attention(inputs.to(device))
        counts = tokens.offsets[1:] - tokens.offsets[:-1]
        owner = torch.repeat_interleave(torch.arange(len(counts), device=device), counts)
        entropy = torch.zeros(len(counts), device=device).index_add(
            0, owner, -torch.special.xlogy(share, share).float()
        )
        effective.append(entropy.exp().cpu().numpy())
    return _mean(effective)


def _seeds(data: TrainingData) -> Any:
    seeds = data.seeds["val"] if len(data.seeds["val"]) else data.seeds["train"]
    seeds = seeds.take(np.flatnonzero(data.exists(seeds)))
    return seeds.take(np.linspace(0, len(seeds) - 1, min(len(seeds), SEEDS)).astype(np.int64))


def _mean(parts: Sequence[Any], digits: int = 1) -> float:
    return round(float(np.concatenate(parts).mean()), digits)
