"""Models of a run: fresh ones to train, and trained ones from its folder."""

from functools import partial

import torch

from gelgt.config import SamplingConfig
from gelgt.errors import GelgtError
from gelgt.features import open_features
from gelgt.nn import ModelContext, RelationalModel
from gelgt.nn.ensemble import Ensemble
from gelgt.nn.recommender import Recommender
from gelgt.presets import RunConfig
from gelgt.registry import find_model
from gelgt.runs.folder import Run
from gelgt.scoring.destinations import Destinations
from gelgt.scoring.recommend import ALONE, Mix, RecommendScorer
from gelgt.scoring.scorer import Scorer
from gelgt.scoring.seed_data import SeedData, hidden_columns
from gelgt.sources.database import Database
from gelgt.tasks.task import Definition


def new_model(config: RunConfig, data: SeedData, history: int) -> RelationalModel:
    """A model of the run's kind, with weights from the current generator.

    Args:
        history: Columns of the history that seeds come with; 0 for none.
    """
    is_ranking = data.target.task_type == "recommendation"
    outputs = config.model.width if is_ranking else data.target.outputs
    context = ModelContext(
        data.graph, data.features, outputs, data.hide, config.sampling.seed, history
    )
    return find_model(config.kind)(config.model, context)


def load_model(run: Run, data: SeedData) -> Ensemble:
    """The trained networks and trees of a run.

    Raises:
        GelgtError: the weights are damaged, or do not fit.
    """
    # The weights that it starts from are thrown away; nobody's generator is moved by them.
    with torch.random.fork_rng(devices=[]):
        try:
            make = partial(_model_to_load, run, data)
            model = Ensemble.from_weights(run.weights(), make, run.target.outputs)
        except RuntimeError as error:
            first = str(error).strip().splitlines()[-1].strip()
            raise GelgtError(
                "bad_run",
                f"The weights of {run.folder} do not fit its model: {first}",
                hint="Train again.",
            ) from None
    return model.eval()


def _model_to_load(run: Run, data: SeedData, history: int) -> RelationalModel:
    """A model of the shape of a run's weights."""
    model = new_model(run.config, data, history)
    if data.target.task_type == "recommendation":
        columns = Destinations.of(data).columns
        model.recommender = Recommender.shaped(run.weights(), "members.0.recommender.", columns)
    return model


def run_data(run: Run, db: Database, task: Definition, sampling: SamplingConfig) -> SeedData:
    """What the model of a run reads in a database that may have changed since."""
    return SeedData(
        db=db,
        task=task,
        target=run.target,
        sampling=sampling,
        hide=hidden_columns(task, db, run.statistics, run.config.model),
        graph=db.graph(),
        features=open_features(db, statistics=run.statistics),
        plan=run.history_plan,
    )


def run_scorer(
    run: Run, data: SeedData, device: torch.device, batch_size: int | None = None
) -> Scorer | RecommendScorer:
    """A scorer with the trained model of a run."""
    model = load_model(run, data).to(device)
    precision = run.config.train.precision
    if data.target.task_type == "recommendation":
        history, ranking = run.record.history, run.record.ranking
        destinations = Destinations.of(data, () if history is None else tuple(history.read))
        share = run.record.tree_share
        mix = ALONE if ranking is None else Mix(share, ranking.prior, ranking.prior_weight)
        return RecommendScorer(
            model,
            destinations,
            device,
            mix=mix,
            precision=precision,
            batch_size=batch_size,
            is_final=True,
        )
    return Scorer(
        model,
        data,
        device,
        precision=precision,
        batch_size=batch_size,
        probabilities=run.record.probabilities,
    )
