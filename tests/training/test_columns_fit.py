"""The training of one columns network."""

import numpy as np
import torch

from gelgt.nn.target import Target
from gelgt.tasks.label_space import LabelSpace
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
