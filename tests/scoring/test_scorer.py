"""The scorer: the same predictions in any batch, alone or together, recorded or not."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny import opened, small

from gelgt import Database, Task
from gelgt.nn.ensemble import Ensemble
from gelgt.scoring import Scorer
from gelgt.scoring import scorer as module
from gelgt.training.data import TrainingData
from gelgt.training.model import make_model
from gelgt.training.regime import in_regime
from gelgt.training.trees import grow_trees


@pytest.fixture(scope="module")
def data(db: Database, task: Task) -> TrainingData:
    return opened(db, task, in_regime(small(task.task_type), task))


@pytest.fixture(scope="module")
def ensemble(data: TrainingData, task: Task) -> Ensemble:
    """Two networks of different seeds, and trees with half of the prediction."""
    networks = [make_model(data, small(task.task_type, train__seed=seed)) for seed in (0, 1)]
    trees = grow_trees(data, small(task.task_type))
    assert trees is not None
    return Ensemble(networks, trees.trees, 0.5)


def test_networks_are_averaged_and_trees_take_their_share(
    data: TrainingData, ensemble: Ensemble
) -> None:
    seeds = data.seeds["test"]
    outputs = [Scorer(network, data).outputs(seeds) for network in ensemble.networks]
    assert not torch.equal(*outputs)
    columns = data.history(seeds)
    assert ensemble.trees is not None
    assert columns is not None
    network = torch.stack(outputs).mean(0)
    trees = ensemble.trees(columns).float()
    parts = Scorer(ensemble, data).predict(seeds)
    np.testing.assert_array_equal(parts.alone["network"], data.target.decode(network))
    np.testing.assert_array_equal(parts.alone["trees"], data.target.decode(trees))
    expected = data.target.decode(0.5 * network + 0.5 * trees)
    np.testing.assert_array_equal(parts.together, expected)


def test_a_recorded_ensemble_predicts_the_same(data: TrainingData, ensemble: Ensemble) -> None:
    """On a CPU the records are plain calls, so that shapes and packing are tested everywhere."""
    seeds = data.seeds["test"]
    eager = Scorer(ensemble, data, batch_size=32, is_recorded=False)
    recorded = Scorer(ensemble, data, batch_size=32, is_recorded=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "why_not_recorded", lambda *_: None)
        for _ in range(2):
            torch.testing.assert_close(recorded.outputs(seeds), eager.outputs(seeds))
            torch.testing.assert_close(recorded.vectors(seeds), eager.vectors(seeds))
    assert recorded._recorded["outputs"].replay.programs
    assert recorded._recorded["vectors"].replay.programs
    assert not eager._recorded


def test_seeds_with_larger_neighbourhoods_get_room(
    data: TrainingData, ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shapes are made for the first seeds; later ones that do not fit are scored without a record,
    and have a shape of their own the next time."""
    monkeypatch.setattr(module, "why_not_recorded", lambda *_: None)
    seeds = data.seeds["test"]
    scorer = Scorer(ensemble, data, batch_size=32, is_recorded=True)
    scorer.outputs(seeds)
    packer = scorer._recorded["outputs"].packer
    assert packer is not None
    packer.shapes = [replace(packer.shapes[0], rows=40, refined=40, messages=64)]
    expected = Scorer(ensemble, data, batch_size=32, is_recorded=False).outputs(seeds)
    for _ in range(2):
        torch.testing.assert_close(scorer.outputs(seeds), expected)
    assert len(packer.shapes) == 2


def test_recording_waits_until_it_is_worth_it(
    data: TrainingData, ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "why_not_recorded", lambda *_: None)
    seeds = data.seeds["val"]
    monkeypatch.setattr(module, "FEW", 2 * len(seeds))
    scorer = Scorer(ensemble, data)
    scorer.outputs(seeds)
    assert not scorer._recorded
    scorer.outputs(seeds)
    assert scorer._recorded


def test_no_seeds(data: TrainingData, ensemble: Ensemble) -> None:
    none = data.seeds["test"].take(np.zeros(0, np.int64))
    scorer = Scorer(ensemble, data)
    assert scorer.predict(none).together.shape == (0,)
    assert scorer.vectors(none).shape == (0, ensemble.networks[0].config.width)
