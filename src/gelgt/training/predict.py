"""`predict_seeds`: predictions of a model in memory, for validation and scoring, as fast as the
device allows."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gelgt.config import TrainConfig
from gelgt.nn import GelGTModel, ModelInput, RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.sampling import Seeds
from gelgt.training.data import TrainingData
from gelgt.training.graphed import predictions_of
from gelgt.training.lanes import Lanes

LANES = 2  # batches side by side on a CPU
EVAL_BATCH = 256  # seeds that are scored at a time, at least


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[Any]:
    """bf16 where the configuration wants it."""
    if config.precision == "bfloat16" or (config.precision == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def predict_seeds(
    model: RelationalModel | Ensemble,
    data: TrainingData,
    seeds: Seeds,
    config: TrainConfig,
    device: torch.device | str,
    batch_size: int = 0,
    is_graphed: bool = True,
) -> NDArray[np.float64]:
    """Probabilities or values of seeds, in their order; the base rate for entities that do not
    exist yet."""
    there = data.exists(seeds)
    found: NDArray[np.float64] = data.target.decode(torch.tensor([data.target.start])).repeat(
        len(seeds), axis=0
    )
    if there.any():
        some = seeds.take(np.flatnonzero(there))
        found[there] = data.target.decode(
            raw_outputs(model, data, some, config, device, batch_size, is_graphed)
        )
    return found


def raw_outputs(
    model: RelationalModel | Ensemble,
    data: TrainingData,
    seeds: Seeds,
    config: TrainConfig,
    device: torch.device | str,
    batch_size: int = 0,
    is_graphed: bool = True,
) -> Tensor:
    """(S, outputs) logits or standardised values of seeds that exist, on the CPU."""
    model.eval()
    device = torch.device(device)

    @torch.inference_mode()
    def raw(inputs: ModelInput) -> Tensor:
        with autocast(config, device):
            out: Tensor = model(inputs.to(device))
        return out.float().cpu()

    size = batch_size or max(EVAL_BATCH, config.batch_size)
    replays = None
    if is_graphed and isinstance(model, GelGTModel):
        replays = predictions_of(
            model, data, lambda: autocast(config, device), device, -(-len(seeds) // size)
        )
    if replays is not None:
        return replays.raw(seeds, size, raw).cpu()
    with Lanes(LANES if device.type == "cpu" else 1) as lanes:
        return torch.cat(list(lanes.map(raw, data.loader(seeds, size))))
