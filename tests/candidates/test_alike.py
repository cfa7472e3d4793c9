"""What destinations share with those that an entity has had, beside a plain count."""

import numpy as np
from numpy.typing import NDArray

from gelgt.candidates.alike import Attribute, alike
from gelgt.candidates.find import Candidates
from gelgt.demo import Shop
from gelgt.graph import TIMELESS

SIZE, SEEDS, MOST = 30, 20, 12
LIMIT = 100  # two of the values cannot be seen yet


def drawn(generator: np.random.Generator) -> tuple[Attribute, Candidates]:
    """Destinations with none to three values, and candidates of which some were had."""
    lengths = generator.integers(0, 4, SIZE)
    start = np.concatenate([[0], np.cumsum(lengths)])
    values = generator.integers(-1, 5, start[-1])
    row = np.stack([generator.permutation(SIZE)[:MOST] for _ in range(SEEDS)])
    row[generator.random(row.shape) < 0.2] = -1
    count = generator.integers(0, 3, (SEEDS, MOST, 2)).astype(np.int32)
    count[0] = 0
    newest = np.full(count.shape, TIMELESS)
    times = np.array([TIMELESS, 0, 50, 100, 150])
    return Attribute("a", start, values, times), Candidates(
        row, count, newest, np.zeros(SEEDS, np.int64)
    )


def counted(attribute: Attribute, candidates: Candidates) -> NDArray[np.float64]:
    """The share, written down plainly; the first path alone is a link."""

    def values(row: int) -> list[int]:
        of_row = attribute.values[attribute.start[row] : attribute.start[row + 1]]
        return [value for value in of_row.tolist() if value >= 0 and attribute.times[value] < LIMIT]

    out = np.full(candidates.row.shape, np.nan)
    for seed, rows in enumerate(candidates.row.tolist()):
        had = [
            (row, int(candidates.count[seed, place, 0]))
            for place, row in enumerate(rows)
            if row >= 0
        ]
        total = sum(often for _, often in had)
        for place, row in enumerate(rows):
            if row < 0 or not total or not values(row):
                continue
            often = [
                sum(times * values(other).count(value) for other, times in had)
                for value in values(row)
            ]
            out[seed, place] = np.mean(often) / total
    return out


def test_shares_are_those_of_a_plain_count() -> None:
    attribute, candidates = drawn(np.random.default_rng(0))
    columns = alike(attribute, candidates, [0], np.full(SEEDS, LIMIT))
    expected = counted(attribute, candidates)
    assert np.isfinite(expected).sum() > 50
    np.testing.assert_allclose(columns[..., 0], expected, rtol=1e-6)
    total = np.where(candidates.row >= 0, candidates.count[..., 0], 0).sum(1, keepdims=True)
    np.testing.assert_allclose(columns[..., 1], np.log1p(expected * total), rtol=1e-5)
    assert np.isnan(columns[0]).all()  # nothing was had


def test_keys_and_categories_of_the_shop(small_shop: Shop) -> None:
    import gelgt
    from gelgt.presets import RunConfig
    from gelgt.training.recommend import RecommendData
    from gelgt.training.regime import in_regime

    db = gelgt.open(small_shop.url)
    task = db.task(
        small_shop.list_sentence, val=small_shop.val_timestamp, test=small_shop.test_timestamp
    )
    config = in_regime(RunConfig.of("cpu", task.task_type, {}), task, "seed-time", None)
    reader = RecommendData.of(db, task, config).destinations.reader
    assert reader.attributes[0].name == "category_id"
    assert "is_refurbished" in [each.name for each in reader.attributes]
    products = db.read("products").to_pandas()
    category = reader.attributes[0]
    known = products["category_id"].to_numpy()
    for number in range(len(category.times)):
        assert len(np.unique(known[category.values == number])) == 1
    assert len(category.times) == len(np.unique(known))
    assert any(name == "same category_id: share" for name in reader.tie_names)
