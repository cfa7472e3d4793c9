"""Charts: well-formed, inside their frame, with ticks that people like, whatever the values."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from gelgt.report.charts import WIDTH, Plot, shares
from gelgt.report.curves import POINTS, deciles, precision_recall, robust_range, roc
from gelgt.report.scales import ages, linear, named, whole

RANGES = [
    (0, 1),
    (0.5, 0.5),
    (0, 0),
    (-3e9, 7e11),
    (1e-9, 3e-9),
    (-5, 5),
    (float("nan"), 1),
    (99.5, 100.2),
]


@pytest.mark.parametrize(("low", "high"), RANGES)
def test_ticks_are_few_distinct_and_ascending(low: float, high: float) -> None:
    for scale in (linear(low, high, ""), linear(low, high, "", is_exact=True)):
        values, labels = [v for v, _ in scale.ticks], [text for _, text in scale.ticks]
        assert values == sorted(values)
        assert 2 <= len(set(labels)) == len(labels) <= 9
        assert scale.low < scale.high


@pytest.mark.parametrize(("first", "last"), [(1, 1), (1, 2), (1, 7), (0, 12), (1, 300), (5, 1000)])
def test_epochs_are_whole(first: int, last: int) -> None:
    ticks = whole(first, last, "epoch").ticks
    assert all(v == int(v) and first <= v <= last for v, _ in ticks)
    assert 1 <= len(ticks) <= 9


def test_age_axis_is_logarithmic_only_where_kernels_crowd() -> None:
    days = list(range(731))
    assert ages(days, [1.0, 7.0, 30.0, 400.0], "age").is_log
    assert not ages(days, [200.0, 300.0, 400.0], "age").is_log
    assert not ages([0, 5, 10], [0.1, 0.2], "age").is_log
    assert ages([0, 1e-3], [], "age").high == pytest.approx(1e-3)


def test_names_that_do_not_fit_are_skipped() -> None:
    assert [text for _, text in named(["2024-01-01"] * 3, "", 44).ticks] == ["2024-01-01"] * 3
    assert len(named([f"2024-01-{d:02}" for d in range(1, 13)], "", 44).ticks) == 3


def test_nothing_leaves_the_frame_and_text_is_escaped() -> None:
    plot = Plot(linear(0, 1, "<x>"), linear(0, 1, "y & z"), 'a "title"')
    plot.line([0, 0.5, 1, 1.5], [0.2, None, 7.0, float("nan")], name="<b>")
    plot.dots([-4, 0.5], [0.5, 0.5], names=["<i>", "&"])
    plot.bars([(0, 0.5), (0.5, 1)], [0.3, 9.0])
    plot.spans([0.3], [(-1, 2)])
    plot.across([0.5], [(-1, 2)], [1])
    plot.rug([0.1, 5], ["here", "outside"])
    plot.upright(0.5)
    root = ElementTree.fromstring(plot.svg())
    texts = [e.text for e in root.iter("text")]
    assert "<x>" in texts
    assert "y & z" in texts
    for circle in root.iter("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= WIDTH
        assert 0 <= float(circle.attrib["cy"]) <= plot.height
    assert "outside" not in plot.svg()


def test_long_names_are_cut_and_kept_as_hover() -> None:
    name = "warehouse_" * 12
    root = ElementTree.fromstring(shares("shares", [(name, 0.7, 0.1), ("b", 0.3, None)]))
    assert root.find(".//title") is not None
    assert root.find(".//title").text == name  # type: ignore[union-attr]
    assert max(len("".join(e.itertext()).replace(name, "")) for e in root.iter("text")) <= 40
    widths = [float(e.attrib["width"]) for e in root.iter("rect")]
    assert widths == [
        WIDTH,
        pytest.approx(WIDTH / 7, abs=0.1),
        pytest.approx(WIDTH * 3 / 7, abs=0.1),
    ]


def test_curves_keep_their_area_when_thinned() -> None:
    generator = np.random.default_rng(0)
    label = (generator.random(20_000) < 0.3).astype(float)
    score = generator.normal(size=20_000) + label
    xs, ys = roc(label, score)
    assert len(xs) <= POINTS + 2
    assert (xs[0], ys[0], xs[-1], ys[-1]) == (0, 0, 1, 1)
    from sklearn.metrics import roc_auc_score

    assert np.trapezoid(ys, xs) == pytest.approx(roc_auc_score(label, score), abs=2e-3)
    recall, precision = precision_recall(label, score)
    assert recall[-1] == 1
    assert precision[-1] == pytest.approx(label.mean())


def test_deciles_keep_ties_together() -> None:
    groups = deciles(np.array([0.0] * 50 + list(range(1, 51))))
    assert sum(len(g) for g in groups) == 100
    assert len(groups[0]) == 50
    assert len(deciles(np.zeros(7))) == 1
    assert len(deciles(np.array([1.0, 2.0]))) == 2


def test_one_far_value_does_not_squeeze_the_others() -> None:
    values = np.r_[np.linspace(0, 1, 1000), 1e6]
    assert robust_range(values)[1] < 2
    assert robust_range(np.linspace(0, 1, 1000)) == (0, 1)


def test_coordinates_are_short() -> None:
    plot = Plot(linear(0, 1, "x"), linear(0, 1, "y"), "t")
    plot.line([1 / 3, 2 / 3], [1 / 3, 2 / 3])
    assert not re.search(r"\d\.\d\d", plot.svg().split("</text>")[-1])
