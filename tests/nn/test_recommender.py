"""The recommender: every destination has a score, candidates have more."""

import pytest
import torch

from gelgt.nn.encoders import TableColumns
from gelgt.nn.recommender import PairInput, Recommender, with_added
from tiny_database import Tiny

WIDTH, PAIRS = 16, 5


@pytest.fixture
def columns(tiny: Tiny) -> TableColumns:
    features = tiny.db.features(fit_until=None)
    frame = features.frame("products", [])
    return TableColumns(features.col_stats("products"), frame.col_names_dict)


@pytest.fixture
def made(columns: TableColumns) -> Recommender:
    torch.manual_seed(0)
    made = Recommender(WIDTH, PAIRS, 4, columns)
    made.start(torch.randn(100, PAIRS), torch.tensor([10, 20, 30, 40]))
    torch.nn.init.normal_(made.local[-1].weight)
    return made.eval()


def test_candidates_get_their_local_score_on_top(made: Recommender, tiny: Tiny) -> None:
    frame = tiny.db.features(fit_until=None).frame("products", range(9))
    items = made.vectors(frame, torch.full((9,), -1))
    seeds = torch.randn(2, WIDTH)
    row = torch.tensor([[3, 0, -1], [8, -1, -1]])
    values = torch.randn(2, 3, PAIRS)
    values[0, 1, 2] = torch.nan
    pairs = PairInput(row, made.normal(values))
    everywhere = made.everywhere(seeds, items)
    expected = everywhere.clone()
    for seed, place in ((0, 0), (0, 1), (1, 0)):
        item = items[row[seed, place]]
        one = made.candidates(
            seeds[seed][None], item[None, None], pairs.columns[seed, place][None, None]
        )
        expected[seed, row[seed, place]] += one[0, 0]
    scores = made.scores(seeds, items, pairs)
    torch.testing.assert_close(scores, expected)
    # in chunks, each gets what belongs to it
    added = made.candidates(seeds, items[row.clamp(min=0)], pairs.columns)
    chunks = [with_added(everywhere[:, a : a + 4], row, added, a) for a in (0, 4, 8)]
    torch.testing.assert_close(torch.cat(chunks, 1), expected)


def test_rows_that_training_never_saw_have_vectors_by_their_columns(
    made: Recommender, tiny: Tiny
) -> None:
    frame = tiny.db.features(fit_until=None).frame("products", range(3))
    places = made.places(torch.tensor([20, 25, 40]))
    assert places.tolist() == [1, -1, 3]
    vectors = made.vectors(frame, places)
    plain = made.vectors(frame, torch.full((3,), -1))
    torch.testing.assert_close(vectors[1], plain[1])
    torch.testing.assert_close(vectors[0], plain[0] + made.lookup[1])
    assert not torch.equal(plain[0], plain[1])


def test_it_starts_with_silent_candidates_and_quiet_lookups(columns: TableColumns) -> None:
    fresh = Recommender(WIDTH, PAIRS, 4, columns).eval()
    fresh.start(torch.randn(100, PAIRS), torch.arange(4))
    added = fresh.candidates(
        torch.randn(2, WIDTH), torch.randn(2, 3, WIDTH), torch.randn(2, 3, PAIRS)
    )
    assert not added.any()
    assert fresh.lookup.abs().max() < 0.1


def test_its_shape_is_read_from_its_weights(made: Recommender, columns: TableColumns) -> None:
    weights = {f"x.{name}": tensor for name, tensor in made.state_dict().items()}
    again = Recommender.shaped(weights, "x.", columns)
    assert again is not None
    again.load_state_dict(made.state_dict())
    assert Recommender.shaped({}, "x.", columns) is None
