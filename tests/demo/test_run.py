"""The steps of the demo: what each leaves, and what it refuses to touch. `tests/cli/test_demo.py`
runs them all."""

from pathlib import Path

import pytest

from gelgt.demo.run import TASK, Demo, learned
from gelgt.errors import GelgtError
from gelgt.explain import WholeExplanation
from gelgt.explain.whole import Importance


def test_the_steps_up_to_training(tmp_path: Path) -> None:
    demo = Demo(tmp_path / "demo", seed=3, is_quick=True)
    shop = demo.write_shop()
    schema = demo.import_shop()
    assert set(schema["tables"]) >= {"customers", "orders", "products"}
    task = demo.make_task()
    assert (task.name, str(task.test_timestamp)) == (TASK, shop.test_timestamp)
    config, options = demo.training()
    assert (config.train.seed, config.train.steps_per_epoch) == (3, 3)
    assert options.command == demo.commands["train"]
    assert "--seed 3" in demo.commands["train"]


def test_a_second_demo_replaces_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        demo = Demo(tmp_path, is_quick=True)
        demo.write_shop()
        demo.import_shop()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["project", "shop.db"]


def test_a_project_of_the_users_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    with pytest.raises(GelgtError, match="not from an earlier demo") as error:
        Demo(tmp_path, is_quick=True).write_shop()
    assert error.value.code == "not_empty"
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_what_was_learned_of_each_truth() -> None:
    def importance(name: str, size: float, effect: float = 0.0, share: float = 1.0) -> Importance:
        return Importance(name, size, size, size, effect, share)

    ages = (
        importance("3 to 7 days", 0.2, -0.1, 0.5),
        importance("28 to 35 days", 0.2, 0.2, 0.5),
        importance("60 to 90 days", 0.2, 0.3, 1.0),
    )
    whole = WholeExplanation(
        what="the probability",
        entities=10,
        at="2025-01-01",
        tables=(importance("order_items", 0.15), importance("visits", 0.002)),
        paths=(importance("customers → order_items → products", 0.13),),
        columns=(importance("products.quality", 0.12), importance("orders.channel", 0.01)),
        ages={"orders": ages},
    )
    shown = learned(whole)
    assert shown["repurchase_lag"].startswith(
        "orders of 28 to 35 days raise the probability most (+0.40 where there are any), of 3 to 7 "
        "days least (-0.20)"
    )
    assert "products.quality the probability changes by 0.120" in shown["two_hop_quality"]
    assert "(orders.channel) by 0.010" in shown["two_hop_quality"]
    assert shown["noise"].startswith("page_pings 0.000, visits 0.002")
