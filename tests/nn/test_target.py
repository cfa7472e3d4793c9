"""From outputs to predictions: a row gets the same bits beside any others."""

import numpy as np
import pytest
import torch

from gelgt.nn.target import Target
from gelgt.tasks.label_space import LabelSpace


@pytest.mark.parametrize(
    ("task_type", "width"),
    [
        ("binary_classification", 1),
        ("multilabel_classification", 3),
        ("multiclass_classification", 5),
        ("regression", 1),
    ],
)
def test_a_row_is_decoded_to_the_same_bits_beside_any_others(task_type: str, width: int) -> None:
    labels = tuple(range(width)) if width > 1 else ()
    target = Target(LabelSpace(task_type, labels), low=-1e9, high=1e9)
    outputs = torch.randn(5_003, width, generator=torch.Generator().manual_seed(0)) * 4
    whole = target.decode(outputs)
    assert np.isfinite(whole).all()
    for start, stop in ((0, n) for n in range(1, 80)):
        np.testing.assert_array_equal(target.decode(outputs[start:stop]), whole[start:stop])
    for start in range(1, 400, 7):
        np.testing.assert_array_equal(target.decode(outputs[start:]), whole[start:])


def test_probabilities_at_the_ends() -> None:
    target = Target(LabelSpace("binary_classification", ()))
    found = target.decode(torch.tensor([[-1e4], [-30.0], [0.0], [30.0], [1e4]]))
    expected = [0, np.exp(-30) / (1 + np.exp(-30)), 0.5, 1 / (1 + np.exp(-30)), 1]
    np.testing.assert_allclose(found, expected, rtol=1e-15)
