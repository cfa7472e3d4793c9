"""The columns network: members that differ, rows that do not depend on each other, weights that
tell its shape."""

import torch
from torch import Tensor

from gelgt.nn.columns import PREFIX, ROWS, ColumnsNetwork


def network(values: Tensor, outputs: int = 1, members: int = 3) -> ColumnsNetwork:
    torch.manual_seed(0)
    made = ColumnsNetwork(values.shape[1], outputs, members)
    made.start(values, torch.full((outputs,), 0.5))
    return made


def some_values(rows: int = 300, columns: int = 5) -> Tensor:
    values = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
    values[::7, 1] = torch.nan
    values[:, 3] = 2.0  # never differs
    return values


def test_a_row_gets_the_same_bits_beside_any_others() -> None:
    values = some_values()
    made = network(values, outputs=2)
    whole = made.outputs(values)
    assert whole.shape == (300, 2)
    for rows in (slice(0, 1), slice(100, 103), slice(ROWS - 1, ROWS + 1), slice(17, 290)):
        assert torch.equal(made.outputs(values[rows]), whole[rows])
    assert made.outputs(values[:0]).shape == (0, 2)


def test_members_differ_and_their_mean_predicts() -> None:
    values = some_values()
    made = network(values).eval()
    of_members = made.of_members(values[:10])
    assert of_members.shape == (3, 10, 1)
    assert (of_members.std(0) > 0).all()
    torch.testing.assert_close(made(values[:10]), of_members.mean(0))


def test_what_never_differed_says_nothing() -> None:
    values = some_values()
    made = network(values)
    other = values.clone()
    other[:, 3] = 1e6
    assert torch.equal(made.outputs(other), made.outputs(values))
    other[:, 0] = torch.nan
    assert not torch.equal(made.outputs(other), made.outputs(values))
    far = torch.full_like(values, 1e30)
    assert torch.isfinite(made.outputs(far)).all()


def test_weights_tell_the_shape() -> None:
    values = some_values()
    made = network(values, outputs=4, members=2)
    weights = {f"{PREFIX}{name}": tensor for name, tensor in made.state_dict().items()}
    again = ColumnsNetwork.shaped(weights)
    assert again is not None
    again.load_state_dict(made.state_dict())
    assert torch.equal(again.outputs(values), made.outputs(values))
    assert ColumnsNetwork.shaped({}) is None
