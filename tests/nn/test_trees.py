"""Trees as tensors say what LightGBM says."""

from typing import Any

import lightgbm
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gelgt.nn.trees import Trees


def table(rows: int, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 6)).astype(np.float32)
    x[:, 3] = rng.integers(0, 4, rows)  # many rows share a value
    x[rng.random((rows, 6)) < 0.2] = np.nan
    x[:, 5] = 1.0  # never missing in training, and never of use
    x[:, 4] = np.nan_to_num(x[:, 4], nan=0.3)  # never missing in training
    return x


def grown(objective: str, labels: NDArray[Any], seed: int = 0, **more: Any) -> lightgbm.Booster:
    parameters = {
        "objective": objective,
        "num_leaves": 7,
        "verbosity": -1,
        "seed": seed,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        **more,
    }
    return lightgbm.train(
        parameters, lightgbm.Dataset(table(2000), labels, params={"verbosity": -1}), 30
    )


def truth(kind: str) -> NDArray[Any]:
    x = np.nan_to_num(table(2000), nan=0.5)
    score = x[:, 0] + 2 * (x[:, 1] > 0.3) - x[:, 3] + 0.5 * x[:, 4]
    return {
        "binary": (score > 0).astype(float),
        "l1": score,
        "multiclass": np.digitize(score, [-1.0, 1.0]).astype(float),
    }[kind]


@pytest.mark.parametrize("kind", ["binary", "l1", "multiclass"])
def test_they_predict_what_lightgbm_predicts(kind: str) -> None:
    classes = 3 if kind == "multiclass" else 1
    boosters = [
        grown(kind, truth(kind), seed, **({"num_class": 3} if classes > 1 else {}))
        for seed in (0, 1)
    ]
    x = table(500, seed=9)
    x[:50] = np.nan  # also where nothing was ever missing
    expected = np.mean([b.predict(x, raw_score=True) for b in boosters], axis=0).reshape(
        500, classes
    )
    found = Trees.of([b.dump_model() for b in boosters], classes)(torch.from_numpy(x))
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_a_tree_without_a_split_is_its_value() -> None:
    booster = grown("l1", np.full(2000, 4.0))
    found = Trees.of([booster.dump_model()], 1)(torch.zeros(3, 6))
    np.testing.assert_allclose(
        found.numpy(), booster.predict(np.zeros((3, 6)), raw_score=True).reshape(3, 1)
    )


def test_they_come_back_from_their_weights() -> None:
    made = Trees.of([grown("binary", truth("binary")).dump_model()], 1)
    weights = {f"trees.{name}": tensor for name, tensor in made.state_dict().items()}
    again = Trees.shaped(weights, 1)
    assert again is not None
    again.load_state_dict(made.state_dict())
    x = torch.from_numpy(table(100, seed=3))
    assert torch.equal(made(x), again(x))
    assert Trees.shaped({}, 1) is None


def test_many_rows_are_looked_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row needs a value for each node of each tree: all rows of a large validation set at once do
    not fit into memory."""
    columns = torch.from_numpy(table(500, seed=1))
    trees = Trees.of([grown("l1", truth("l1")).dump_model()], 1)
    at_once = trees(columns)
    monkeypatch.setattr("gelgt.nn.trees.AT_ONCE", 7 * trees.feature.numel())
    sizes: list[int] = []
    trees.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    assert torch.equal(trees(columns), at_once)
    assert max(sizes[1:]) == 7
