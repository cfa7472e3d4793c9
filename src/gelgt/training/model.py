"""A fresh network of a run, and the configuration of one of several."""

import torch

from gelgt.history.seed_history import for_fitting
from gelgt.nn import RelationalModel
from gelgt.presets import RunConfig
from gelgt.scoring.load import new_model
from gelgt.training.data import TrainingData
from gelgt.training.examples import learnable


def member_config(config: RunConfig, number: int, limit: float | None) -> RunConfig:
    """The configuration of one of several networks: a seed of its own, and its part of the time."""
    return config.with_values(
        "derived",
        train__seed=(config.train.seed + 1_000_003 * number) % 2**31,
        train__time_limit=None if limit is None else max(limit, 1e-3),
    )


def make_model(
    data: TrainingData, config: RunConfig, reads_history: bool = True
) -> RelationalModel:
    """A fresh model: weights from the seed, μ and σ from the training ages, the head from the base
    rates. Where a columns network reads the history, the model does not."""
    # Quantiles are those of the split's own seeds; only among stale copies do lags differ.
    seeds = (
        learnable(data, ("train",), config.train)[0]
        if data.plan.has_calendar
        else data.seeds["train"]
    )
    history = data.history(seeds) if reads_history else None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.train.seed)
        model = new_model(config, data, 0 if history is None else history.shape[1])
        data.add_recommender(model, config)
    model.start(
        torch.tensor(data.target.start),
        data.ages(),
        None if history is None else for_fitting(history, seeds, data.plan),
    )
    return model
