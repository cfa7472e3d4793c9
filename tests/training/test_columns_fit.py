"""The training of one columns network."""

import numpy as np
import pytest
import torch

from gelgt.nn.target import Target
from gelgt.tasks.label_space import LabelSpace
from gelgt.training import columns_fit
from gelgt.training.columns_fit import SCORED, ColumnRows, ColumnsFit

CPU = torch.device("cpu")


def fitting(members: int = 3) -> ColumnsFit:
    return ColumnsFit(Target(LabelSpace("binary_classification")), CPU, 0, members)


def rows(count: int) -> ColumnRows:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(count, 2, generator=generator)
    return ColumnRows(values, (values[:, 0] > 0).float())


def test_all_members_learn() -> None:
    learned = rows(256)
    fit = fitting()
    before = fit._loss(fit.network(learned), learned)
    network = fit.fixed(learned, 60)
    network.requires_grad_(False)
    losses = [
        float(fit.target.loss(out, learned.labels)) for out in network.of_members(learned.values)
    ]
    assert max(losses) < before


def test_rows_that_are_scored_in_several_passes() -> None:
    many = rows(SCORED + 5)
    fit = fitting()
    network = fit.fixed(rows(64), 2)
    loss = fit.target.loss(network.outputs(many.values), many.labels)
    np.testing.assert_allclose(fit._loss(network, many), float(loss), rtol=1e-5)


def test_a_cpu_has_nothing_to_start() -> None:
    state = torch.get_rng_state()
    fitting().starter()()
    assert torch.equal(torch.get_rng_state(), state)


def test_many_rows_are_seen_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs of two steps each would end it before all rows were seen once."""
    monkeypatch.setattr(columns_fit, "EPOCH", 2)
    taken: list[int] = []
    fit = fitting(1)
    monkeypatch.setattr(fit, "_train", lambda network, rows, most, is_enough: taken.append(most))
    monkeypatch.setattr(fit, "_loss", lambda network, rows: 1.0)
    for count in (512, 2560, 5120):
        with pytest.raises(RuntimeError):  # nothing was trained, so there are no best weights
            fit.best(rows(count), rows(8), 4)
    assert taken == [8, 8, 20]
