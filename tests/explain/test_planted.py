"""The demo shop's planted truths, found in explanations of a model that is trained for minutes."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from gelgt import Explanation
from gelgt.demo.run import Demo
from gelgt.explain import Explainer
from gelgt.inference import Predictor
from gelgt.training import train_run

NOISE = {"page_pings", "visits", "support_tickets"}
TWO_HOPS = ("customers", "order_items", "products")
CUSTOMERS = 100


def last_order(shop: sqlite3.Connection, customer: int, at: str) -> tuple[int, dict[int, str]]:
    """The last order of a customer before a time, and its lines with their products."""
    (order,) = shop.execute(
        "SELECT id FROM orders WHERE customer_id = ? AND placed_at < ? "
        "ORDER BY placed_at DESC LIMIT 1",
        (customer, at),
    ).fetchone()
    lines = shop.execute("SELECT id, product_sku FROM order_items WHERE order_id = ?", (order,))
    return order, dict(lines.fetchall())


def finds_the_truths(why: Explanation, order: int, lines: dict[int, str]) -> bool:
    """Whether a row of the last order is among the three strongest rows of orders and lines, the
    quality of its products among the two strongest columns, and the way to products among the three
    strongest paths."""
    rows: dict[tuple[str, object], float] = {}
    for effect in why.effects:
        if effect.key is not None and effect.table in ("orders", "order_items"):
            key = (effect.table, effect.key)
            rows[key] = rows.get(key, 0.0) + effect.effect
    strongest = sorted(rows, key=lambda key: -abs(rows[key]))[:3]
    is_last = any(
        key == ("orders", order) or (key[0] == "order_items" and key[1] in lines)
        for key in strongest
    )
    columns = [e for e in why.effects if e.kind == "column" and len(e.path) > 1][:2]
    has_quality = any(e.column == "quality" and e.key in lines.values() for e in columns)
    return is_last and has_quality and TWO_HOPS in [effect.path for effect in why.paths[:3]]


@pytest.mark.slow
@pytest.mark.timeout(7200)  # training alone takes minutes
@pytest.mark.usefixtures("whole_forests")
def test_nine_in_ten_explanations_find_the_truths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gelgt.training.columns_fit.EPOCH", 40)  # as users get it
    # four minutes on a quiet machine; a busy one must not leave the model half trained
    monkeypatch.setattr("gelgt.demo.run.TIME_LIMIT", 600)
    demo = Demo(tmp_path)
    demo.write_shop()
    demo.import_shop()
    demo.make_task()
    config, options = demo.training()
    run = train_run(demo.db, demo.task, demo.run, config, options)
    at, shop = demo.shop.test_seed_times[-1], sqlite3.connect(demo.shop.path)
    buyers = shop.execute(
        "SELECT DISTINCT customer_id FROM orders WHERE placed_at < ? ORDER BY customer_id", (at,)
    ).fetchall()
    drawn = np.random.default_rng(0).choice([key for (key,) in buyers], CUSTOMERS, replace=False)
    found, noise, areas = 0, [], []
    for why in Explainer(Predictor(run, demo.db, device="cpu")).explain_all(drawn.tolist(), at):
        found += finds_the_truths(why, *last_order(shop, int(why.entity), at))
        noise.append(sum(bool(NOISE & set(effect.path)) for effect in why.effects[:3]))
        areas.append([why.check[name] for name in ("area", "area_attention", "area_random")])
        assert abs(why.prediction - why.base - sum(e.effect for e in why.effects)) < 1e-3
    own, attention, random = np.array(areas).T
    counts = (
        f"truths found for {found} of {CUSTOMERS} customers, noise among the three strongest "
        f"effects of {sum(map(bool, noise))}; area {own.mean():.3f}"
    )
    print(counts)
    assert found >= 0.9 * CUSTOMERS, counts
    assert max(noise) <= 1, counts
    for name, other in (("attention", attention), ("random", random)):
        gain = own - other
        margin = 1.96 * gain.std() / np.sqrt(len(gain))
        ahead = f"{gain.mean():.3f} ± {margin:.3f} over {name} ({other.mean():.3f})"
        print(ahead)
        assert gain.mean() - margin > 0, ahead
